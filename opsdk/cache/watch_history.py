"""What the watches of a reflector have shown, and what the end of one means for the next. Pure: the caller passes time.

A watch that ends without an error is an ordinary end, unless it was short and sent no object. Several such watches in a
row mean that the resource version is stale. Connections break; but if the watch after a broken one breaks without an
object, resuming does not help. An expired resource version needs a list, and a second one in a row a wait before it.
"""

from __future__ import annotations

from enum import Enum

import msgspec

# A watch that ends sooner and without an object is a failure (errVeryShortWatch in client-go).
_SHORT_WATCH = 1.0
# Seconds after which a watch counts as healthy: its end is no reason to wait longer than after the first failure.
_HEALTHY_WATCH = 5.0
# After this many short watches in a row, assume that the resource version is stale, and list again.
_STALE_AFTER = 5


class WatchVerdict(Enum):
    """What to do after a watch has ended."""

    RESUME = "resume"
    """Watch again at once, after the last resource version."""
    RESUME_LATER = "resume later"
    """Wait for the backoff, then watch again."""
    CHECK_LATER = "check later"
    """Wait for the backoff, check the server's resource version, then watch again."""
    LIST = "list"
    """List at once."""
    LIST_LATER = "list later"
    """Wait for the backoff, then list."""


class SavedHistory(msgspec.Struct, frozen=True, array_like=True):
    """A `WatchHistory` while a watch is open, for checkpoints.

    Attributes:
        opened_at: when the server accepted the watch.
        events: it has sent an event.
        objects: it has sent an object.
        short: short watches in a row before it.
        broken: the one before it broke.
        expired: the resource version has expired, and no event came since.
        tries: of the reflector's backoff.
        tried_at: when the last of them was made; None before the first.
    """

    opened_at: float | None
    events: bool
    objects: bool
    short: int
    broken: bool
    expired: bool
    tries: int
    tried_at: float | None


class WatchHistory:
    """The current watch, and how those before it ended.

    Call `started`, `opened`, `received` for each event and `ended` in this order for each watch. After `ended`, ask one
    of the verdicts.
    """

    __slots__ = ("_broken", "_events", "_expired", "_objects", "_opened_at", "_seconds", "_short")

    def __init__(self) -> None:
        self._opened_at: float | None = None
        self._seconds: float | None = None
        """How long the last watch was open; None if the server did not accept it."""
        self._events = False
        self._objects = False
        self._short = 0
        self._broken = False
        self._expired = False

    def started(self) -> None:
        """A watch request is sent."""
        self._opened_at, self._events, self._objects = None, False, False

    def opened(self, now: float) -> None:
        """The server accepted the watch."""
        self._opened_at = now

    def received(self, *, is_object: bool, in_list: bool) -> None:
        """An event has arrived.

        Args:
            is_object: it is not a bookmark.
            in_list: it belongs to a streaming list that is not complete.
        """
        self._events = True
        if not in_list:
            self._expired = False
        if is_object:
            self._objects, self._short, self._broken = True, 0, False

    def listed(self) -> None:
        """A list is complete: the resource version is fresh."""
        self._short = 0

    def ended(self, now: float) -> None:
        """The watch has ended, or was not accepted."""
        self._seconds = None if self._opened_at is None else now - self._opened_at
        self._opened_at = None

    def works(self, now: float) -> bool:
        """Whether a watch is open that lasts for a second, or has sent an event."""
        return self._opened_at is not None and (self._events or now - self._opened_at >= _SHORT_WATCH)

    def save(self, tries: int, tried_at: float | None) -> SavedHistory:
        """Return everything, with the state of the reflector's backoff."""
        return SavedHistory(
            self._opened_at, self._events, self._objects, self._short, self._broken, self._expired, tries, tried_at
        )

    def restore(self, saved: SavedHistory) -> None:
        """Continue another history."""
        self._opened_at, self._events, self._objects = saved.opened_at, saved.events, saved.objects
        self._short, self._broken, self._expired = saved.short, saved.broken, saved.expired

    # -------------------------------------------------------------- verdicts about the last watch
    @property
    def was_healthy(self) -> bool:
        """Whether the last watch was open for so long that failures count from one again."""
        return self._seconds is not None and self._seconds >= _HEALTHY_WATCH

    def after_close(self) -> WatchVerdict:
        """Return what follows a stream that ended without an error."""
        if self._objects or (self._seconds or 0.0) >= _SHORT_WATCH:
            self._short = 0
            return WatchVerdict.RESUME
        self._short += 1
        if self._short < _STALE_AFTER:
            return WatchVerdict.RESUME_LATER
        self._short = 0
        return WatchVerdict.LIST_LATER

    def after_expiry(self) -> WatchVerdict:
        """Return what follows 410 Gone.

        A version that expires at once, time after time, must not make a busy loop of lists.
        """
        again, self._expired = self._expired, True
        return WatchVerdict.LIST_LATER if again else WatchVerdict.LIST

    def after_break(self) -> WatchVerdict:
        """Return what follows a broken connection: resume once, and list if the next watch breaks without an object."""
        if self._seconds is None or self._broken:
            return WatchVerdict.LIST_LATER
        self._broken = True
        return WatchVerdict.CHECK_LATER
