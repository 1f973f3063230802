"""TLS over transports: order of events, backpressure, ends, time limits, and asyncio's TLS as the peer."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from http_servers import listening, port_of
from tls_sessions import NAME, contexts, read_some

from opsdk.http.client.checked_socket import open_socket
from opsdk.http.tls_session import TlsSession, TlsState
from opsdk.http.tls_transport import SHUTDOWN_TIMEOUT, TlsTransport, connect_tls, start_tls

VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


class Upper(asyncio.Protocol):
    """Keeps the order of events."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.data = bytearray()
        self.transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_made: Callable[[asyncio.Transport], None] = lambda _: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        assert isinstance(transport, TlsTransport)
        self.transport = transport
        self.events.append("made")
        self.on_made(transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self.events[-1] != "data":
            self.events.append("data")
        self.data += data

    def eof_received(self) -> None:
        """See asyncio."""
        self.events.append("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self.events.append(type(exc) if exc is not None else "lost")
        self.lost.set_result(None)

    def pause_writing(self) -> None:
        """See asyncio."""
        self.events.append("pause")

    def resume_writing(self) -> None:
        """See asyncio."""
        self.events.append("resume")

    async def has(self, count: int) -> None:
        """Until so many bytes have come."""
        while len(self.data) < count:
            assert not self.lost.done(), f"lost after {len(self.data)} of {count} bytes: {self.events}"
            await asyncio.sleep(0.001)


class Lower(asyncio.Transport):
    """A transport whose socket is a list."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.protocol: asyncio.BaseProtocol | None = None
        self.sent: list[bytes] = []
        self.calls: list[str] = []
        self.unsent = 0

    def take(self) -> bytes:
        """Everything that was written since the last call."""
        data = b"".join(self.sent)
        self.sent.clear()
        return data

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio."""
        if data:
            self.sent.append(bytes(data))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See asyncio."""
        self.protocol = protocol

    def close(self) -> None:
        """See asyncio."""
        self.calls.append("close")

    def abort(self) -> None:
        """See asyncio."""
        self.calls.append("abort")

    def pause_reading(self) -> None:
        """See asyncio."""
        self.calls.append("pause_reading")

    def resume_reading(self) -> None:
        """See asyncio."""
        self.calls.append("resume_reading")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio."""
        self.calls.append(f"limits {high} {low}")

    def get_write_buffer_size(self) -> int:
        """See asyncio."""
        return self.unsent


class Joined:
    """A server's `TlsTransport` over a list, and the client's session."""

    def __init__(self, on_made: Callable[[asyncio.Transport], None] = lambda _: None) -> None:
        both = contexts()
        self.upper, self.lower = Upper(), Lower()
        self.upper.on_made = on_made
        self.tls = TlsTransport(self.upper, TlsSession(both.server, server_side=True), handshake_timeout=10)
        self.tls.connection_made(self.lower)
        self.client = TlsSession(both.client, server_hostname=NAME)

    def shake(self, *first: bytes) -> None:
        """Complete the handshake; the last flight also has the first bytes."""
        self.client.start()
        self.tls.data_received(self.client.outgoing.read())
        self.client.receive(self.lower.take())
        for data in first:
            self.client.write(data)
        self.tls.data_received(self.client.outgoing.read())
        self.client.receive(self.lower.take())


async def test_events_in_order() -> None:
    """Connection, data, EOF, end; the transport closes after the peer's close_notify, with its own."""
    joined = Joined()
    joined.shake(b"a", b"b")
    assert joined.tls.opened.done()
    joined.client.write(b"c")
    joined.client.close()
    joined.tls.data_received(joined.client.outgoing.read())
    assert (joined.upper.events, joined.upper.data) == (["made", "data", "eof"], b"abc")
    assert joined.tls.is_closing()
    assert joined.lower.calls == ["close"]
    joined.client.receive(joined.lower.take())
    assert (joined.client.state, joined.client.error) == (TlsState.CLOSED, None)
    joined.tls.connection_lost(None)
    assert joined.upper.events[-1] == "lost"


async def test_a_write_is_one_write_below() -> None:
    """Data that fits in a record is one lower write, and larger data few writes."""
    joined = Joined()
    joined.shake()
    joined.tls.write(b"x" * 1000)
    assert [len(data) for data in joined.lower.sent] == [1022]
    joined.tls.writelines([b"head", b"body"])
    assert joined.client.receive(joined.lower.take()) == b"x" * 1000 + b"headbody"
    joined.tls.write(bytes(1 << 20))
    assert len(joined.lower.sent) == 4
    assert joined.client.receive(joined.lower.take()) == bytes(1 << 20)


async def test_a_protocol_that_pauses_when_it_is_connected() -> None:
    """Bytes that came with the end of the handshake are delivered after `resume_reading`, in order, then the EOF."""
    joined = Joined(lambda transport: transport.pause_reading())
    joined.shake(b"early")
    joined.client.write(b" and late")
    joined.client.close()
    joined.tls.data_received(joined.client.outgoing.read())
    assert joined.upper.events == ["made"]
    assert not joined.tls.is_reading()
    joined.tls.resume_reading()
    joined.tls.resume_reading()
    await asyncio.sleep(0)
    assert (joined.upper.events, joined.upper.data) == (["made", "data", "eof"], b"early and late")
    assert joined.lower.calls == ["pause_reading", "resume_reading", "close"]


async def test_nothing_is_delivered_after_close() -> None:
    """After close, no data reaches the protocol, even if it closes in connection_made."""
    joined = Joined(lambda transport: transport.close())
    joined.shake(b"early")
    joined.tls.data_received(b"late")
    assert joined.upper.events == ["made"]
    joined.tls.write(b"ignored")
    assert joined.client.receive(joined.lower.take()) == b""


async def test_closing_during_the_handshake() -> None:
    """The protocol is never connected, whatever still arrives."""
    joined = Joined()
    joined.tls.close()
    joined.client.start()
    joined.tls.data_received(joined.client.outgoing.read())
    joined.tls.connection_lost(None)
    assert (joined.upper.events, joined.lower.calls) == ([], ["close", "close"])
    with pytest.raises(ConnectionAbortedError, match="closed during the TLS handshake"):
        await joined.tls.opened


async def test_the_lower_transport_limits_the_buffer() -> None:
    """Buffer limits and pauses of the TLS transport are those of the lower transport."""
    joined = Joined()
    joined.tls.pause_writing()
    joined.tls.resume_writing()
    joined.shake()
    joined.tls.set_write_buffer_limits(high=10)
    joined.tls.pause_writing()
    joined.lower.unsent = 7
    assert joined.tls.get_write_buffer_size() == 7
    joined.tls.resume_writing()
    assert joined.upper.events == ["made", "pause", "resume"]
    assert joined.lower.calls == ["limits 10 None"]


class Renegotiating:
    """A connection of `ssl` in a renegotiation: writes fail until a read ends it."""

    def __init__(self, real: ssl.SSLObject) -> None:
        self._real = real
        self.active = True

    def write(self, data: bytes) -> int:
        """See `ssl.SSLObject`."""
        if self.active:
            raise ssl.SSLWantReadError
        return self._real.write(data)

    def read(self, size: int) -> bytes:
        """See `ssl.SSLObject`."""
        self.active = False
        return self._real.read(size)


async def test_a_renegotiation_pauses_the_writer() -> None:
    """Bytes wait for its end, in order, and the protocol is paused meanwhile."""
    joined = Joined()
    joined.shake()
    # Python cannot start a renegotiation.
    session = joined.tls._session
    session.object = Renegotiating(session.object)  # type: ignore[assignment]
    joined.tls.write(b"a")
    joined.tls.write(b"b")
    assert joined.upper.events == ["made", "pause"]
    assert joined.tls.get_write_buffer_size() == 2
    joined.client.write(b"x")
    joined.tls.data_received(joined.client.outgoing.read())
    assert joined.upper.events == ["made", "pause", "data", "resume"]
    assert joined.client.receive(joined.lower.take()) == b"ab"


async def test_a_peer_that_sends_no_close_notify() -> None:
    """The transport waits for a limited time, but not while the peer still reads what was written."""
    joined = Joined(lambda transport: transport.pause_reading())
    joined.shake()
    joined.lower.unsent = 1000
    joined.tls.close()
    joined.tls.close()
    assert joined.lower.calls == ["pause_reading", "resume_reading"]
    await asyncio.sleep(SHUTDOWN_TIMEOUT * 0.9)
    joined.lower.unsent = 500
    await asyncio.sleep(SHUTDOWN_TIMEOUT)
    assert "abort" not in joined.lower.calls
    await asyncio.sleep(SHUTDOWN_TIMEOUT)
    assert joined.lower.calls[-1] == "abort"


@pytest.mark.parametrize("connected", [False, True])
async def test_an_eof_without_close_notify_is_an_error(connected: bool) -> None:
    """An EOF without close_notify is an error, because an attacker can cause it."""
    joined = Joined()
    if connected:
        joined.shake(b"half")
    assert joined.tls.eof_received() is False
    assert joined.tls.is_closing()
    joined.tls.connection_lost(None)
    if connected:
        assert joined.upper.events == ["made", "data", EOFError]
    else:
        with pytest.raises(ConnectionResetError, match="during the TLS handshake"):
            await joined.tls.opened


async def test_an_invalid_record_after_data() -> None:
    """The data is delivered, the alert is sent, and the connection ends with the error."""
    joined = Joined()
    joined.shake()
    joined.client.write(b"data")
    joined.tls.data_received(joined.client.outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32))
    assert (joined.upper.events, joined.upper.data) == (["made", "data"], b"data")
    assert joined.lower.calls == ["abort"]
    joined.client.receive(joined.lower.take())
    assert (joined.client.error and joined.client.error.reason) == "SSLV3_ALERT_BAD_RECORD_MAC"
    joined.tls.connection_lost(None)
    assert joined.upper.events[-1] is ssl.SSLError


async def test_extra_info_of_a_transport() -> None:
    """TLS and socket, without a copy of the certificate."""
    joined = Joined()
    joined.shake()
    infos = [joined.tls.get_extra_info(name) for name in ("peername", "peercert", "sslcontext", "nothing")]
    assert infos == [("127.0.0.1", 1), None, contexts().server, None]
    assert joined.tls.get_extra_info("cipher")[1] == "TLSv1.3"
    assert joined.tls.get_extra_info("ssl_object").version() == "TLSv1.3"
    assert joined.tls.get_protocol() is joined.upper
    assert not joined.tls.can_write_eof()
    assert repr(joined.tls).startswith("<TlsTransport open over")


# ------------------------------------------------------------------ sockets
@asynccontextmanager
async def peer(
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, *, tls: bool = True
) -> AsyncIterator[tuple[int, asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]]:
    """A server of asyncio: its port, and its connections."""
    accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    context = contexts(version).server if tls else None

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await accepted.put((reader, writer))

    async with listening(accept, tls=context) as server:
        yield port_of(server), accepted


async def connected(port: int, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Upper:
    """A protocol over our TLS."""
    upper = Upper()
    session = TlsSession(contexts(version).client, server_hostname=NAME)
    await connect_tls(await open_socket("127.0.0.1", port), upper, session, handshake_timeout=10)
    return upper


@VERSIONS
async def test_asyncio_as_the_server(version: ssl.TLSVersion) -> None:
    """A megabyte each way, then both sides close."""
    async with peer(version) as (port, accepted):
        upper = await connected(port, version)
        reader, writer = await accepted.get()
        assert upper.transport is not None
        upper.transport.write(bytes(1 << 20))
        assert await reader.readexactly(1 << 20) == bytes(1 << 20)
        writer.write(b"x" * (1 << 20))
        await upper.has(1 << 20)
        upper.transport.close()
        await upper.lost
        assert await reader.read() == b""
    assert upper.events[:2] == ["made", "data"]
    assert upper.events[-1] == "lost"


async def test_a_peer_that_does_not_read() -> None:
    """The writer is paused at the limit and resumed when the peer reads; every byte arrives."""
    async with peer() as (port, accepted):
        upper = await connected(port)
        reader, _ = await accepted.get()
        assert upper.transport is not None
        upper.transport.set_write_buffer_limits(high=1 << 16)
        sent = 0
        while upper.events[-1] != "pause":
            upper.transport.write(bytes(1 << 14))
            sent += 1 << 14
        assert upper.transport.get_write_buffer_size() < (1 << 16) + (1 << 15)
        assert len(await reader.readexactly(sent)) == sent
        assert upper.events == ["made", "pause", "resume"]
        upper.transport.abort()
        await upper.lost


async def test_a_paused_protocol_gets_data_later() -> None:
    """While reading is paused nothing is delivered; afterwards everything is."""
    async with peer() as (port, accepted):
        upper = await connected(port)
        _, writer = await accepted.get()
        assert upper.transport is not None
        upper.transport.pause_reading()
        writer.write(bytes(1 << 20))
        await asyncio.sleep(1)
        assert upper.events == ["made"]
        upper.transport.resume_reading()
        await upper.has(1 << 20)
        upper.transport.abort()
        await upper.lost


async def test_a_server_that_never_answers_the_handshake() -> None:
    """The connection is aborted after the time limit."""
    async with peer(tls=False) as (port, _):
        with pytest.raises(ConnectionAbortedError, match="took longer than 10 s"):
            await connected(port)


async def test_a_server_that_closes_during_the_handshake() -> None:
    """The client's error is a reset."""
    async with peer(tls=False) as (port, accepted):
        connecting = asyncio.create_task(connected(port))
        reader, writer = await accepted.get()
        await reader.read(1)
        await reader.read(1 << 16)
        writer.close()
        with pytest.raises(ConnectionResetError):
            await connecting


@pytest.mark.parametrize("steps", range(6))
async def test_a_connect_that_is_cancelled(steps: int) -> None:
    """The socket is closed, whenever the cancellation comes."""
    async with peer(tls=False) as (port, accepted):
        connecting = asyncio.create_task(connected(port))
        reader, _ = await accepted.get()
        for _ in range(steps):
            await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await reader.read()
        assert reader.at_eof()


async def test_tls_inside_tls() -> None:
    """A tunnel through an HTTPS proxy: the inner connection uses the outer one as its transport."""
    async with peer() as (port, accepted):
        outer = await connected(port)
        reader, writer = await accepted.get()
        assert outer.transport is not None
        inner = Upper()
        session = TlsSession(contexts().client, server_hostname=NAME)
        starting = asyncio.create_task(start_tls(outer.transport, inner, session))
        far = TlsSession(contexts().server, server_side=True)
        far.start()
        while far.state is TlsState.HANDSHAKING:
            far.receive(await read_some(reader))
            writer.write(far.outgoing.read())
        await starting
        far.write(b"through")
        writer.write(far.outgoing.read())
        await inner.has(7)
        assert inner.transport is not None
        inner.transport.write(b"back")
        assert far.receive(await reader.read(1 << 16)) == b"back"
        assert inner.transport.get_extra_info("socket").family == socket.AF_INET
        inner.transport.abort()
        await inner.lost
    assert outer.events == ["made"]
