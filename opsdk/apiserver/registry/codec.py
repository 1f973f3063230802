"""Between the version that a store works in and the one that is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from opsdk.apiserver.storage.ports import Change, Tree, Watch
from opsdk.tree.identity import IdentityCache


class Codec(Protocol):
    """Converts; `ApiError` where it cannot. Arguments stay as they are."""

    async def read(self, objects: Sequence[Tree]) -> Sequence[Tree]:
        """Kept objects, each of the version it was written in, in the store's version."""
        ...

    async def write(self, obj: Tree) -> Tree:
        """An object of the store's version, in the version that is kept."""
        ...

    @property
    def seen(self) -> IdentityCache[asyncio.Future[Tree]]:
        """What `read` makes of objects for one watcher, for the others."""
        ...


class DecodingWatch:
    """A watch whose objects are in the store's version. Raises where one cannot be converted, once."""

    def __init__(self, inner: Watch, codec: Codec) -> None:
        self._inner = inner
        self._codec = codec
        self._busy = False

    def __aiter__(self) -> DecodingWatch:
        return self

    async def __anext__(self) -> Change:
        change = await anext(self._inner)
        self._busy = True
        try:
            return replace(change, value=await self._read(change.value), previous=await self._read(change.previous))
        finally:
            self._busy = False

    async def _read(self, obj: Tree | None) -> Tree | None:
        """In the store's version; who comes while another watcher converts the object waits for that."""
        if obj is None:
            return None
        seen = self._codec.seen
        while (pending := seen.get(obj)) is not None:
            await asyncio.wait((pending,))
            if not pending.cancelled() and pending.exception() is None:
                return pending.result()
            if seen.get(obj) is pending:
                break
        mine: asyncio.Future[Tree] = asyncio.get_running_loop().create_future()
        seen.put(obj, mine)
        try:
            [shown] = await self._codec.read([obj])
        except BaseException:
            mine.cancel()
            raise
        mine.set_result(shown)
        return shown

    def ready(self, limit: int) -> list[Change]:
        """Nothing: a conversion may have to wait."""
        del limit
        return []

    @property
    def overflowed(self) -> bool:
        """See `Watch`."""
        return self._inner.overflowed

    def progress(self) -> int | None:
        """See `Watch`."""
        return None if self._busy else self._inner.progress()

    def close(self) -> None:
        """See `Watch`."""
        self._inner.close()
