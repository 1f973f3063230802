"""Documents that clients keep: an ETag, and 304 where they have it already."""

from __future__ import annotations

import hashlib

from opsdk.apiserver.endpoints.call import Call
from opsdk.http.server.response import Response


def cached(call: Call, raw: bytes, media: str) -> Response:
    """A document with an ETag; 304 where the client has it already."""
    etag = f'"{hashlib.sha512(raw).hexdigest().upper()}"'
    fixed = [("etag", etag), ("vary", "Accept")]
    if call.http.header("if-none-match") == etag:
        return Response(304, [*fixed])
    return Response(200, [("content-type", media), *fixed], raw)
