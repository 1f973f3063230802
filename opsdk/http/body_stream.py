"""`BodyStream`: the body of a client's request, sent as it arrives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable

from opsdk.errors import UsageError


class BodyStream:
    """A request body that arrives in chunks, and is sent once.

    The next chunk is awaited after the connection has taken the one before, so at most one is held. A request is never
    repeated after its body was started. An exception of `chunks` ends the request, and the call raises it.

    Args:
        chunks: the body. Empty chunks are left out. A generator is closed at the end of the request.
        length: bytes of the whole body, sent as Content-Length. None if it is unknown: then the body is chunked.

    Attributes:
        length: as above.
        started: whether the first chunk was awaited.
        sent: bytes that the connection has taken so far.
    """

    def __init__(self, chunks: AsyncIterable[bytes], *, length: int | None = None) -> None:
        self._chunks = chunks
        self.length = length
        self.started = False
        self.sent = 0

    def __repr__(self) -> str:
        length = "unknown length" if self.length is None else f"{self.length} bytes"
        return f"<BodyStream of {length}, {self.sent} sent>"

    @property
    def framing(self) -> tuple[str, str]:
        """The header that states where the body ends."""
        return ("Transfer-Encoding", "chunked") if self.length is None else ("Content-Length", str(self.length))

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the chunks, once.

        Raises:
            UsageError: the body was started before, or has another length than stated. A longer one would be read as
                the next request.
        """
        if self.started:
            raise UsageError("the body of a request can be sent only once")
        self.started = True
        chunks = aiter(self._chunks)
        try:
            async for chunk in chunks:
                if self.length is not None and self.sent + len(chunk) > self.length:
                    raise UsageError(f"the body is longer than its stated length of {self.length} bytes")
                if chunk:
                    yield chunk
                    self.sent += len(chunk)
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        if self.length is not None and self.sent < self.length:
            raise UsageError(f"the body ended after {self.sent} of {self.length} bytes")


Body = bytes | BodyStream
