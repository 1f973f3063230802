"""Upgrade requests to applications in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import UPGRADE
from opsdk.http.client.in_process import AsgiBackend
from opsdk.http.client.request import Pairs, ResponseStream
from opsdk.http.server.upgrade import UpgradedStream


class BidirectionalStream(ResponseStream, Protocol):
    """The response to an upgrade request; after status 101 both sides send bytes."""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the peer does not read. Raises `ConnectionLostError`."""
        ...

    def abort(self) -> None:
        """Close the connection immediately; idempotent."""
        ...


class _Wire:
    """One direction between two streams: writes to one are reads of the other."""

    def __init__(self) -> None:
        self.to: UpgradedStream | None = None
        self.closing = False
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.back: _Wire | None = None

    def write(self, data: bytes) -> None:
        assert self.to is not None
        self.to.feed(data)

    async def drained(self) -> None:
        await self.flowing.wait()

    def hold(self, *, reading: bool) -> None:
        """See `BidirectionalStream`: pause or resume the sender."""
        assert self.back is not None
        if reading:
            self.back.flowing.set()
        else:
            self.back.flowing.clear()

    def close(self) -> None:
        """Close both directions."""
        for wire in (self, self.back):
            assert wire is not None
            assert wire.to is not None
            wire.closing = True
            wire.to.end()
            wire.flowing.set()


def tunnels() -> tuple[UpgradedStream, UpgradedStream]:
    """Return the two ends of an in-memory connection."""
    there, back = _Wire(), _Wire()
    there.back, back.back = back, there
    near, far = UpgradedStream(there, there.close), UpgradedStream(back, back.close)
    there.to, back.to = far, near
    return near, far


class _Inside:
    """A `BidirectionalStream` to an application: its response, and the connection after an upgrade."""

    def __init__(self, backend: AsgiBackend, asking: asyncio.Task[ResponseStream]) -> None:
        self._backend = backend
        self._asking = asking
        self._tunnel: UpgradedStream | None = None
        self.status = 0
        self.headers: dict[str, str] = {}

    def upgrade(self, headers: list[tuple[bytes, bytes]]) -> UpgradedStream:
        """See `UPGRADE`; returns the application's end."""
        far, self._tunnel = tunnels()
        self.status = 101
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        return far

    async def read(self) -> bytes:
        return await (self._asking.result() if self._tunnel is None else self._tunnel).read()

    async def write(self, data: bytes) -> None:
        if self._tunnel is None:
            raise ConnectionLostError(f"the application answered {self.status} and has not switched")
        await self._tunnel.write(data)

    def abort(self) -> None:
        if self._tunnel is not None:
            self._tunnel.close()
        self._asking.cancel()

    async def aclose(self) -> None:
        self.abort()
        await self._backend.aclose()
        await asyncio.wait({self._asking})


async def upgrade_in_process(
    make_backend: Callable[[Mapping[str, Any]], AsgiBackend], method: str, target: str, headers: Pairs
) -> BidirectionalStream:
    """Send an upgrade request to an application in this process; `make_backend` takes the additional extensions."""
    switched = asyncio.Event()
    exchange: _Inside

    def upgrade(pairs: list[tuple[bytes, bytes]]) -> UpgradedStream:
        switched.set()
        return exchange.upgrade(pairs)

    backend = make_backend({UPGRADE: upgrade})
    asking = asyncio.ensure_future(backend.exchange(method, target, headers, b""))
    exchange = _Inside(backend, asking)
    switching = asyncio.ensure_future(switched.wait())
    try:
        await asyncio.wait({asking, switching}, return_when=asyncio.FIRST_COMPLETED)
    except BaseException:
        await exchange.aclose()
        raise
    finally:
        switching.cancel()
    if not switched.is_set():
        answer = asking.result()
        exchange.status, exchange.headers = answer.status, answer.headers
    return exchange
