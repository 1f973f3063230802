"""Compresses large responses with gzip.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go (v1.36).
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator
from contextlib import aclosing

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
    streamed = isinstance(response, StreamResponse)
    if not (call.info.verb == "list" if streamed else len(response.body) > THRESHOLD):
        return response
    if all(token.strip() != "gzip" for token in call.http.header("accept-encoding").split(",")):
        return response
    response.headers += [("content-encoding", "gzip"), ("vary", "Accept-Encoding")]
    if isinstance(response, StreamResponse):
        response.chunks = _compressed(response.chunks)
    else:
        response.body = await compute(len(response.body), zlib.compress, response.body, _LEVEL, _GZIP)
    return response


async def _compressed(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    compressor = zlib.compressobj(_LEVEL, wbits=_GZIP)
    async with aclosing(chunks):
        async for chunk in chunks:
            if data := await compute(len(chunk), compressor.compress, chunk):
                yield data
    yield compressor.flush()
