"""Checks of a request head beyond its syntax, with Go's error responses. Pure.

Upstream: net/http/server.go (readRequest), net/http/request.go (Go 1.25)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

from opsdk.base.limits import Limits

METHODS: Final = frozenset(
    b"GET HEAD POST CONNECT PUT PATCH DELETE OPTIONS TRACE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH SEARCH UNLOCK BIND "
    b"REBIND UNBIND ACL REPORT MKACTIVITY CHECKOUT MERGE NOTIFY SUBSCRIBE UNSUBSCRIBE PURGE MKCALENDAR LINK "
    b"UNLINK".split()
)
"""Methods that httptools accepts."""
METHOD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ")
"""A complete method and its space."""
METHOD_BEGIN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{0,4096}")
"""A possibly incomplete method."""
_VALID_HOST = re.compile(rb"[!$%&'()*+,\-.0-9:;=@A-Z\[\]_a-z~]*")
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BAD_TARGET = re.compile(rb"[\x00-\x20\x7f]")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ABSOLUTE_URL = re.compile(rb"([A-Za-z][A-Za-z0-9+\-.]*):(//[^/?]*)?")
_VERSION = re.compile(rb"\S* \S* HTTP/([0-9])\.([0-9])\r?\n")

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error response after which the connection closes."""

    status: int
    reason: str = ""

    def encode(self) -> bytes:
        """Return the bytes of the response. The body repeats the status line, except for unsupported codings."""
        phrase = _PHRASES.get(self.status) or HTTPStatus(self.status).phrase
        line = f"{self.status} {phrase}"
        text = (
            self.reason
            if self.status == HTTPStatus.NOT_IMPLEMENTED
            else f"{line}: {self.reason}"
            if self.reason
            else line
        )
        first = line if self.status == HTTPStatus.NOT_IMPLEMENTED else text
        head = f"HTTP/1.1 {first}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
        return f"{head}{text}".encode()


_PHRASES = {431: "Request Header Fields Too Large", 505: "HTTP Version Not Supported"}
MALFORMED: Final = Refusal(400)
TOO_LARGE: Final = Refusal(431)
TOO_SLOW: Final = Refusal(408)
HTTP_ON_HTTPS_PORT: Final = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
"""The response to plain HTTP on a TLS port."""


def looks_like_http(first: bytes) -> bool:
    """Whether the first bytes of a TLS connection are an HTTP request."""
    return bool(first) and any(
        word.startswith(first[:5]) for word in (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
    )


def values(headers: Headers, name: bytes) -> list[bytes]:
    """Return the values of a header."""
    return [value for header, value in headers if header == name]


def tokens(headers: Headers, name: bytes) -> set[bytes]:
    """Return the comma-separated tokens of a header, in lower case."""
    lists = values(headers, name)
    return {word.strip().lower() for value in lists for word in value.split(b",")} if lists else set()


def check_head(method: bytes, version: str, headers: Headers) -> Refusal | None:
    """Return the error response for a request head, or None if it is valid."""
    if not version.startswith("1."):
        return MALFORMED if version == "0.9" else Refusal(505, "unsupported protocol version")
    if _BAD_VALUE.search(b"\t".join([value for _, value in headers])):
        return MALFORMED
    hosts = values(headers, b"host")
    if len(hosts) > 1:
        return MALFORMED
    if not hosts and version != "1.0" and method != b"CONNECT":
        return Refusal(400, "missing required Host header")
    if hosts and not _VALID_HOST.fullmatch(hosts[0]):
        return Refusal(400, "malformed Host header")
    codings = values(headers, b"transfer-encoding")
    if not codings or version == "1.0" or (len(codings) == 1 and codings[0].lower() == b"chunked"):
        return None
    return Refusal(501, "Unsupported transfer encoding")


def malformed_version(begin: bytes) -> Refusal:
    """Return the error response to bytes that do not parse. Another major HTTP version has its own response."""
    version_match = _VERSION.match(begin)
    return Refusal(505, "unsupported protocol version") if version_match and version_match[1] != b"1" else MALFORMED


def read_target(method: bytes, target: bytes) -> tuple[str, bytes, bytes] | None:
    """Return path, raw path and query of a request target; None if it is invalid.

    >>> read_target(b"GET", b"http://host/a%20b?c=d"), read_target(b"GET", b"a")
    (('/a b', b'/a%20b', b'c=d'), None)
    """
    if not target or _BAD_TARGET.search(target):
        return None
    if method == b"CONNECT" and not target.startswith(b"/"):
        return "", b"", b""
    if target == b"*":
        return "*", b"*", b""
    rest, _, query = target.partition(b"?")
    if not rest.startswith(b"/"):
        scheme_match = _ABSOLUTE_URL.match(rest)
        if scheme_match is None:
            return None
        # Without a host the rest is opaque (URL.Opaque), and there is no path.
        rest = (
            rest[scheme_match.end() :]
            if scheme_match[2] is not None or rest[scheme_match.end() :].startswith(b"/")
            else b""
        )
    if _BAD_ESCAPE.search(rest):
        return None
    return (unquote_to_bytes(rest) if b"%" in rest else rest).decode("utf-8", "replace"), rest, query


def head_size(headers: Headers) -> int:
    """Return the bytes of header lines, as `Limits.head_bytes` counts them."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


def admit_target(
    method: bytes, target: bytes, *, size: int, fields: int, limits: Limits
) -> tuple[str, bytes, bytes] | Refusal:
    """Return path, raw path and query of a request whose head is within the limits, or the error response.

    The parser and the blocks that were parsed before both pass here. `size` is `head_size` of the `fields` headers.
    """
    if size + len(target) > limits.head_bytes or fields > limits.head_fields:
        return TOO_LARGE
    read = read_target(method, target)
    if read is None:
        return MALFORMED
    return TOO_LARGE if read[2].count(b"&") >= limits.query_parameters else read


def query_pairs(raw: str) -> Iterable[tuple[str, str]]:
    """Return the pairs of a query. Malformed pairs are skipped, as by ``url.ParseQuery``.

    >>> list(query_pairs("a=1&b&c=%zz&d;e=2&f=+%41"))
    [('a', '1'), ('b', ''), ('f', ' A')]
    """
    for part in raw.split("&"):
        if not part or ";" in part:
            continue
        key, _, value = part.partition("=")
        if "%" in part and (_BAD_ESCAPE.search(key.encode()) or _BAD_ESCAPE.search(value.encode())):
            continue
        yield _unescaped(key), _unescaped(value)


def _unescaped(text: str) -> str:
    # A query comes as Latin-1, one character for each byte.
    plain = text.replace("+", " ")
    if plain.isascii():
        return unquote(plain, errors="replace") if "%" in plain else plain
    return unquote_to_bytes(plain.encode("latin-1", "replace")).decode("utf-8", "replace")
