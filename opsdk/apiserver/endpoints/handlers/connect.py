"""CONNECT: subresources that handle HTTP themselves, such as ``log`` and ``proxy``.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/get.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver.admission.chain import AdmissionInterface
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.handlers.admission import RequestAdmission
from opsdk.apiserver.registry.rest import ConnectHandler
from opsdk.apiserver.resources import InstalledResource
from opsdk.http.server.response import HttpResponse


async def handle(call: Call, served: InstalledResource, admission: AdmissionInterface) -> HttpResponse:
    """Admit the request, then pass the connection to the storage."""
    rest = "/".join(call.info.parts[3:])
    if isinstance(served.storage, ConnectHandler):
        path = f"/{rest}" if rest else ""
        options = served.storage.connect_options(
            f"{path}/" if call.http.path.endswith("/") and not path.endswith("/") else path, call.http
        )
        await RequestAdmission(admission, call, served, {}, call.context()).connect(options["kind"], options)
    response: HttpResponse = await served.storage.connect(call.context(), call.info.name, rest, call.http)
    return response
