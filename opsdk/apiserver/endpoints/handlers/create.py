"""CREATE of an object or of a subresource.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/create.go (v1.36).
"""

from __future__ import annotations

from opsdk.apimachinery.serializer.documents import ParsedDocument
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.chain import AdmissionInterface
from opsdk.apiserver.endpoints import managed_fields
from opsdk.apiserver.endpoints.body import check_kind, decode, read_tree
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.handlers.admission import RequestAdmission
from opsdk.apiserver.endpoints.options import write_options
from opsdk.apiserver.endpoints.response import accepted_for, object_response
from opsdk.apiserver.registry import metadata
from opsdk.apiserver.resources import InstalledResource
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject


async def handle(call: Call, served: InstalledResource, admission: AdmissionInterface) -> HttpResponse:
    """Create the object; 201 with the stored object."""
    accepted = accepted_for(call, served)
    options = write_options(call.http.query, "CreateOptions")
    context = call.context(dry_run=options.dry_run)
    parsed = await read_tree(call, served, context)
    obj = await context.compute(_new_object, call, served, parsed, validation=options.validation)
    obj = await managed_fields.record_update(call, served, context, None, obj, manager=options.field_manager)
    gate = RequestAdmission(admission, call, served, options.tree, context)
    obj = await gate.mutate(obj, None)
    stored = await served.storage.create(context, call.info.name, served.model.to_storage(obj), gate.validate)
    return await object_response(call, served, stored, accepted, status=201, size=context.size)


def _new_object(call: Call, served: InstalledResource, parsed: ParsedDocument, *, validation: str) -> JsonObject:
    """Decode the object, drop what the server sets itself, and set defaults."""
    check_kind(served, parsed)
    obj = decode(call, served, parsed, validation=validation)
    check_namespace(call, served, obj)
    meta = obj.setdefault("metadata", {})
    warn_of_owners(call, obj)
    if not (served.info.subresource and getattr(served.storage, "keeps_identity", False)):
        metadata.wipe(meta)
    if not meta.get("managedFields"):
        meta.pop("managedFields", None)
    return served.model.default(obj)


def warn_of_owners(call: Call, obj: JsonObject) -> None:
    """Drop duplicate ownerReferences with a warning for each."""
    for warning in metadata.duplicate_owners(obj["metadata"], admitted=False):
        call.warn(warning)


def check_namespace(call: Call, served: InstalledResource, obj: JsonObject) -> None:
    """Check that the body's namespace is the path's; set an empty one."""
    meta = obj.setdefault("metadata", {})
    if not served.info.namespaced:
        meta.pop("namespace", None)
        return
    namespace = meta.get("namespace") or call.info.namespace
    if namespace != call.info.namespace:
        raise api_errors.foreign_namespace()
    meta["namespace"] = namespace
