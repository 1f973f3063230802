"""Periodic compaction: old revisions expire for lists and continue tokens.

Upstream: k8s.io/apiserver/pkg/storage/etcd3/compact.go (v1.36)
Deviates: watches keep their history window, which kube-apiserver has in its watch cache.
"""

from __future__ import annotations

import asyncio

from opsdk.apiserver.storage.ports import LocalStorage, StorageChange

INTERVAL = 300.0
"""Seconds; the default of kube-apiserver's ``--etcd-compaction-interval``."""


class Compactor:
    """Compacts to the revision of one interval ago, so a revision lives for one to two intervals.

    The timer runs only while the storage has revisions to compact, so it does not hide deadlocks in virtual time.

    Args:
        interval: seconds of `clock`; 0 turns compaction off.
    """

    def __init__(self, storage: LocalStorage, *, interval: float = INTERVAL) -> None:
        self._storage = storage
        self._interval = interval
        self._recorded = 0
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Compactor: next to revision {self._recorded}>"

    def start(self) -> None:
        """Begin the first interval."""
        if self._interval > 0:
            self._recorded = self._storage.current_rv
            self._storage.subscribe(self._follow)

    def close(self) -> None:
        """Stop; idempotent."""
        self._storage.unsubscribe(self._follow)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _follow(self, _: StorageChange) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._compact)

    def _compact(self) -> None:
        self._timer = None
        # A restored snapshot may have an older revision than the one recorded.
        current = self._storage.current_rv
        self._storage.compact(min(self._recorded, current), watches=False)
        if self._recorded != current:
            self._recorded = current
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._compact)
