"""Delete Events an hour after their last write, the default of kube-apiserver's ``--event-ttl``."""

from __future__ import annotations

import asyncio

from opsdk.aio.clock import monotonic
from opsdk.apiserver.storage.ports import (
    ChangeType,
    KeyNotFoundError,
    LocalStorage,
    PreconditionError,
    StorageChange,
    StoragePreconditions,
)

EVENTS = "core/events/"
"""The storage prefix of events of both APIs."""
TTL = 3600.0
"""Lifetime of an Event in seconds."""


class EventExpiry:
    """Deletes Events after their TTL. One timer runs, only while there are Events."""

    def __init__(self, storage: LocalStorage, *, ttl: float = TTL) -> None:
        self._storage = storage
        self._ttl = ttl
        # By key, in the order of expiry: a write moves its key to the end.
        self._due: dict[str, tuple[float, str]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<EventExpiry: {len(self._due)} events>"

    def start(self) -> None:
        """Follow the storage; the TTL of existing Events starts now."""
        self._storage.subscribe(self._follow, EVENTS)
        for key, value in self._storage.list_now(EVENTS).items:
            self._follow(StorageChange.of(key, value))

    def close(self) -> None:
        """Stop; idempotent."""
        self._storage.unsubscribe(self._follow)
        self._due.clear()
        self._arm()

    def _follow(self, change: StorageChange) -> None:
        if not change.key.startswith(EVENTS):
            return
        self._due.pop(change.key, None)
        if change.kind is ChangeType.PUT and change.value is not None:
            version = change.value["metadata"].get("resourceVersion", "")
            self._due[change.key] = (monotonic() + self._ttl, version)
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None and not self._due:
            self._timer.cancel()
            self._timer = None
        elif self._timer is None and self._due:
            # If a write postponed the event, start the next timer.
            when, _ = next(iter(self._due.values()))
            self._timer = asyncio.get_running_loop().call_later(when - monotonic(), self._forget)

    def _forget(self) -> None:
        self._timer = None
        now = monotonic()
        over = [(key, version) for key, (when, version) in self._due.items() if when <= now]
        for key, version in over:
            self._due.pop(key, None)
            try:
                self._storage.delete_now(key, StoragePreconditions(resource_version=version))
            except (KeyNotFoundError, PreconditionError):
                continue  # deleted concurrently
        self._arm()
