"""Compresses large responses with gzip.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go (v1.36).
"""

from __future__ import annotations

import zlib

from opsdk.aio.large_work import compute
from opsdk.apiserver.endpoints.call import Call
from opsdk.http.server.response import HttpResponse, StreamResponse

THRESHOLD = 128 * 1024
"""Bytes; only larger bodies are compressed."""
_LEVEL = 1
"""The fastest gzip level. Higher ones take several times as long for little gain."""
_GZIP = 31


async def compressed(call: Call, response: HttpResponse) -> HttpResponse:
    """Compress a large response, outside the event loop, if the client accepts gzip without parameters."""
    encodings = call.http.header("accept-encoding").split(",")
    whole = not isinstance(response, StreamResponse) and len(response.body) > THRESHOLD
    if whole and any(token.strip() == "gzip" for token in encodings):
        response.body = await compute(len(response.body), zlib.compress, response.body, _LEVEL, _GZIP)
        response.headers += [("content-encoding", "gzip"), ("vary", "Accept-Encoding")]
    return response
