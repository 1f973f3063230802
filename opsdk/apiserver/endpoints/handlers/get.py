"""GET of one object.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/get.go (v1.36).
"""

from __future__ import annotations

import asyncio

from opsdk.aio.clock import monotonic
from opsdk.apiserver import api_errors
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.options import resource_version
from opsdk.apiserver.endpoints.response import accepted_for, object_response
from opsdk.apiserver.resources import InstalledResource
from opsdk.http.server.response import HttpResponse

_PATIENCE = 3.0


async def handle(call: Call, served: InstalledResource) -> HttpResponse:
    """Return the object."""
    accepted = accepted_for(call, served)
    await wait_for_revision(served, call.http.query.get("resourceVersion"))
    obj = await served.storage.get(call.context(), call.info.name)
    return await object_response(call, served, obj, accepted)


async def wait_for_revision(served: InstalledResource, text: str) -> None:
    """Wait until the storage has reached a client's resourceVersion; time out if it never does."""
    if not text or text == "0":
        return
    revision = resource_version(text)
    storage = getattr(getattr(served.storage, "main", served.storage), "storage", None)
    if storage is None:
        return
    until = monotonic() + _PATIENCE
    while (current := await storage.get_current_resource_version()) < revision:
        if monotonic() >= until:
            raise api_errors.too_large_resource_version(revision, current)
        await asyncio.sleep(0.1)
