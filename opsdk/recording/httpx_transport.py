"""A transport of httpx whose responses a recording keeps and a replay answers.

An operator that calls another system with httpx passes it to its client::

    client = httpx.AsyncClient(transport=RecordedTransport(name="dns"))

Import this module from here: an operator without httpx does not load it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import httpx
import msgspec

from opsdk.errors import UsageError
from opsdk.recording.boundary import BOUNDARY
from opsdk.recording.calls import call_method

__all__ = ["RecordedTransport"]

_UNRECORDED: Final = frozenset({b"set-cookie"})
"""Headers that may be credentials. A replay sends no request, so it needs none."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a request, or why there is none.

    Attributes:
        status: of the response.
        headers: of the response, in their order.
        body: as it came, with its content encoding.
        error: the name of the exception of httpx instead of a response; else empty.
        message: of the exception.
    """

    status: int = 0
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""
    error: str = ""
    message: str = ""


class RecordedTransport(httpx.AsyncBaseTransport):
    """Sends requests with another transport, and lets a recording keep the responses.

    A recording has method, address and path of each request, and the whole response without cookies. It has neither
    headers nor query nor body of the request: these may hold credentials. A response without end cannot be recorded.
    Without a recording, requests and responses pass through as they are.

    Args:
        name: of the system in recordings; another one for each system.
        transport: that sends the requests; None for that of httpx.

    Raises:
        UsageError: the name is empty.
    """

    def __init__(self, *, name: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        if not name:
            raise UsageError('RecordedTransport needs a name, such as RecordedTransport(name="dns")')
        self._name = name
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request: of the system, or in a replay the recorded one."""
        if BOUNDARY.get() is None:
            return await self._transport.handle_async_request(request)

        async def send(url: str) -> _Answer:  # noqa: ARG001 - a recording keeps the arguments
            return await self._send(request)

        url = request.url.copy_with(query=None, fragment=None, username=None, password=None)
        answer = await call_method(f"{self._name}.{request.method}", send, str(url))
        if answer.error:
            raise getattr(httpx, answer.error, httpx.TransportError)(answer.message, request=request)
        stream = httpx.ByteStream(answer.body)
        return httpx.Response(answer.status, headers=answer.headers, stream=stream, request=request)

    async def _send(self, request: httpx.Request) -> _Answer:
        try:
            response = await self._transport.handle_async_request(request)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            # As the response came: the client decodes it.
            body = b"".join([chunk async for chunk in response.stream])
            await response.aclose()
        except httpx.TransportError as error:
            return _Answer(error=type(error).__name__, message=str(error))
        headers = [each for each in response.headers.raw if each[0].lower() not in _UNRECORDED]
        return _Answer(status=response.status_code, headers=headers, body=body)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(exc_type, exc_value, traceback)

    async def aclose(self) -> None:
        """Close the other transport."""
        await self._transport.aclose()
