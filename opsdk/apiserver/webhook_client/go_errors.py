"""Error messages of Go's ``net/http`` client. Pure.

Upstream: Go net/http/client.go, net/net.go.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl

from opsdk.apimachinery.serializer.documents import json_kind
from opsdk.http.client.errors import PARSE_ERRORS
from opsdk.structured_merge.value import JsonValue

MAX_TEXT = 2048
"""Most bytes of a response body in error messages."""

_UNTRUSTED = frozenset({2, 18, 19, 20, 21, 24, 26})
_DATES = frozenset({9, 10})
_NAME, _ADDRESS = 62, 64
_HTTP_REASONS = frozenset({"HTTP_REQUEST", "WRONG_VERSION_NUMBER"})

_META = r"""struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"""


def failure(error: BaseException, address: str, host: str) -> str:
    """Return Go's message for an exception; `address` is ``ip:port``."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_certificate(error, host)}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason in _HTTP_REASONS:
            return "http: server gave HTTP response to HTTPS client"
        return f"remote error: tls: {reason.lower().replace('_', ' ')}"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {host}: no such host"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "read: connection reset by peer"
    if isinstance(error, EOFError):
        return "EOF"
    if isinstance(error, PARSE_ERRORS):
        return f"net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error}"
    if isinstance(error, TimeoutError) and not error.errno:
        return f"dial tcp {address}: i/o timeout"
    if isinstance(error, OSError):
        message = os.strerror(error.errno).lower() if error.errno else str(error)
        return f"dial tcp {address}: connect: {message}"
    return str(error) or type(error).__name__


def _certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    code = getattr(error, "verify_code", 0)
    if code in _UNTRUSTED:
        return "certificate signed by unknown authority"
    if code in _DATES:
        return "certificate has expired or is not yet valid"
    if code == _ADDRESS:
        return f"cannot validate certificate for {host} because it doesn't contain any IP SANs"
    if code == _NAME:
        return f"certificate is not valid for any names, but wanted to match {host}"
    return str(getattr(error, "verify_message", "") or error)


_BY_STATUS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    415: "the server was unable to accept the content type that the client sent",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def refusal(status: int, content_type: str, body: bytes) -> str:
    """Return client-go's message for an unsuccessful response."""
    message = _status_message(body)
    if message:
        return message
    text = "unknown"
    if not content_type or content_type.lower().startswith("text/"):
        text = body[:MAX_TEXT].decode("utf-8", "replace").strip()
    if status == 403:
        return text
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        quoted_text = json.dumps(text, ensure_ascii=False)
        return f"an error on the server ({quoted_text}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


def _status_message(body: bytes) -> str:
    """Return the message of a Status object; empty for other bodies."""
    try:
        status = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(status, dict) or status.get("kind") != "Status" or status.get("apiVersion") != "v1":
        return ""
    return "" if status.get("status") == "Success" else str(status.get("message") or "unknown")


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def media_fault(content_type: str) -> str:
    """Return Go's error for a malformed media type; "" if it is valid."""
    media = content_type.partition(";")[0].strip()
    if not content_type or not media:
        return "mime: no media type" if content_type else ""
    major, slash, minor = media.partition("/")
    if not _TOKEN.fullmatch(major):
        return (
            "mime: expected token after slash" if slash and not major else "mime: unexpected content after media type"
        )
    if slash and not _TOKEN.match(minor):
        return "mime: expected token after slash"
    if slash and not _TOKEN.fullmatch(minor):
        return "mime: unexpected content after media subtype"
    return ""


def unreadable(reason: str) -> str:
    """Return Go's message for a response without a readable kind."""
    return f"couldn't get version/kind; json parse error: {reason}"


def not_an_object(value: JsonValue) -> str:
    """Return Go's message for a response that is JSON or YAML, but not an object."""
    return unreadable(f"json: cannot unmarshal {json_kind(value)} into Go value of type {_META}")
