"""Translates exceptions of sockets, TLS and the parser into `opsdk.errors`."""

from __future__ import annotations

import socket
import ssl
import zlib

import httptools

from opsdk.errors import ConnectError, ConnectionLostError, DecodeError, OpsdkError, TlsError

# TLS exceptions for a closed connection. They are not certificate problems.
_PEER_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
PARSE_ERRORS = (httptools.HttpParserError, httptools.HttpParserUpgrade)
"""Exceptions of the parser. The second, for a 101 response, does not derive from the first."""
TRANSPORT_ERRORS = (OSError, EOFError, UnicodeError, *PARSE_ERRORS, zlib.error)
"""Exceptions of sockets, TLS, parser and decoder. Any other exception is a bug and propagates unchanged."""


def translate(error: BaseException, *, sent: bool, where: str) -> OpsdkError:
    """Return the opsdk error for `error`. The caller raises it ``from`` the original.

    Args:
        error: an exception in `TRANSPORT_ERRORS`, or an `OpsdkError`, which is returned unchanged.
        sent: whether a byte of the request may have reached the server.
        where: the address, for the message; empty leaves it out.
    """
    if isinstance(error, OpsdkError):
        return error
    where = f"{where}: " if where else ""
    if isinstance(error, ssl.SSLError) and not isinstance(error, _PEER_CLOSED):
        return TlsError(f"{where}{_tls_detail(error)}")
    if isinstance(error, zlib.error):
        return DecodeError(f"{where}the response is not valid gzip: {error}")
    if isinstance(error, PARSE_ERRORS):
        return ConnectionLostError(f"{where}the response is not valid HTTP: {error}")
    if sent:
        return ConnectionLostError(f"{where}the connection broke: {_error_text(error)}")
    if isinstance(error, socket.gaierror):
        return ConnectError(f"{where}the name cannot be resolved: {_error_text(error)}")
    return ConnectError(f"{where}no connection: {_error_text(error)}")


def _error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _tls_detail(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        # asyncio raises some of these without the attribute.
        reason = getattr(error, "verify_message", "") or _error_text(error)
        return f"the server's certificate is not trusted ({reason}); check the CA and the server name"
    reason = getattr(error, "reason", "") or _error_text(error)
    return f"the TLS handshake failed ({reason}); check that the server uses TLS and trusts the client certificate"
