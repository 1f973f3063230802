"""The latest changes of a list, so that a watch can resume at a revision. Pure.

Upstream: github.com/rancher/steve/pkg/sqlcache/informer/internal/ring/circular_buffer.go
"""

from __future__ import annotations

from collections import deque

import msgspec

from opsdk.cache.entry import StoreEntry
from opsdk.errors import NormanError


class Change(msgspec.Struct, frozen=True):
    """One change of an object.

    Attributes:
        revision: of the list after it.
        old: the object before; None for a new one.
        new: the object after; None for a removed one.
    """

    revision: int
    old: StoreEntry | None
    new: StoreEntry | None

    @property
    def entry(self) -> StoreEntry:
        """The new object, or the last state of a removed one."""
        entry = self.new or self.old
        assert entry is not None
        return entry


class ChangeLog:
    """The latest changes.

    Args:
        size: the number of changes that are kept.
    """

    def __init__(self, size: int = 1000) -> None:
        self._changes: deque[Change] = deque(maxlen=size)
        self._complete_since = 0

    def start(self, revision: int) -> None:
        """Drop all changes: the list begins at a revision."""
        self._changes.clear()
        self._complete_since = revision

    def add(self, change: Change) -> None:
        """Append a change."""
        if len(self._changes) == self._changes.maxlen:
            self._complete_since = self._changes[0].revision
        self._changes.append(change)

    def since(self, revision: int) -> list[Change]:
        """Return the changes after a revision.

        >>> ChangeLog().since(0)
        []

        Raises:
            NormanError: the revision is too old (410): list again.
        """
        if revision < self._complete_since:
            message = f"the revision {revision} is too old: list again"
            raise NormanError(message, status=410, code="Expired", field_name="resourceVersion")
        return [change for change in self._changes if change.revision > revision]

    def __repr__(self) -> str:
        return f"<ChangeLog of {len(self._changes)} changes since {self._complete_since}>"
