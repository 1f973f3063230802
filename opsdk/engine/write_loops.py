"""Writes that repeat without end. Pure, the caller passes the time.

An operator that writes a timestamp each minute never stops writing: the same writer changes the same fields of the same
object again and again. Such writes are named, and do not keep a run from ending.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

import msgspec

from opsdk.engine.writes import Entry, Ref

__all__ = ["REPEATS", "WriteLoop", "WriteLoops"]

REPEATS: Final = 20
"""Equal writes after which a write counts as repeated."""
_MAX_SOURCES: Final = 100_000
"""Sources of writes that are counted; a run with more has found no loop until then."""


class WriteLoop(msgspec.Struct, frozen=True, kw_only=True):
    """Writes that repeat without end.

    Attributes:
        writer: the field manager, or the user.
        ref: the object, or one of those that it creates.
        paths: the fields that change each time; empty for objects that are created.
        count: how often until the end of the run.
        seconds: between the first and the last of them.
    """

    writer: str
    ref: Ref
    paths: tuple[str, ...]
    count: int
    seconds: float

    def __str__(self) -> str:
        period = self.seconds / max(self.count - 1, 1)
        what = f"changes {', '.join(self.paths)} of {self.ref}" if self.paths else f"creates objects such as {self.ref}"
        return f"{self.writer} {what} again and again: {self.count} times, about every {period:.3g} s"


class _Source(msgspec.Struct):
    writer: str
    ref: Ref
    paths: tuple[str, ...]
    first: float
    last: float
    count: int = 0


class WriteLoops:
    """Counts the writes of a run, and tells those that repeat from new ones."""

    def __init__(self) -> None:
        self._sources: dict[Hashable, _Source] = {}

    def add(self, now: float, entry: Entry, paths: tuple[str, ...]) -> bool:
        """Count a write, with the fields that it changed. Returns whether it is new: it has not been repeated often."""
        source = self._sources.get(key := _identity(entry, paths))
        if source is None:
            if len(self._sources) >= _MAX_SOURCES:
                return True
            source = self._sources[key] = _Source(entry.writer.program, entry.ref, paths, now, now)
        source.count += 1
        source.last = now
        return source.count <= REPEATS

    def found(self, now: float) -> Iterator[WriteLoop]:
        """Yield the writes that repeat, in the order in which they began."""
        for source in self._sources.values():
            if source.count > REPEATS and not _has_ended(source, now):
                yield WriteLoop(
                    writer=source.writer,
                    ref=source.ref,
                    paths=source.paths,
                    count=source.count,
                    seconds=source.last - source.first,
                )


def _has_ended(source: _Source, now: float) -> bool:
    """Whether objects were created or deleted at once, such as children of one owner, and no more since then."""
    return not source.paths and now - source.last > source.last - source.first


def _identity(entry: Entry, paths: tuple[str, ...]) -> Hashable:
    """Return what equal writes have in common. Objects that are created, and go again, have names of their own."""
    writer = (entry.writer.user, entry.writer.manager)
    if entry.verb == "update":
        return (*writer, entry.key, paths)
    metadata = (entry.after or entry.before or {}).get("metadata") or {}
    owners = tuple(str(owner.get("uid")) for owner in metadata.get("ownerReferences") or ())
    ref = entry.ref
    # Without an owner, equal names say what belongs together: site-1, site-2.
    stem = owners or ref.name.rstrip("0123456789")
    return (*writer, entry.verb, ref.group, ref.resource, ref.namespace, stem)
