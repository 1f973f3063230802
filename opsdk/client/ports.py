"""The seams of the client: who carries operations out, and what readers and writers offer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from opsdk.api.gvk import ObjectKey
from opsdk.api.kinds import KindLike
from opsdk.api.object import AnyObject, ObjectList
from opsdk.api.watch import WatchEvent
from opsdk.client.operations import Operation, Watch
from opsdk.scheme.mapper import RestMapper
from opsdk.scheme.registry import Scheme

T = TypeVar("T", bound=AnyObject)


class Performer(Protocol):
    """Carries operations out. The direct client, the cached reader, wrappers and fakes are performers."""

    scheme: Scheme
    mapper: RestMapper

    async def perform(self, operation: Operation) -> Any:
        """The result: the object for one that has it, an `ObjectList` for lists, None for deletes."""
        ...

    def watch(self, operation: Watch) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """A stream of changes; entering it raises what the server says no with."""
        ...


class Reader(Protocol):
    """What reads objects."""

    async def get(self, kind: KindLike[T], key: ObjectKey | str, *, namespace: str = "", live: bool = False) -> T:
        """One object; `NotFoundError` if there is none."""
        ...

    async def list(
        self,
        kind: KindLike[T],
        *,
        namespace: str = "",
        labels: Any = None,
        fields: Any = None,
        limit: int | None = None,
        live: bool = False,
    ) -> ObjectList[T]:
        """The objects that are selected."""
        ...
