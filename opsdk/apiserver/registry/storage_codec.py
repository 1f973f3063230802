"""Converts between the store's version and the storage version.

Upstream: k8s.io/apiserver/pkg/server/storage/storage_codec.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from opsdk.apiserver.storage.ports import StorageChange, StorageWatch
from opsdk.errors import ApiError
from opsdk.structured_merge.identity_cache import IdentityCache
from opsdk.structured_merge.value import JsonObject


class StorageCodec(Protocol):
    """Converts objects from and to the storage version. Raises `ApiError`. Arguments are not changed."""

    async def read(self, objects: Sequence[JsonObject]) -> Sequence[JsonObject]:
        """Convert stored objects, which may have different versions, to the store's version."""
        ...

    async def write(self, obj: JsonObject) -> JsonObject:
        """Convert an object of the store's version to the storage version."""
        ...

    @property
    def decoded_objects(self) -> IdentityCache[asyncio.Future[JsonObject]]:
        """The cache of converted objects, for `recall`."""
        ...


class UndecodableObjectError(Exception):
    """The object of a watch event cannot be converted; the next read tries again."""


async def recall(codec: StorageCodec, objects: Sequence[JsonObject]) -> Sequence[JsonObject]:
    """Convert as `StorageCodec.read` does, with a cache; one call converts all missing objects.

    Concurrent calls for an object wait for the same conversion.
    """
    decoded = codec.decoded_objects
    while True:
        futures = [decoded.get(obj) for obj in objects]
        if running := [pending for pending in futures if pending is not None and not pending.done()]:
            await asyncio.wait(running)
            continue
        lost = [i for i, future in enumerate(futures) if future is None or future.cancelled()]
        read_objects = iter(await _read(codec, [objects[i] for i in lost]))
        return [next(read_objects) if future is None or future.cancelled() else future.result() for future in futures]


async def _read(codec: StorageCodec, objects: Sequence[JsonObject]) -> Sequence[JsonObject]:
    loop = asyncio.get_running_loop()
    own_futures: list[asyncio.Future[JsonObject]] = [loop.create_future() for _ in objects]
    for obj, pending in zip(objects, own_futures, strict=True):
        codec.decoded_objects.put(obj, pending)
    try:
        objects_read = await codec.read(objects) if objects else ()
    except BaseException:
        for pending in own_futures:
            pending.cancel()
        raise
    for pending, read_object in zip(own_futures, objects_read, strict=True):
        pending.set_result(read_object)
    return objects_read


class DecodingWatch:
    """A watch that converts its objects to the store's version.

    Raises `UndecodableObjectError` if a conversion fails. No event is skipped: the next read tries it again.
    """

    def __init__(self, inner: StorageWatch, codec: StorageCodec) -> None:
        self._inner = inner
        self._codec = codec
        self._change: StorageChange | None = None

    def __aiter__(self) -> DecodingWatch:
        return self

    async def __anext__(self) -> StorageChange:
        if self._change is None:
            self._change = await anext(self._inner)
        change = self._change
        objects = [obj for obj in (change.value, change.previous) if obj is not None]
        try:
            objects_read = iter(await recall(self._codec, objects))
        except ApiError as error:
            raise UndecodableObjectError from error
        self._change = None
        value, previous = (None if obj is None else next(objects_read) for obj in (change.value, change.previous))
        return replace(change, value=value, previous=previous)

    def ready(self, limit: int) -> list[StorageChange]:
        """Return no changes, because a conversion is asynchronous."""
        del limit
        return []

    @property
    def overflowed(self) -> bool:
        return self._inner.overflowed

    def progress(self) -> int | None:
        return None if self._change is not None else self._inner.progress()

    def interrupt(self) -> None:
        """See `StorageWatch`; a running conversion is not interrupted, but the next wait is."""
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()
