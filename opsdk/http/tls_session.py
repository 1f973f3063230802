"""One TLS connection without I/O: ciphertext in, plaintext out, and the reverse."""

from __future__ import annotations

import ssl
from enum import Enum
from typing import Final

SLICE: Final = 16 * 1024
"""Bytes that go through OpenSSL at once. Its buffers grow to the largest amount that they ever held, and never shrink.

Both directions together keep at most 44 KiB. It is the most plaintext of one record too (RFC 8446, section 5.1)."""


class TlsState(Enum):
    """State of a TLS connection."""

    HANDSHAKING = "no application data yet; writes wait"
    OPEN = "both directions are open"
    PEER_CLOSED = "the peer's close_notify has arrived; only writing is possible"
    CLOSING = "our close_notify is sent; what the peer still sends is dropped"
    CLOSED = "nothing more is sent or received: both sides have closed, or `error` says what failed"


# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
HANDSHAKING, OPEN, PEER_CLOSED, CLOSING, CLOSED = (
    TlsState.HANDSHAKING,
    TlsState.OPEN,
    TlsState.PEER_CLOSED,
    TlsState.CLOSING,
    TlsState.CLOSED,
)

_WRITABLE: Final = (OPEN, PEER_CLOSED)


class TlsSession:
    r"""A TLS connection between two buffers. It does not know the socket.

    The caller sends `outgoing` to the peer after each call. No method raises for invalid bytes of the peer: a protocol
    error ends the session, see `error`.

    Args:
        context: the TLS context.
        server_side: whether this is the server.
        server_hostname: the name to verify, for clients.
        resumed: the session of an earlier connection with this context, for clients. A server may ignore it.

    Attributes:
        object: the connection of `ssl`, for certificates and ciphers.
        state: see `TlsState`.
        error: the exception that ended the session; None without a failure.
        outgoing: ciphertext for the peer.
        backlog: plaintext that waits for the end of a handshake.

    Raises:
        ValueError: `server_hostname` is missing or cannot be verified.

    >>> session = TlsSession(ssl.create_default_context(), server_hostname="kubernetes.default.svc")
    >>> session.start()
    >>> session.outgoing.read()[:2]  # a handshake record
    b'\x16\x03'
    >>> session.receive(b"HTTP/1.1 400 Bad Request\r\n")
    b''
    >>> session.state.name, session.error.reason
    ('CLOSED', 'WRONG_VERSION_NUMBER')
    """

    __slots__ = ("_incoming", "backlog", "error", "object", "outgoing", "state")

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        resumed: ssl.SSLSession | None = None,
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.object = context.wrap_bio(
            self._incoming, self.outgoing, server_side=server_side, server_hostname=server_hostname, session=resumed
        )
        self.state = HANDSHAKING
        self.error: ssl.SSLError | None = None
        self.backlog: list[bytes] = []

    def start(self) -> None:
        """Begin the handshake. A client then has a ClientHello to send."""
        self._handshake()

    def receive(self, data: bytes | bytearray | memoryview) -> bytes:
        """Take ciphertext of any length, and return the plaintext that it completes.

        Records before an invalid one are returned; `state` and `error` then hold the failure.
        """
        if len(data) > SLICE:
            view = memoryview(data)
            return b"".join([self.receive(view[start : start + SLICE]) for start in range(0, len(view), SLICE)])
        if self.state is CLOSED or self.state is PEER_CLOSED:
            return b""
        self._incoming.write(data)
        if self.state is HANDSHAKING and not self._handshake():
            return b""
        plaintext = self._read()
        if self.backlog:
            self._write_backlog()
        return plaintext

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt plaintext. During a handshake it waits; after `close` or an error it is dropped."""
        if self.state in _WRITABLE and not self.backlog:
            try:
                self.object.write(data)
            except ssl.SSLWantReadError:
                # TLS 1.2: the peer renegotiates.
                self.backlog.append(bytes(data))
            except ssl.SSLError as error:
                self._fail(error)
        elif self.state in _WRITABLE or self.state is HANDSHAKING:
            self.backlog.append(bytes(data))

    def close(self) -> None:
        """Send close_notify. The state is CLOSED if the peer has sent its own, else CLOSING. Idempotent."""
        if self.state is HANDSHAKING:
            self.state = CLOSED
        if self.state not in _WRITABLE:
            return
        self.backlog.clear()
        try:
            self.object.unwrap()
        except ssl.SSLWantReadError:
            self.state = CLOSING
        except ssl.SSLError as error:
            self._fail(error)
        else:
            self.state = CLOSED

    def _handshake(self) -> bool:
        """Continue the handshake. Returns whether it is complete."""
        try:
            self.object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            self._fail(error)
            return False
        self.state = OPEN
        self._write_backlog()
        return True

    def _read(self) -> bytes:
        """Decrypt what has arrived. After `close` it is dropped."""
        incoming, read = self._incoming, self.object.read
        parts: list[bytes] = []
        drop = self.state is CLOSING
        try:
            # Not until SSLWantReadError: raising it costs as much as decrypting a small record.
            while incoming.pending and (self.state is OPEN or self.state is CLOSING):
                part = read(SLICE)
                if part:
                    parts.append(part)
                else:
                    self._on_close_notify()
        except ssl.SSLWantReadError:
            pass  # the rest of a record is missing
        except ssl.SSLZeroReturnError:
            self._on_close_notify()
        except ssl.SSLError as error:
            self._fail(error)
        if drop:
            return b""
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _on_close_notify(self) -> None:
        self.state = CLOSED if self.state is CLOSING else PEER_CLOSED

    def _write_backlog(self) -> None:
        while self.backlog:
            try:
                self.object.write(self.backlog[0])
            except ssl.SSLWantReadError:
                return
            except ssl.SSLError as error:
                self._fail(error)
                return
            del self.backlog[0]

    def _fail(self, error: ssl.SSLError) -> None:
        self.state, self.error = CLOSED, error
        self.backlog.clear()

    def __repr__(self) -> str:
        return f"<TlsSession {self.state.name.lower()}>"
