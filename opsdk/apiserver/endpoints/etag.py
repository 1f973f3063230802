"""Cached documents with an ETag and the 304 response.

Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated/etag.go (v1.36).
"""

from __future__ import annotations

import hashlib

from opsdk.apiserver.endpoints.call import Call
from opsdk.http.server.response import HttpResponse


def cached(call: Call, raw: bytes, media: str) -> HttpResponse:
    """Return a document with an ETag; 304 if the client has it."""
    etag = f'"{hashlib.sha512(raw).hexdigest().upper()}"'
    fixed = [("etag", etag), ("vary", "Accept")]
    if call.http.header("if-none-match") == etag:
        return HttpResponse(304, [*fixed])
    return HttpResponse(200, [("content-type", media), *fixed], raw)
