"""Subresources that speak HTTP themselves: logs, proxies."""

from __future__ import annotations

from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.resources import Installed
from opsdk.web.response import Response


async def handle(call: Call, served: Installed) -> Response:
    """Hand the request over."""
    rest = "/".join(call.info.parts[3:])
    response: Response = await served.storage.connect(call.context(), call.info.name, rest, call.http)
    return response
