"""The client of functions that block.

Upstream: none; the client of controller-runtime blocks its goroutine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast, overload

from opsdk.aio.blocking import Waiting, waits_for
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import KindLike
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.client.client import Client, SubResourceClient
from opsdk.client.options import ApplyKeywords, DeleteKeywords, WriteKeywords
from opsdk.client.patch import Patch

__all__ = ["BlockingClient"]

P = ParamSpec("P")
T = TypeVar("T", bound=AnyObject)
Item = TypeVar("Item")


def _iterates(
    method: Callable[Concatenate[Client, P], AsyncIterator[Item]],
) -> Callable[Concatenate[BlockingClient, P], Iterator[Item]]:
    """Return the blocking form of a method that returns an async iterator."""

    @wraps(method)
    def iterate(self: BlockingClient, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Item]:
        return self._iterate(method(self.target, *args, **kwargs))

    return iterate


def _opens(
    method: Callable[Concatenate[Client, P], AbstractAsyncContextManager[AsyncIterator[Item]]],
) -> Callable[Concatenate[BlockingClient, P], AbstractContextManager[Iterator[Item]]]:
    """Return the blocking form of a method that returns an async context manager with an iterator."""

    @wraps(method)
    def open_block(
        self: BlockingClient, /, *args: P.args, **kwargs: P.kwargs
    ) -> AbstractContextManager[Iterator[Item]]:
        return self._open(method(self.target, *args, **kwargs))

    return open_block


class BlockingClient(Waiting[Client]):
    """A `Client` whose methods block instead of being awaited. They have the same names, arguments and errors.

    It works in functions that opsdk runs in a thread: plain reconcilers and finalizers get one as ``ctx.client``. A
    function that is decorated with `opsdk.aio.blocking.blocking` creates one::

        @blocking
        def map_to_sites(secret: Secret) -> list[Request]:
            sites = BlockingClient(operator.client).list(Site, namespace=secret.metadata.namespace)
            return [Request.of(site) for site in sites]

    Besides the errors of `Client`, each method raises ``asyncio.CancelledError`` when the function should end, and
    `UsageError` in async code.

    Args:
        target: sends the requests.
    """

    @property
    def scheme(self) -> Scheme:
        """The registry of kinds and classes."""
        return self.target.scheme

    @property
    def mapper(self) -> RestMapper:
        """The mapping from kinds to resources. Its methods are async."""
        return self.target.mapper

    get = waits_for(Client.get)
    get_or_none = waits_for(Client.get_or_none)
    list = waits_for(Client.list)
    list_pages = _iterates(Client.list_pages)
    watch = _opens(Client.watch)
    create = waits_for(Client.create)
    update = waits_for(Client.update)
    patch = waits_for(Client.patch)
    apply = waits_for(Client.apply)
    delete_all_of = waits_for(Client.delete_all_of)

    @overload
    def delete(self, target: AnyObject, /, **options: Unpack[DeleteKeywords]) -> None: ...
    @overload
    def delete(
        self,
        target: KindLike[AnyObject],
        key: ObjectKey | str,
        /,
        *,
        namespace: str = "",
        **options: Unpack[DeleteKeywords],
    ) -> None: ...
    def delete(
        self,
        target: AnyObject | KindLike[AnyObject],
        key: ObjectKey | str | None = None,
        /,
        *,
        namespace: str = "",
        **options: Unpack[DeleteKeywords],
    ) -> None:
        """See `Client.delete`."""
        self._wait(self.target.delete(target, key, namespace=namespace, **options))  # type: ignore[arg-type]

    def status(self) -> BlockingSubResourceClient:
        """Return the client for ``status``. Its writes change only the status."""
        return BlockingSubResourceClient(self.target.status(), self._call)

    def subresource(self, name: str) -> BlockingSubResourceClient:
        """Return the client for a subresource such as ``scale``, ``eviction``, ``token`` or ``binding``."""
        return BlockingSubResourceClient(self.target.subresource(name), self._call)

    def _iterate(self, items: AsyncIterator[Item]) -> Iterator[Item]:
        ended = object()

        async def following() -> Item | object:
            return await anext(items, ended)

        while (item := self._wait(following())) is not ended:
            yield item  # type: ignore[misc] # it is not `ended`

    @contextmanager
    def _open(self, block: AbstractAsyncContextManager[AsyncIterator[Item]]) -> Iterator[Iterator[Item]]:
        async def enter() -> AsyncIterator[Item]:
            return await block.__aenter__()

        async def leave(*error: Any) -> None:
            await block.__aexit__(*error)

        items = self._wait(enter())
        try:
            yield self._iterate(items)
        finally:
            self._wait(leave(None, None, None), always=True)

    def __repr__(self) -> str:
        return f"<BlockingClient over {self.target!r}>"


class BlockingSubResourceClient(Waiting[SubResourceClient]):
    """The verbs of one subresource; they block. See `SubResourceClient`."""

    get = waits_for(SubResourceClient.get)
    create = waits_for(SubResourceClient.create)

    @overload
    def update(self, obj: T, body: None = None, **options: Unpack[WriteKeywords]) -> T: ...
    @overload
    def update(self, obj: AnyObject, body: T, **options: Unpack[WriteKeywords]) -> T: ...
    def update(self, obj: AnyObject, body: AnyObject | None = None, **options: Unpack[WriteKeywords]) -> AnyObject:
        """See `SubResourceClient.update`."""
        return cast("AnyObject", self._wait(self.target.update(obj, cast("Any", body), **options)))

    @overload
    def patch(self, obj: T, patch: Patch, body: None = None, **options: Unpack[WriteKeywords]) -> T: ...
    @overload
    def patch(self, obj: AnyObject, patch: Patch, body: T, **options: Unpack[WriteKeywords]) -> T: ...
    def patch(
        self, obj: AnyObject, patch: Patch, body: AnyObject | None = None, **options: Unpack[WriteKeywords]
    ) -> AnyObject:
        """See `SubResourceClient.patch`."""
        return cast("AnyObject", self._wait(self.target.patch(obj, patch, cast("Any", body), **options)))

    @overload
    def apply(self, obj: T, body: None = None, **options: Unpack[ApplyKeywords]) -> T: ...
    @overload
    def apply(self, obj: AnyObject, body: T, **options: Unpack[ApplyKeywords]) -> T: ...
    def apply(self, obj: AnyObject, body: AnyObject | None = None, **options: Unpack[ApplyKeywords]) -> AnyObject:
        """See `SubResourceClient.apply`."""
        return cast("AnyObject", self._wait(self.target.apply(obj, cast("Any", body), **options)))
