"""Dispatches a request to the handler of its verb, for the groups of one server.

Upstream: k8s.io/apiserver/pkg/endpoints/installer.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.chain import AdmissionInterface
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.compression import compressed
from opsdk.apiserver.endpoints.handlers import (
    connect,
    create,
    delete,
    get,
    patch,
    update,
    watch,
)
from opsdk.apiserver.endpoints.handlers import (
    list as verb_list,
)
from opsdk.apiserver.endpoints.request_info import RequestInfo
from opsdk.apiserver.registry.rest import Connecter
from opsdk.apiserver.resources import InstalledResource
from opsdk.http.server.response import HttpResponse
from opsdk.http.server.unread import UNREAD


async def dispatch(call: Call, served: InstalledResource, admission: AdmissionInterface) -> HttpResponse:
    """Call the handler of the verb; an unsupported verb is a 405."""
    info = call.info
    check_route(info, served)
    if served.info.deprecation:
        call.warn(served.info.deprecation)
    if _connects(served.storage):
        if info.method not in served.storage.connect_methods:
            raise api_errors.method_not_allowed()
        return await connect.handle(call, served, admission)
    # Routes of built-in kinds match the method; those of custom resources match the verb.
    unrouted = not served.custom and (info.method == "HEAD" or (info.deprecated_watch and info.method != "GET"))
    if not info.verb or info.verb not in served.verbs or unrouted:
        if served.custom:
            raise api_errors.method_not_supported(served.info, info.verb)
        raise api_errors.method_not_allowed()
    if call.user.name in UNREAD.held:
        UNREAD.check(call.user.name)
    reading = _READING.get(info.verb)
    if reading is not None:
        response = await reading(call, served)
    else:
        response = await _WRITING[info.verb](call, served, admission)
    return await compressed(call, response)


_READING = {"get": get.handle, "list": verb_list.handle, "watch": watch.handle}
_WRITING = {
    "create": create.handle,
    "update": update.handle,
    "patch": patch.handle,
    "delete": delete.handle,
    "deletecollection": delete.handle_collection,
}


_CONNECTERS: dict[type, bool] = {}


def _connects(storage: object) -> bool:
    """Report whether the storage is a `Connecter`. Cached by class, because `isinstance` with a protocol is slow."""
    is_connecter = _CONNECTERS.get(type(storage))
    if is_connecter is None:
        is_connecter = _CONNECTERS[type(storage)] = isinstance(storage, Connecter)
    return is_connecter


def check_route(info: RequestInfo, served: InstalledResource) -> None:
    """Raise 404, 405 or 400 if the path does not fit the resource's scope, or the method the path."""
    namespaced = served.info.namespaced
    own_namespace = info.resource == "namespaces" and not info.group
    if not namespaced and info.namespace and not own_namespace:
        raise api_errors.no_such_resource()
    if len(info.parts) > 3 and not served.custom and not _connects(served.storage):
        raise api_errors.no_such_resource()
    if namespaced and not info.namespace:
        if info.name and not info.deprecated_watch:
            raise api_errors.no_such_resource()
        if info.verb not in ("list", "watch"):
            raise api_errors.method_not_allowed()
    if served.custom:
        if info.verb in ("update", "patch") and not info.name:
            raise api_errors.bad_request("name must be provided")
    elif not info.subresource:
        # POST goes to collections, PUT and PATCH to objects.
        on_object = info.verb in ("update", "patch")
        if bool(info.name) != on_object and info.verb in ("create", "update", "patch"):
            raise api_errors.method_not_allowed()


def find(resources: Sequence[InstalledResource], info: RequestInfo) -> InstalledResource | None:
    """Return the installed resource of a request."""
    for served in resources:
        if served.info.resource == info.resource and served.info.subresource == info.subresource:
            return served
    return None
