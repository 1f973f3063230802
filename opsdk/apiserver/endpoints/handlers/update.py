"""UPDATE of an object with PUT.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/update.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.chain import AdmissionInterface
from opsdk.apiserver.endpoints import managed_fields
from opsdk.apiserver.endpoints.body import check_kind, decode, read_tree
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.handlers.admission import RequestAdmission
from opsdk.apiserver.endpoints.handlers.create import check_namespace, warn_of_owners
from opsdk.apiserver.endpoints.options import write_options
from opsdk.apiserver.endpoints.response import accepted_for, object_response
from opsdk.apiserver.resources import InstalledResource
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject


async def handle(call: Call, served: InstalledResource, admission: AdmissionInterface) -> HttpResponse:
    """Replace the object; 200, or 201 if it was created."""
    accepted = accepted_for(call, served)
    options = write_options(call.http.query, "UpdateOptions")
    context = call.context(dry_run=options.dry_run)
    parsed = await read_tree(call, served, context)

    def decode_first() -> JsonObject:
        check_kind(served, parsed)
        obj = decode(call, served, parsed, validation=options.validation)
        check_name(call, obj)
        check_namespace(call, served, obj)
        warn_of_owners(call, obj)
        return served.model.default(obj)

    first = [await context.compute(decode_first)]
    uid = first[0]["metadata"].get("uid") or ""
    gate = RequestAdmission(admission, call, served, options.tree, context)

    async def transform(current: JsonObject | None) -> JsonObject:
        # The store may change the object, so each retry decodes the body again.
        candidate = first.pop() if first else await context.compute(decode_again)
        return await finish(call, served, gate, current, candidate, manager=options.field_manager)

    def decode_again() -> JsonObject:
        obj = served.model.decode(parsed.tree).obj
        check_name(call, obj)
        check_namespace(call, served, obj)
        return served.model.default(obj)

    stored, created = await served.storage.update(context, call.info.name, transform, gate.validate, uid=uid)
    return await object_response(call, served, stored, accepted, status=201 if created else 200, size=context.size)


def check_name(call: Call, obj: JsonObject) -> None:
    """Check that the body's name is that of the path."""
    name = obj.setdefault("metadata", {}).get("name")
    if not name:
        text = f"the name of the object ({call.info.name} based on URL) was undeterminable: name must be provided"
        raise api_errors.bad_request(text)
    if name != call.info.name:
        raise api_errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )


async def finish(
    call: Call,
    served: InstalledResource,
    gate: RequestAdmission,
    current: JsonObject | None,
    desired: JsonObject,
    *,
    manager: str,
) -> JsonObject:
    """Update managedFields, run admission, and convert the object to its storage version."""
    model, context = served.model, gate.context
    live = None if current is None else await context.compute(model.from_storage, current)
    obj = await managed_fields.record_update(call, served, context, live, desired, manager=manager)
    return model.to_storage(await gate.mutate(obj, live))
