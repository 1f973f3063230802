"""The storage interface of registries: reads, guaranteed updates, lists and watches of versioned objects.

A key is ``group/resource/namespace/name`` or ``group/resource/name``; its first two parts name the *bucket*. A value
is a JSON object. Neither caller nor storage changes a value after passing it on. The storage sets
``metadata.resourceVersion`` of each object to the revision of its last write, as a decimal string.

Upstream: k8s.io/apiserver/pkg/storage/interfaces.go (v1.36).
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from opsdk.apiserver.metrics import StorageMetrics
from opsdk.structured_merge.value import JsonObject

__all__ = ["LocalStorage", "Storage"]


class StorageError(Exception):
    """The base of storage errors; registries translate them."""


class KeyNotFoundError(StorageError):
    """No object has this key."""


class KeyExistsError(StorageError):
    """The key already exists."""


class PreconditionError(StorageError):
    """A precondition on the stored object failed; the message names it."""


class CompactedError(StorageError):
    """The revision is older than the storage's history. `oldest` is None if it is unknown."""

    def __init__(self, requested: int, oldest: int | None) -> None:
        self.requested = requested
        self.oldest = oldest
        super().__init__(f"revision {requested} is {'compacted' if oldest is None else f'older than {oldest}'}")


class FutureRevisionError(StorageError):
    """The revision is newer than the storage's current one."""

    def __init__(self, requested: int, current: int) -> None:
        self.requested = requested
        self.current = current
        super().__init__(f"revision {requested} is newer than {current}")


class WatchInterruptedError(StorageError):
    """`StorageWatch.interrupt` ended a wait for the next change; no change is lost."""


class ChangeType(enum.Enum):
    """The kind of a change."""

    PUT = "put"
    """The object was created or replaced."""
    DELETE = "delete"
    """The object was removed."""
    BOOKMARK = "bookmark"
    """No change: all events up to this revision were sent."""


class StorageChange(msgspec.Struct, frozen=True):
    """One event: `value` is the new state (for DELETE the last one, with the revision of the removal)."""

    kind: ChangeType
    key: str
    revision: int
    value: JsonObject | None = None
    previous: JsonObject | None = None

    @property
    def current(self) -> JsonObject | None:
        """The object after the change; None if it was removed."""
        return self.value if self.kind is ChangeType.PUT else None

    @property
    def latest(self) -> JsonObject:
        """The object after the change, or its last state if it was removed. Bookmarks have none."""
        assert self.value is not None
        return self.value

    @classmethod
    def of(cls, key: str, value: JsonObject) -> StorageChange:
        """Return a stored object as a PUT change."""
        return cls(ChangeType.PUT, key, int(value["metadata"].get("resourceVersion", "0")), value)


class StoragePage(msgspec.Struct, frozen=True):
    """A page of a snapshot; `next_key` starts the next page (empty at the end), `remaining` counts later objects."""

    items: Sequence[tuple[str, JsonObject]]
    revision: int
    next_key: str = ""
    remaining: int = 0


class StoragePreconditions(msgspec.Struct, frozen=True, kw_only=True):
    """The UID and resourceVersion that the stored object must have; None matches any."""

    uid: str | None = None
    resource_version: str | None = None

    def check(self, value: JsonObject) -> None:
        """Raise `PreconditionError` if the UID or resourceVersion of `value` differs."""
        meta = value.get("metadata") or {}
        uid, version = meta.get("uid", ""), meta.get("resourceVersion", "")
        if self.uid is not None and self.uid != uid:
            raise PreconditionError(
                f"the UID in the precondition ({self.uid}) does not match the UID in record ({uid})."
                " The object might have been deleted and then recreated"
            )
        if self.resource_version is not None and self.resource_version != version:
            raise PreconditionError(
                f"the ResourceVersion in the precondition ({self.resource_version}) does not match the"
                f" ResourceVersion in record ({version}). The object might have been modified"
            )


class Remove(msgspec.Struct, frozen=True):
    """The result of an update step that removes the object.

    Watches get the previous state; `last` is the state after the update, for the response.
    """

    last: JsonObject


Update = Callable[[JsonObject | None], Awaitable["JsonObject | Remove"]]
"""Maps the current value (None: absent) to the new one. It runs again after a concurrent write."""


class StorageWatch(Protocol):
    """A stream of changes: an async iterator that ends when it is closed, or when its reader is too slow."""

    def __aiter__(self) -> StorageWatch:
        """Return the watch."""
        ...

    async def __anext__(self) -> StorageChange:
        """Return the next change, in revision order."""
        ...

    def ready(self, limit: int) -> list[StorageChange]:
        """Return up to `limit` pending changes without blocking."""
        ...

    @property
    def overflowed(self) -> bool:
        """Whether it ended because the reader was too slow."""
        ...

    def progress(self) -> int | None:
        """Return the revision up to which all changes were read; None if changes are pending."""
        ...

    def interrupt(self) -> None:
        """Make the current or next wait for a change raise `WatchInterruptedError`.

        So a reader with a deadline needs no extra task. Pending changes are returned first.
        """
        ...

    def close(self) -> None:
        """Close the watch; idempotent."""
        ...


class Storage(Protocol):
    """One store with one revision counter, local or remote.

    Besides `StorageError`, a remote storage raises `ApiError`: 503 if no server is reachable, 504 if the outcome of
    a write is unknown. A cancelled call may have written.
    """

    async def get_current_resource_version(self) -> int:
        """Return the revision of the last write."""
        ...

    async def get(self, key: str) -> JsonObject:
        """Return the object of the last acknowledged write. Raises `KeyNotFoundError`."""
        ...

    async def list(self, prefix: str, *, revision: int | None = None, start: str = "", limit: int = 0) -> StoragePage:
        """List objects below `prefix` in key order, from key `start` on, at `revision` (None: the current one).

        A `limit` of 0 means all. Raises `CompactedError` or `FutureRevisionError` for an unavailable revision.
        """
        ...

    async def create(self, key: str, value: JsonObject) -> JsonObject:
        """Store a new object. Raises `KeyExistsError`."""
        ...

    async def guaranteed_update(self, key: str, update: Update) -> JsonObject:
        """Replace the object with the result of `update`, atomically.

        `update` runs again if the object has changed in the meantime. An equal result writes nothing and keeps the
        revision. Return the stored object; after a `Remove`, the previous object with the revision of its removal.
        """
        ...

    async def delete(self, key: str, preconditions: StoragePreconditions | None = None) -> JsonObject:
        """Remove the object; return its last state with the revision of the removal."""
        ...

    async def watch(self, prefix: str, revision: int | None = None) -> StorageWatch:
        """Watch changes below `prefix` after `revision` (None: the current one). Raises `CompactedError`.

        A future revision is awaited.
        """
        ...

    def end_watches(self) -> None:
        """End every watch of this process; new ones can start."""
        ...

    async def aclose(self) -> None:
        """End every watch and release files and connections; idempotent."""
        ...


class LocalStorage(Storage, Protocol):
    """A storage in this process: each method is atomic, so controllers and caches read synchronously.

    The methods with ``_now`` are synchronous versions of those of `Storage`.

    Attributes:
        failure: why the last write could not be stored; empty after one that was. Readiness reports it.
        metrics: get the latencies of requests; None measures nothing.
    """

    failure: str
    metrics: StorageMetrics | None

    @property
    def current_rv(self) -> int:
        """The revision of the last write."""
        ...

    def get_now(self, key: str) -> JsonObject:
        """See `Storage.get`."""
        ...

    def list_now(self, prefix: str, *, revision: int | None = None, start: str = "", limit: int = 0) -> StoragePage:
        """See `Storage.list`."""
        ...

    def create_now(self, key: str, value: JsonObject) -> JsonObject:
        """See `Storage.create`."""
        ...

    def delete_now(self, key: str, preconditions: StoragePreconditions | None = None) -> JsonObject:
        """See `Storage.delete`."""
        ...

    def watch_now(self, prefix: str, revision: int | None = None) -> StorageWatch:
        """See `Storage.watch`."""
        ...

    def drop_history(self, prefix: str) -> None:
        """Drop the history of the bucket of `prefix`, and end its watches, so that readers list again."""
        ...

    def compact(self, revision: int, *, watches: bool = True) -> None:
        """Drop the history up to and including `revision`; the current state stays.

        Lists at older revisions raise `CompactedError`. With `watches` False, watches can still start there, as with
        kube-apiserver's watch cache.
        """
        ...

    def subscribe(self, listener: Callable[[StorageChange], None], *prefixes: str) -> None:
        """Call `listener` with each change in the buckets of `prefixes` (none: of all), in order.

        A bucket may have keys without that prefix too. The listener must not block or raise.
        """
        ...

    def unsubscribe(self, listener: Callable[[StorageChange], None]) -> None:
        """Stop calling `listener`, if it is subscribed."""
        ...

    def close(self) -> None:
        """End every watch and close files; idempotent."""
        ...
