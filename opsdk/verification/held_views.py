"""Views of the operator that are held back: watches that stand still, or that hide an event."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from opsdk.engine.writes import Entry

__all__ = ["HeldViews"]

_MAX_WRITES: Final = 10
"""Writes on a stale view, after which it moves on. An operator that sees a deleted owner creates a child that the
garbage collector deletes, again and again: that is not its bug."""
_MAX_SECONDS: Final = 100.0
"""Virtual seconds after which a view moves on in any case: longer than a rest, so that the next action meets it, and
shorter than users wait for the end of a deletion."""


class HeldViews:
    """The views that are held back in one run.

    All move on together: at the rest after the next action, after ten writes of the operator, or after 100 seconds.
    """

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Event] = {}
        self._hidden_keys: set[str] = set()
        self._action = -1
        self._writes = 0

    @property
    def any_held(self) -> bool:
        """Whether a view is held back now."""
        return bool(self._held)

    @property
    def paths(self) -> Collection[str]:
        """The paths of the watches that are held back."""
        return self._held.keys()

    def stop(self, path: str, action: int) -> None:
        """Let the watch of a path stand still; `action` was taken last."""
        self._hold({path: asyncio.Event()}, action)

    def hide(self, events: Mapping[str, asyncio.Event], keys: Collection[str], action: int) -> None:
        """Hide objects of the events, by client, until one of them changes again."""
        self._hidden_keys.update(keys)
        self._hold(events, action)

    def _hold(self, events: Mapping[str, asyncio.Event], action: int) -> None:
        self._action = action
        self._held.update(events)
        asyncio.get_running_loop().call_later(_MAX_SECONDS, self.release)

    async def wait(self, path: str) -> None:
        """Wait until the watch of a path moves on."""
        while (event := self._held.get(path)) is not None:
            await event.wait()

    def on_entry(self, entry: Entry, *, own: bool) -> None:
        """Note a stored write, of the operator or of others."""
        self._writes += own and self.any_held
        name = entry.key.partition("/")[2].partition("/")[2]
        if self._writes >= _MAX_WRITES or name in self._hidden_keys:
            self.release()

    def at_rest(self, action: int) -> bool:
        """Return whether the views move on now, at the rest after an action."""
        if not self.any_held or action <= self._action:
            return False
        self.release()
        return True

    def release(self) -> None:
        """Let all views move on."""
        held, self._held = self._held, {}
        for event in held.values():
            event.set()
