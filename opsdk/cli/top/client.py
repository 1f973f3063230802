"""Reads the debug pages of one operator, and sends its actions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import islice
from urllib.parse import urlsplit

import msgspec

from opsdk.aio.closing import Closing
from opsdk.cli.top.untrusted import clean, mapping
from opsdk.errors import ApiError, ConnectError, DecodeError, NotFoundError, TransportError, UsageError
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

# Seconds for one page: the operator gives its own functions ten.
_TIMEOUT = 12.0
# Bytes of one page.
_MAX_PAGE = 32 << 20
_MAX_PAGES = 100
_PAGE_PATH = re.compile(r"/debug/([A-Za-z0-9_-]{1,100})")
# Pages that are requested at once: a busy operator computes one after the other anyway.
_PARALLEL = 3

Open = Callable[[], AbstractAsyncContextManager[str]]
"""Makes the debug pages reachable while its block runs, and returns their URL."""


def check_url(url: str) -> str:
    """Return the URL without a slash at its end. Raises `UsageError` if it is not one of a server."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UsageError(f"--url is {url!r}: write http://host:port")
    return url.rstrip("/")


class DebugClient(Closing):
    """The debug pages of one operator. After a failure, the next call connects again.

    Args:
        name: of the operator's address, for messages.
        open_url: makes the pages reachable, for example by a port-forward.
        explain: returns why a connection was lost, if more is known than its error says; else empty.
    """

    def __init__(self, name: str, open_url: Open, *, explain: Callable[[], str] = str) -> None:
        self.name = name
        self._open_url = open_url
        self._explain = explain
        self._stack = AsyncExitStack()
        self._transport: Transport | None = None
        self._turns = asyncio.Semaphore(_PARALLEL)
        self._connecting = asyncio.Lock()

    async def pages(self, names: Collection[str] | None = None) -> dict[str, object]:
        """Return the pages that the operator serves.

        Args:
            names: only these; None for all.

        Raises:
            TransportError: it cannot be reached.
            ApiError, DecodeError: the server there is not an operator's.
        """
        try:
            chosen = [name for name in self._served(await self._page("")) if names is None or name in names]
            values = await self._all(chosen)
        except (TransportError, ApiError, DecodeError):
            await self._disconnect()
            raise
        return {name: value for name, value in zip(chosen, values, strict=True) if value is not None}

    async def _all(self, names: Sequence[str]) -> list[object]:
        """Return pages. The first failure ends the others: each would connect again."""
        reading = [asyncio.ensure_future(self._page_or_none(name)) for name in names]
        try:
            return list(await asyncio.gather(*reading))
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    def _served(self, index: object) -> list[str]:
        """Return the names of the pages in the index, at most 100. Raises `DecodeError` if it is another page."""
        paths = islice(mapping(mapping(index).get("pages")), _MAX_PAGES)
        served = [match[1] for path in paths if (match := _PAGE_PATH.fullmatch(path))]
        if not served:
            raise DecodeError(f"{self.name} lists no debug pages: is this the debug address of an operator?")
        return served

    async def reconcile(self, controller: str, namespace: str, name: str) -> str:
        """Queue a request now. Returns the outcome in words. Raises `ApiError` if the operator refuses."""
        body = msgspec.json.encode({"controller": controller, "namespace": namespace, "name": name})
        request = RestRequest("POST", "/debug/reconcile", headers={"Content-Type": "application/json"}, body=body)
        answer = await (await self._connected()).send(request, timeout=_TIMEOUT, retry=False)
        if answer.status != 202:
            text = clean(answer.body.decode(errors="replace").strip(), 500)
            raise ApiError(text or f"HTTP {answer.status}", code=answer.status)
        return clean(mapping(_decode(answer.body, self.name)).get("outcome"), 200)

    async def _page_or_none(self, name: str) -> object:
        """Return a page; None if the operator cannot show it now, which must not hide the others."""
        try:
            async with self._turns:
                return await self._page(name)
        except (ApiError, DecodeError):
            return None

    async def _page(self, name: str) -> object:
        transport = await self._connected()
        pieces: list[bytes] = []
        length = 0
        request = RestRequest("GET", f"/debug/{name}")
        try:
            async with transport.stream(request, timeout=_TIMEOUT, idle_timeout=_TIMEOUT, retry=False) as stream:
                async for piece in stream:
                    length += len(piece)
                    if length > _MAX_PAGE:
                        raise DecodeError(f"{self.name}: the page {name or '/debug/'} is longer than {_MAX_PAGE} bytes")
                    pieces.append(piece)
        except NotFoundError as error:
            raise NotFoundError(f"{self.name}: {error}. Is this the debug address of an operator?") from error
        except TransportError as error:
            reason = self._explain() or str(error)
            raise ConnectError(
                f"{self.name} cannot be reached: {reason}. Start the operator with --debug-bind-address, or forward "
                "its port"
            ) from error
        return _decode(b"".join(pieces), self.name)

    async def _connected(self) -> Transport:
        async with self._connecting:
            if self._transport is None:
                url = await self._stack.enter_async_context(self._open_url())
                self._transport = await self._stack.enter_async_context(Transport(RestConfig(host=url)))
            return self._transport

    async def _disconnect(self) -> None:
        self._transport = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._disconnect()

    def __repr__(self) -> str:
        return f"<DebugClient of {self.name}>"


def _decode(data: bytes, name: str) -> object:
    try:
        value: Mapping[str, object] | object = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise DecodeError(f"{name} did not return JSON: {error}") from error
    return value
