"""Views of the operator that are held back: watches that stand still, or that hide an event."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from opsdk.engine.world.link import MAX_STALE_WRITES
from opsdk.engine.writes import Entry

__all__ = ["HeldViews"]

_MAX_SECONDS: Final = 100.0
"""Virtual seconds after which a view moves on in any case: longer than a rest, so that the next action meets it, and
shorter than users wait for the end of a deletion."""


class HeldViews:
    """The views that are held back in one run.

    All move on together: at the rest after the next action, or once they are limited, after ten writes of the operator
    or 100 seconds. A view is named by the path of its watch, or by the client and the path.

    Args:
        seconds: after which limited views move on.
    """

    def __init__(self, seconds: float = _MAX_SECONDS) -> None:
        self._seconds = seconds
        self._held: dict[str, asyncio.Event] = {}
        self._hidden_keys: set[str] = set()
        self._action = -1
        self._writes = 0
        self._limited = False
        self._new: set[str] = set()
        self._unseen: set[str] = set()
        self._missed: set[str] = set()

    @property
    def any_held(self) -> bool:
        """Whether a view is held back now."""
        return bool(self._held)

    @property
    def has_missed(self) -> bool:
        """Whether users created and deleted an object that the operator never saw: what it did not do is right then."""
        return bool(self._missed)

    @property
    def names(self) -> Collection[str]:
        """The names of the views that are held back."""
        return self._held.keys()

    def stop(self, name: str, action: int, keys: Collection[str] = (), *, limited: bool = True) -> None:
        """Let a watch stand still, from a message about some objects on; `action` was taken last.

        Without a limit, `limit` is called later.
        """
        self._action = action
        self._unseen.update(self._new.intersection(keys))
        self._held[name] = asyncio.Event()
        if limited:
            self.limit()

    def hide(self, events: Mapping[str, asyncio.Event], keys: Collection[str], action: int) -> None:
        """Hide objects of the events, by client, until one of them changes again."""
        self._action = action
        self._held.update(events)
        self._hidden_keys.update(keys)
        self._unseen.update(self._new.intersection(keys))
        self.limit()

    def limit(self) -> None:
        """Let the views move on after some writes, or some time from now."""
        self._limited = True
        asyncio.get_running_loop().call_later(self._seconds, self.release)

    async def wait(self, name: str) -> None:
        """Wait until a watch moves on."""
        while (event := self._held.get(name)) is not None:
            await event.wait()

    def on_entry(self, entry: Entry, *, own: bool) -> None:
        """Note a stored write, of the operator or of others."""
        self._writes += own and self._limited and self.any_held
        name = entry.key.partition("/")[2].partition("/")[2]
        self._note(name, entry, own=own)
        if self._writes >= MAX_STALE_WRITES or name in self._hidden_keys:
            self.release()

    def _note(self, name: str, entry: Entry, *, own: bool) -> None:
        """Note what the operator may not see of an object of the users."""
        if own or entry.before is not None:
            self._new.discard(name)
        if own:
            self._unseen.discard(name)
        elif entry.before is None:
            self._missed.discard(name)
            self._new.add(name)
        elif entry.after is None and name in self._unseen:
            self._unseen.discard(name)
            self._missed.add(name)

    def release_after(self, action: int) -> bool:
        """Let the views move on if an action came after they were held. Return whether they did."""
        if not self.any_held or action <= self._action:
            return False
        self.release()
        return True

    def release(self) -> None:
        """Let all views move on."""
        held, self._held = self._held, {}
        self._unseen.clear()
        for event in held.values():
            event.set()
