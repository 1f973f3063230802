"""WebSockets of the client: the same messages, whatever pieces the network makes of the frames."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import ConnectionLostError, ResponseLimitError
from opsdk.http.client.upgrade import UpgradedExchange
from opsdk.http.client.websocket import MAX_MESSAGE_BYTES, ClientWebSocket

frames = pytest.importorskip("websockets.frames", reason="needs the extra pods: pip install opsdk[pods]")


class FakeExchange:
    """An upgraded connection that delivers given bytes, and then its end."""

    status = 101
    refusal = None

    def __init__(self, data: bytes, cuts: list[int]) -> None:
        self.headers: dict[str, str] = {}
        edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        self._pieces = iter([data[start:end] for start, end in itertools.pairwise(edges)])
        self.sent = bytearray()

    async def read(self) -> bytes:
        return next(self._pieces, b"")

    async def write(self, data: bytes) -> None:
        self.sent += data


def serialized(opcode: Any, data: bytes, *, fin: bool = True) -> bytes:
    """A frame of the server."""
    return cast("bytes", frames.Frame(opcode, data, fin=fin).serialize(mask=False))


def close(code: int) -> bytes:
    """A close frame."""
    return serialized(frames.Opcode.CLOSE, code.to_bytes(2, "big") + b"why")


async def received(data: bytes, cuts: list[int]) -> tuple[list[bytes], str]:
    """The messages in the bytes, and the error after them."""
    socket = ClientWebSocket(cast("UpgradedExchange", FakeExchange(data, cuts)), _nothing)
    messages = []
    try:
        while message := await socket.read():
            messages.append(message)
    except (ConnectionLostError, ResponseLimitError) as error:
        return messages, str(error)
    return messages, ""


async def _nothing() -> None:
    """Release no connection."""


@given(
    messages=st.lists(st.lists(st.binary(max_size=200), min_size=1, max_size=3), max_size=5),
    cuts=st.lists(st.integers(min_value=0), max_size=12),
    lost=st.integers(0, 100),
)
def test_messages_do_not_depend_on_the_cuts(messages: list[list[bytes]], cuts: list[int], lost: int) -> None:
    """Fragments are joined, pings are no messages, and only bytes up to the close frame end without an error."""
    data = b""
    for parts in messages:
        data += serialized(frames.Opcode.PING, b"p")
        for number, part in enumerate(parts):
            opcode = frames.Opcode.CONT if number else frames.Opcode.BINARY
            data += serialized(opcode, part, fin=number == len(parts) - 1)
    data += close(1000)
    expected = [whole for parts in messages if (whole := b"".join(parts))]
    assert asyncio.run(received(data, cuts)) == (expected, "")
    begun, error = asyncio.run(received(data[: -1 - lost % len(data)], cuts))
    assert begun == expected[: len(begun)]
    assert "without a close frame" in error


async def test_wrong_frames_are_typed_errors() -> None:
    """A close with an error, a message that is too long, and bytes that are no frames are errors."""
    assert await received(serialized(frames.Opcode.BINARY, b"a") + close(1011), []) == (
        [b"a"],
        "the server closed the WebSocket: 1011 why",
    )
    _, error = await received(b"\x82\x7f" + (MAX_MESSAGE_BYTES + 1).to_bytes(8, "big"), [])
    assert f"more than {MAX_MESSAGE_BYTES} bytes" in error
    _, error = await received(b"\xff" * 20, [])
    assert "valid WebSocket frames" in error


async def test_nothing_is_sent_after_the_close() -> None:
    """A message after the server's close is a lost connection."""
    exchange = FakeExchange(close(1000), [])
    socket = ClientWebSocket(cast("UpgradedExchange", exchange), _nothing)
    await socket.send(b"x")
    assert exchange.sent
    assert await socket.read() == b""
    with pytest.raises(ConnectionLostError, match="closed"):
        await socket.send(b"x")
