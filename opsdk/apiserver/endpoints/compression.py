"""Compresses large responses with gzip.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go (v1.36).
"""

from __future__ import annotations

import zlib

from opsdk.apiserver.endpoints.call import Call
from opsdk.http.server.response import HttpResponse, StreamResponse

THRESHOLD = 128 * 1024
"""Bytes that a body must have more than: below, the time is better spent otherwise."""
_LEVEL = 1
"""The fastest; the second half of what could be saved would cost several times as much."""
_GZIP = 31


def compressed(call: Call, response: HttpResponse) -> HttpResponse:
    """The answer as gzip, where it is large and the client names gzip without any conditions."""
    encodings = call.http.header("accept-encoding").split(",")
    whole = not isinstance(response, StreamResponse) and len(response.body) > THRESHOLD
    if whole and any(token.strip() == "gzip" for token in encodings):
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        response.body = packer.compress(response.body) + packer.flush()
        response.headers += [("content-encoding", "gzip"), ("vary", "Accept-Encoding")]
    return response
