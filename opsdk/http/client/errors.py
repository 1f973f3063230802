"""The one place where foreign exceptions become ours."""

from __future__ import annotations

import socket
import ssl
import zlib

import httptools

from opsdk.errors import ConnectError, ConnectionLostError, DecodeError, OpsdkError, TlsError

# OpenSSL's names for "the peer went away", which say nothing about trust.
_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
PARSE_ERRORS = (httptools.HttpParserError, httptools.HttpParserUpgrade)
"""What the parser raises; the second, on an answer 101, is not derived from the first."""
TRANSPORT_ERRORS = (OSError, EOFError, UnicodeError, *PARSE_ERRORS, zlib.error)
"""What sockets, TLS, the parser and the decoder raise. Anything else is a bug and passes untouched."""


def translate(error: BaseException, *, sent: bool, where: str) -> OpsdkError:
    """Our error for a foreign one; `sent` says whether any byte of the request may have reached the server.

    The caller raises it ``from`` the original.
    """
    if isinstance(error, OpsdkError):
        return error
    if isinstance(error, ssl.SSLError) and not isinstance(error, _CUT):
        return TlsError(f"{where}: {_tls_words(error)}")
    if isinstance(error, zlib.error):
        return DecodeError(f"{where}: the answer is no gzip: {error}")
    if isinstance(error, PARSE_ERRORS):
        return ConnectionLostError(f"{where}: the answer is no HTTP: {error}")
    if sent:
        return ConnectionLostError(f"{where}: the connection broke: {_words(error)}")
    if isinstance(error, socket.gaierror):
        return ConnectError(f"{where}: the name cannot be resolved: {_words(error)}")
    return ConnectError(f"{where}: no connection: {_words(error)}")


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        # Hand-made ones, such as asyncio's, lack the attribute.
        reason = getattr(error, "verify_message", "") or _words(error)
        return f"the server's certificate is not trusted ({reason}); check the CA and the server name"
    reason = getattr(error, "reason", "") or _words(error)
    return f"TLS failed ({reason}); check that the server speaks TLS and knows our certificate"
