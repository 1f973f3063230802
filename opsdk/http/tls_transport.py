"""TLS over any asyncio transport, with buffers that grow as needed.

asyncio's own TLS preallocates 256 KiB for each connection, reads each record until an exception reports that there are
no more, and does not send the alert of a failed handshake. docs/measurements.md compares both.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final, cast

from opsdk.http.receive_buffer import SharedBufferProtocol
from opsdk.http.tls_session import CLOSED, CLOSING, HANDSHAKING, OPEN, PEER_CLOSED, SLICE, TlsSession

HANDSHAKE_TIMEOUT: Final = 60.0
"""Seconds for a handshake (asyncio's default)."""
SHUTDOWN_TIMEOUT: Final = 5.0
"""Seconds without progress after `close`: until the peer reads more, and until it sends its close_notify."""
UpperProtocol = asyncio.Protocol | SharedBufferProtocol
"""A protocol with `data_received`."""
# One write to the socket: a system call each would cost more than the encryption.
_BATCH_BYTES: Final = 16 * SLICE
# Replaces the protocol of a closed connection, which ends the reference cycle between both.
_CLOSED_PROTOCOL: Final = asyncio.Protocol()


class TlsTransport(SharedBufferProtocol, asyncio.Transport):
    """The protocol of a lower transport, and the transport of an upper protocol.

    `connection_made` of the upper protocol is called when the handshake is complete. Ciphertext is buffered in the
    lower transport only, so its limits apply. TLS connections are not half-closed: after `eof_received` the connection
    closes. An EOF without close_notify is an error for `connection_lost`, so a truncated response is noticed.

    Args:
        protocol: the upper protocol.
        session: a session that has not started.
        handshake_timeout: seconds for the handshake.
        shutdown_timeout: see `SHUTDOWN_TIMEOUT`.

    Attributes:
        opened: done when the handshake is complete. Its exception is ``ssl.SSLError``, `ConnectionResetError` if the
            peer closed the connection, or `ConnectionAbortedError` after `handshake_timeout` or `abort`.
    """

    def __init__(
        self,
        protocol: UpperProtocol,
        session: TlsSession,
        *,
        handshake_timeout: float = HANDSHAKE_TIMEOUT,
        shutdown_timeout: float = SHUTDOWN_TIMEOUT,
    ) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self._protocol: UpperProtocol = protocol
        self._session = session
        self._handshake_timeout, self._shutdown_timeout = handshake_timeout, shutdown_timeout
        self._lower: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._error: Exception | None = None
        self._connected = self._closing = False
        self._paused = self._write_paused = self._lower_full = False
        # Plaintext that arrived with the end of the handshake, for a protocol that paused in `connection_made`.
        self._held_plaintext = b""

    # -- asyncio.Protocol, for the lower transport
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`. Starts the handshake."""
        # Not an assertion: transports of uvloop have no base class.
        self._lower = cast("asyncio.Transport", transport)
        self._timer = self._loop.call_later(self._handshake_timeout, self._on_handshake_timeout)
        self._session.start()
        self._flush()
        if self._session.error is not None:
            self._handle_session_state()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        session = self._session
        plaintext = session.receive(data)
        if not self._connected:
            if self._closing or session.error is not None or session.state is HANDSHAKING:
                plaintext = b""
            else:
                self._on_handshake_complete()
        if plaintext and not self._closing:
            if self._paused or self._held_plaintext:
                self._held_plaintext += plaintext
            else:
                self._protocol.data_received(plaintext)
        if session.outgoing.pending:
            self._flush()
        if session.state is not OPEN or self._write_paused:
            self._handle_session_state()

    def eof_received(self) -> bool:
        """See `asyncio.Protocol`. Returns False, so the lower transport sends what is buffered and closes."""
        if not self._closing:
            self._closing = True
            self._error = (
                EOFError("the peer closed the connection without a TLS close_notify")
                if self._connected
                else ConnectionResetError("the peer closed the connection during the TLS handshake")
            )
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        protocol, self._protocol = self._protocol, _CLOSED_PROTOCOL
        error = exc or self._error
        if self._connected:
            protocol.connection_lost(error)
        elif not self.opened.done():
            self.opened.set_exception(error or ConnectionAbortedError("closed during the TLS handshake"))
            # Marks the exception as retrieved, because a cancelled caller does not.
            self.opened.exception()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._lower_full = True
        self._update_writing()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._lower_full = False
        self._update_writing()

    # -- asyncio.Transport, for the upper protocol
    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See `asyncio.Transport`. Bytes that are written during a handshake are sent at its end."""
        if self._closing or self._lower is None:
            return
        session = self._session
        if len(data) > SLICE:
            view = memoryview(data)
            for start in range(0, len(view), _BATCH_BYTES):
                self._write_batch(view[start : start + _BATCH_BYTES])
        else:
            session.write(data)
            self._lower.write(session.outgoing.read())
        if session.backlog or session.state is CLOSED:
            self._handle_session_state()

    def close(self) -> None:
        """See `asyncio.Transport`. Sends close_notify after the buffered bytes, and awaits the peer's."""
        if self._closing or self._lower is None:
            return
        self._closing = True
        self._session.close()
        self._flush()
        if self._session.state is not CLOSING:
            self._lower.close()
            return
        self._lower.resume_reading()
        self._await_shutdown(self._lower.get_write_buffer_size())

    def abort(self) -> None:
        """See `asyncio.Transport`."""
        self._closing = True
        if self._lower is not None:
            self._lower.abort()

    def is_closing(self) -> bool:
        """See `asyncio.Transport`."""
        return self._closing

    def pause_reading(self) -> None:
        """See `asyncio.Transport`."""
        if not self._paused and not self._closing and self._lower is not None:
            self._paused = True
            self._lower.pause_reading()

    def resume_reading(self) -> None:
        """See `asyncio.Transport`."""
        if self._paused and not self._closing and self._lower is not None:
            self._paused = False
            self._lower.resume_reading()
            if self._held_plaintext:
                self._loop.call_soon(self._deliver_held)

    def is_reading(self) -> bool:
        """See `asyncio.Transport`."""
        return not self._paused and not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See `asyncio.Transport`. The limits count ciphertext."""
        if self._lower is not None:
            self._lower.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """See `asyncio.Transport`."""
        waiting = sum(map(len, self._session.backlog))
        return waiting if self._lower is None else waiting + self._lower.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        """See `asyncio.Transport`. Returns False: see the class."""
        return False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See `asyncio.Transport`."""
        self._protocol = cast("UpperProtocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """See `asyncio.Transport`."""
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See `asyncio.Transport`. TLS adds ``ssl_object``, ``sslcontext``, ``peercert`` and ``cipher``."""
        tls = self._session.object
        if name == "ssl_object":
            return tls
        if name == "sslcontext":
            return tls.context
        if name == "peercert":
            # Not kept: a parsed certificate takes several kilobytes.
            return tls.getpeercert()
        if name == "cipher":
            return tls.cipher()
        return default if self._lower is None else self._lower.get_extra_info(name, default)

    # -- internals
    def _on_handshake_complete(self) -> None:
        self._connected = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._protocol.connection_made(self)
        if not self.opened.done():
            self.opened.set_result(None)

    def _write_batch(self, batch: memoryview) -> None:
        assert self._lower is not None
        pieces = []
        for start in range(0, len(batch), SLICE):
            self._session.write(batch[start : start + SLICE])
            pieces.append(self._session.outgoing.read())
        self._lower.write(b"".join(pieces))

    def _flush(self) -> None:
        assert self._lower is not None
        self._lower.write(self._session.outgoing.read())

    def _handle_session_state(self) -> None:
        """React to a session that is not simply open: it ended, the peer closed it, or plaintext waits."""
        assert self._lower is not None
        session = self._session
        if session.error is not None:
            self._error, self._closing = self._error or session.error, True
            self._lower.abort()
        elif session.state is CLOSED:
            self._lower.close()
        elif session.state is PEER_CLOSED and not self._held_plaintext and not self._closing:
            self._protocol.eof_received()
            self.close()
        else:
            self._update_writing()

    def _update_writing(self) -> None:
        full = self._lower_full or bool(self._session.backlog)
        if self._connected and full is not self._write_paused:
            self._write_paused = full
            if full:
                self._protocol.pause_writing()
            else:
                self._protocol.resume_writing()

    def _deliver_held(self) -> None:
        if self._paused or self._closing:
            return
        plaintext, self._held_plaintext = self._held_plaintext, b""
        self._protocol.data_received(plaintext)
        self._handle_session_state()

    def _on_handshake_timeout(self) -> None:
        self._error = ConnectionAbortedError(f"the TLS handshake took longer than {self._handshake_timeout:g} s")
        self.abort()

    def _await_shutdown(self, unsent: int) -> None:
        self._timer = self._loop.call_later(self._shutdown_timeout, self._on_shutdown_timeout, unsent)

    def _on_shutdown_timeout(self, unsent: int) -> None:
        assert self._lower is not None
        remaining = self._lower.get_write_buffer_size()
        if 0 < remaining < unsent:
            self._await_shutdown(remaining)
        else:
            self._lower.abort()

    def __repr__(self) -> str:
        return f"<TlsTransport {self._session.state.name.lower()} over {self._lower!r}>"


async def connect_tls(
    sock: socket.socket,
    protocol: UpperProtocol,
    session: TlsSession,
    *,
    handshake_timeout: float = HANDSHAKE_TIMEOUT,
) -> None:
    """Connect `protocol` to a connected socket through TLS. Return when the handshake is complete.

    The socket belongs to the transport from here on. Failure and cancellation close it.

    Args:
        sock: a connected, non-blocking socket.
        protocol: its `connection_made` is called before this returns.
        session: a session that has not started.
        handshake_timeout: seconds.

    Raises:
        OSError: the handshake failed, see `TlsTransport.opened`.
    """
    transport = TlsTransport(protocol, session, handshake_timeout=handshake_timeout)
    try:
        await asyncio.get_running_loop().create_connection(lambda: transport, sock=sock)
        await transport.opened
    except BaseException:
        transport.abort()
        raise


async def start_tls(
    lower: asyncio.Transport,
    protocol: UpperProtocol,
    session: TlsSession,
    *,
    handshake_timeout: float = HANDSHAKE_TIMEOUT,
) -> None:
    """Like `connect_tls`, over a transport that is in use, such as a tunnel. Its protocol is replaced."""
    transport = TlsTransport(protocol, session, handshake_timeout=handshake_timeout)
    lower.set_protocol(transport)
    try:
        transport.connection_made(lower)
        await transport.opened
    except BaseException:
        transport.abort()
        raise
