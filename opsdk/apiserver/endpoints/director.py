"""From a call to the handler of its verb, for the groups that one server has installed."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver import problems
from opsdk.apiserver.endpoints import (
    verb_connect,
    verb_create,
    verb_delete,
    verb_get,
    verb_list,
    verb_patch,
    verb_update,
    verb_watch,
)
from opsdk.apiserver.endpoints.admit import Admission
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.compression import compressed
from opsdk.apiserver.endpoints.request_info import RequestInfo
from opsdk.apiserver.registry.ports import Connecter
from opsdk.apiserver.resources import Installed
from opsdk.web.response import Response


async def direct(call: Call, served: Installed, admission: Admission) -> Response:
    """Answer by the handler of the verb; what the resource cannot do is a 405."""
    info = call.info
    check_route(info, served)
    if served.info.deprecation:
        call.warn(served.info.deprecation)
    if _connects(served.storage):
        if info.method not in served.storage.connect_methods:
            raise problems.method_not_allowed()
        return await verb_connect.handle(call, served, admission)
    # The routes of built-in kinds are for one method each; those of custom ones go by the verb.
    unrouted = not served.custom and (info.method == "HEAD" or (info.deprecated_watch and info.method != "GET"))
    if not info.verb or info.verb not in served.verbs or unrouted:
        if served.custom:
            raise problems.method_not_supported(served.info, info.verb)
        raise problems.method_not_allowed()
    reading = _READING.get(info.verb)
    if reading is not None:
        return compressed(call, await reading(call, served))
    return compressed(call, await _WRITING[info.verb](call, served, admission))


_READING = {"get": verb_get.handle, "list": verb_list.handle, "watch": verb_watch.handle}
_WRITING = {
    "create": verb_create.handle,
    "update": verb_update.handle,
    "patch": verb_patch.handle,
    "delete": verb_delete.handle,
    "deletecollection": verb_delete.handle_collection,
}


_CONNECTERS: dict[type, bool] = {}


def _connects(storage: object) -> bool:
    """Whether it is a `Connecter`; asked once for each class, because asking a protocol takes long."""
    found = _CONNECTERS.get(type(storage))
    if found is None:
        found = _CONNECTERS[type(storage)] = isinstance(storage, Connecter)
    return found


def check_route(info: RequestInfo, served: Installed) -> None:
    """Whether the path fits the resource's scope, and the method fits the path."""
    namespaced = served.info.namespaced
    own_namespace = info.resource == "namespaces" and not info.group
    if not namespaced and info.namespace and not own_namespace:
        raise problems.no_such_resource()
    if len(info.parts) > 3 and not served.custom and not _connects(served.storage):
        raise problems.no_such_resource()
    if namespaced and not info.namespace:
        if info.name and not info.deprecated_watch:
            raise problems.no_such_resource()
        if info.verb not in ("list", "watch"):
            raise problems.method_not_allowed()
    if served.custom:
        if info.verb in ("update", "patch") and not info.name:
            raise problems.bad_request("name must be provided")
    elif not info.subresource:
        # POST goes to collections, PUT and PATCH to objects.
        on_object = info.verb in ("update", "patch")
        if bool(info.name) != on_object and info.verb in ("create", "update", "patch"):
            raise problems.method_not_allowed()


def find(resources: Sequence[Installed], info: RequestInfo) -> Installed | None:
    """The installed resource that a path means."""
    for served in resources:
        if served.info.resource == info.resource and served.info.subresource == info.subresource:
            return served
    return None
