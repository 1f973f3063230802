"""Detects deleted objects in a stale cache. Pure.

An informer that lists from a lagging API server may show an object that its watch has already shown as deleted. A
lifecycle would then run ``create`` for a deleted object. opsdk's cache hides only objects that this process deleted.

Upstream: github.com/rancher/lasso/pkg/controller (recentDeletions)
Deviates: an object with a newer resource version is not stale. It left the scope of the informer and came back.
"""

from __future__ import annotations

from opsdk.cache.own_writes import revision_of

KEEP_SECONDS = 60.0
"""Seconds for which a deletion is remembered; stale lists are rarely older."""
RETRY_SECONDS = 10.0
"""Seconds before a stale object is reconciled again."""
_MAX_DELETIONS = 1000


class RecentDeletions:
    """The deletions of the last minute, at most 1,000.

    >>> deletions = RecentDeletions()
    >>> deletions.record("uid-1", "7", now=0.0)
    >>> deletions.is_stale("uid-1", "7", now=1.0), deletions.is_stale("uid-1", "9", now=1.0)
    (True, False)
    """

    def __init__(self, *, keep: float = KEEP_SECONDS) -> None:
        self._keep_seconds = keep
        # uid -> time and version, the oldest first.
        self._deleted: dict[str, tuple[float, str]] = {}

    def record(self, uid: str, resource_version: str, *, now: float) -> None:
        """Record the deletion of an object whose last known version is `resource_version`."""
        self._drop_expired(now)
        self._deleted.pop(uid, None)
        self._deleted[uid] = (now, resource_version)
        if len(self._deleted) > _MAX_DELETIONS:
            del self._deleted[next(iter(self._deleted))]

    def is_stale(self, uid: str, resource_version: str, *, now: float) -> bool:
        """Whether a cached object is known to be deleted."""
        self._drop_expired(now)
        if uid not in self._deleted:
            return False
        before, current = revision_of(self._deleted[uid][1]), revision_of(resource_version)
        return before is None or current is None or current <= before

    def _drop_expired(self, now: float) -> None:
        while self._deleted:
            uid, (deleted_at, _) = next(iter(self._deleted.items()))
            if deleted_at > now - self._keep_seconds:
                return
            del self._deleted[uid]

    def __len__(self) -> int:
        """Return the number of deletions that are remembered."""
        return len(self._deleted)

    def __repr__(self) -> str:
        return f"<RecentDeletions: {len(self)} of the last {self._keep_seconds:g} s>"
