"""The storage on etcd v3.

A write is one transaction that compares the key's last revision, so etcd serializes the writers. Reads are
linearizable: each returns all writes that were acknowledged before, by any replica.

If the response of a write is lost, the storage resolves the outcome:

* An update or deletion compares a revision, which never repeats. It is sent again; if the key has changed, the first
  change after that revision identifies this write by its bytes.
* A deletion counts as done if that first change is a deletion, even by another writer.
* A creation is not sent again, because it could restore an object that was deleted in the meantime. If the key has the
  object, the creation is done. Otherwise it may still take effect: the client gets a 504.

Upstream: k8s.io/apiserver/pkg/storage/etcd3/store.go (v1.36).
Deviates: an unknown outcome is resolved; upstream returns a 500 or 504.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

from opsdk.aio.closing import Closing
from opsdk.aio.randomness import loop_random
from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.client import EtcdClient, Rpc
from opsdk.apiserver.storage.etcd.compactor import EtcdCompactor
from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure
from opsdk.apiserver.storage.etcd.failure import LastFailure
from opsdk.apiserver.storage.etcd.options import EtcdOptions
from opsdk.apiserver.storage.etcd.transactions import Transactions
from opsdk.apiserver.storage.etcd.values import StoredObject, decode, encode, range_end
from opsdk.apiserver.storage.etcd.watches import Watches
from opsdk.apiserver.storage.objects import bucket_of, same_but_revision, with_revision
from opsdk.apiserver.storage.ports import (
    CompactedError,
    FutureRevisionError,
    KeyExistsError,
    KeyNotFoundError,
    Remove,
    StoragePage,
    StoragePreconditions,
    StorageWatch,
    Update,
)
from opsdk.errors import ConnectError
from opsdk.structured_merge.value import JsonObject

__all__ = ["EtcdStorage"]


class EtcdStorage(Closing):
    """A `Storage` on an etcd cluster. Several processes may use one prefix at the same time.

    Enter it, or call `start`, in the event loop that uses it:

        async with EtcdStorage(EtcdOptions(endpoints=("http://127.0.0.1:2379",))) as storage:
            server = extension_server(resources_of(Book, storage), ...)

    Args:
        options: connection, timeouts and limits.
    """

    def __init__(self, options: EtcdOptions | None = None) -> None:
        self.options = options or EtcdOptions()
        self._client = EtcdClient(self.options)
        self._failure = LastFailure()
        self._transactions = Transactions(self._client)
        self._watches = Watches(self._client, self.options)
        self._compactor = EtcdCompactor(self._client, interval=self.options.compaction_interval)

    def __repr__(self) -> str:
        return f"<EtcdStorage of {self.options!r}: {self._client!r}, {self._watches!r}>"

    @property
    def failure(self) -> str:
        """Why etcd does not serve requests now; empty if the last one was served. Readiness reports it."""
        return self._failure.text

    @property
    def etcd_watches(self) -> int:
        """How many watches etcd has for the readers: one for each resource, and one for each reader that is behind."""
        return len(self._watches)

    async def start(self) -> None:
        """Connect, and start the compactor. Raises `ConnectError` if no member responds within `retry_timeout`."""
        try:
            await self._range(self.options.prefix)
        except EtcdError as error:
            raise ConnectError(
                f"cannot read from etcd at {', '.join(self.options.endpoints)}: {error}; check that a majority of its"
                " members runs, and that URLs, certificates, user and password are right"
            ) from error
        if self.options.compaction_interval:
            self._compactor.start()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    # -------------------------------------------------------------- reads
    async def get_current_resource_version(self) -> int:
        with self._failure.translated("get", "the current resource version"):
            revision: int = (await self._range(self.options.prefix)).header.revision
        return revision

    async def get(self, key: str) -> JsonObject:
        with self._failure.translated("get", key):
            current = await self._read(key)
        if current is None:
            raise KeyNotFoundError(key)
        return current.value

    async def list(self, prefix: str, *, revision: int | None = None, start: str = "", limit: int = 0) -> StoragePage:
        end = range_end(self._key(prefix))
        first = self._key(max(prefix, start))
        revision_read = revision or 0
        items: list[tuple[str, JsonObject]] = []
        with self._failure.translated("list", prefix):
            while True:
                size = min(limit - len(items), self.options.page_limit) if limit else self.options.page_limit
                request = messages.RangeRequest(key=first, range_end=end, limit=size, revision=revision_read)
                response = await self._range_at(request)
                revision_read = revision_read or response.header.revision
                items.extend((self._name(entry), decode(entry).value) for entry in response.kvs)
                remaining = response.count - len(response.kvs)
                if not remaining or len(items) == limit:
                    return StoragePage(items, revision_read, f"{items[-1][0]}\0" if remaining else "", remaining)
                first = response.kvs[-1].key + b"\0"

    async def _read(self, key: str) -> StoredObject | None:
        entries = (await self._range(self._key(key))).kvs
        return decode(entries[0]) if entries else None

    async def _range(self, key: str | bytes) -> Any:
        name = key.encode() if isinstance(key, str) else key
        return (await self._client.request(Rpc.RANGE, messages.RangeRequest(key=name)))[0]

    async def _range_at(self, request: Any) -> Any:
        try:
            return (await self._client.request(Rpc.RANGE, request))[0]
        except EtcdError as error:
            await self._out_of_reach(error, request.revision)

    async def _out_of_reach(self, error: EtcdError, revision: int) -> NoReturn:
        if error.failure is EtcdFailure.COMPACTED:
            raise CompactedError(revision, None) from error
        if error.failure is EtcdFailure.FUTURE:
            raise FutureRevisionError(revision, await self.get_current_resource_version()) from error
        raise error

    def _key(self, key: str) -> bytes:
        return f"{self.options.prefix}{key}".encode()

    def _name(self, entry: Any) -> str:
        name: str = entry.key.decode()
        return name.removeprefix(self.options.prefix)

    # -------------------------------------------------------------- writes
    async def create(self, key: str, value: JsonObject) -> JsonObject:
        """See `Storage.create`. Raises a 504 if the outcome is unknown."""
        with self._failure.translated("create", key):
            revision = await self._transactions.create(self._key(key), value, encode(value, loop_random()))
        if revision is None:
            raise KeyExistsError(key)
        return with_revision(value, revision)

    async def guaranteed_update(self, key: str, update: Update) -> JsonObject:
        with self._failure.translated("get", key):
            current = await self._read(key)
        while True:
            desired = await update(None if current is None else current.value)
            if isinstance(desired, Remove):
                if current is None:
                    raise KeyNotFoundError(key)
                with self._failure.translated("delete", key):
                    revision, newer = await self._transactions.delete(self._key(key), current)
                if revision is not None:
                    return with_revision(current.value, revision)
            elif current is None:
                try:
                    return await self.create(key, desired)
                except KeyExistsError:
                    with self._failure.translated("get", key):
                        newer = await self._read(key)
            elif same_but_revision(current.value, desired):
                return current.value
            else:
                data = encode(desired, loop_random())
                with self._failure.translated("update", key):
                    revision, newer = await self._transactions.replace(self._key(key), current, data)
                if revision is not None:
                    return with_revision(desired, revision)
            current = newer

    async def delete(self, key: str, preconditions: StoragePreconditions | None = None) -> JsonObject:
        with self._failure.translated("get", key):
            current = await self._read(key)
        while current is not None:
            if preconditions is not None:
                preconditions.check(current.value)
            with self._failure.translated("delete", key):
                revision, newer = await self._transactions.delete(self._key(key), current)
            if revision is not None:
                return with_revision(current.value, revision)
            current = newer
        raise KeyNotFoundError(key)

    # -------------------------------------------------------------- watches
    async def watch(self, prefix: str, revision: int | None = None) -> StorageWatch:
        """See `Storage.watch`. A lost connection is reopened after the last change."""
        with self._failure.translated("watch", prefix):
            current = await self._check(revision)
        return self._watches.watch(bucket_of(prefix), prefix, current if revision is None else revision, current)

    async def _check(self, revision: int | None) -> int:
        """Return the current revision, or one that is at least `revision`. Raises `CompactedError`."""
        request = messages.RangeRequest(key=self.options.prefix.encode(), revision=revision or 0)
        try:
            response = await self._range_at(request)
        except FutureRevisionError as error:
            return error.current
        current: int = response.header.revision
        return current

    def end_watches(self) -> None:
        self._watches.end()

    async def aclose(self) -> None:
        await self._compactor.aclose()
        await self._watches.aclose()
        await self._client.aclose()
