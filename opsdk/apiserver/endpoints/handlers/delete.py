"""DELETE of one object and of a collection.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/delete.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from opsdk.aio.large_work import compute
from opsdk.apimachinery.serializer.documents import SyntaxProblemError, json_kind, parse_json
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.chain import AdmissionInterface
from opsdk.apiserver.endpoints import body
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.handlers.admission import RequestAdmission
from opsdk.apiserver.endpoints.handlers.list import list_meta, list_query, out_of_reach
from opsdk.apiserver.endpoints.negotiation import JSON, PROTOBUF, YAML
from opsdk.apiserver.endpoints.options import check_list, dry_run_problems, list_options, number
from opsdk.apiserver.endpoints.request_info import is_true
from opsdk.apiserver.endpoints.response import accepted_for, body_response, list_response, object_response, wants_pretty
from opsdk.apiserver.endpoints.status import success
from opsdk.apiserver.registry.rest import DeleteRequestOptions
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.storage.ports import CompactedError, FutureRevisionError, StoragePreconditions
from opsdk.base.limits import LIMITS
from opsdk.errors import ApiError, Cause
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject, JsonValue

_UNKNOWN = (
    'no kind "{kind}" is registered for version "{version}" in scheme'
    ' "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
)
_POLICIES = ("Foreground", "Background", "Orphan")


async def handle(call: Call, served: InstalledResource, admission: AdmissionInterface) -> HttpResponse:
    """Delete the object; return a Status, or the object if it is only marked or its strategy requires it."""
    accepted = accepted_for(call, served)
    options, tree, dry_run = await delete_options(call, served)
    name = call.info.name
    context = call.context(dry_run=dry_run)
    gate = RequestAdmission(admission, call, served, tree, context)
    deleted = await served.storage.delete(context, name, options, gate.remove)
    if not deleted.deleted_immediately or served.storage.strategy.returns_deleted:
        status = 202 if not deleted.deleted_immediately and tree.get("orphanDependents") is False else 200
        return await object_response(call, served, deleted.obj, accepted, status=status, size=context.size)
    meta = deleted.obj["metadata"]
    status_details = success(served.info.group, served.info.resource, name, meta.get("uid", ""))
    return await body_response(status_details, accepted, pretty=wants_pretty(call))


async def handle_collection(call: Call, served: InstalledResource, admission: AdmissionInterface) -> HttpResponse:
    """Delete the selected objects; return their list."""
    accepted = accepted_for(call, served)
    selected = list_options(call.http.query)
    check_list(selected)
    options, tree, dry_run = await delete_options(call, served)
    if selected.version and not selected.match:
        selected = replace(selected, match="Exact")  # the revision of the first page
    query = await list_query(served, selected)
    context = call.context(dry_run=dry_run)
    gate = RequestAdmission(admission, call, served, tree, context)
    try:
        listed = await served.storage.delete_collection(context, options, query, gate.remove)
    except (CompactedError, FutureRevisionError) as error:
        raise out_of_reach(error, selected, query) from None
    return await list_response(call, served, listed.items, list_meta(listed), accepted)


async def delete_options(call: Call, served: InstalledResource) -> tuple[DeleteRequestOptions, JsonObject, bool]:
    """Return the DeleteOptions of the body or the query, their object, and whether it is a dry run."""
    raw = await call.http.body(LIMITS.body_bytes)
    raw_options = await _from_body(call, served, raw) if raw.strip() else _from_query(call)
    causes: list[Cause] = []
    policy = raw_options.get("propagationPolicy")
    if policy is not None and raw_options.get("orphanDependents") is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(api_errors.invalid_value("propagationPolicy", policy, text))
    if policy is not None and policy not in _POLICIES:
        causes.append(api_errors.unsupported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    causes.extend(dry_run_problems(raw_options.get("dryRun") or []))
    if causes:
        raise api_errors.invalid_options("DeleteOptions", tuple(causes))
    preconditions = raw_options.get("preconditions") or {}
    orphan = raw_options.get("orphanDependents")
    propagation = raw_options.get("propagationPolicy") or ""
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    options = DeleteRequestOptions(
        grace=raw_options.get("gracePeriodSeconds"),
        propagation=propagation,
        preconditions=StoragePreconditions(
            uid=preconditions.get("uid"), resource_version=preconditions.get("resourceVersion")
        ),
    )
    tree = {**raw_options, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    return options, tree, bool(raw_options.get("dryRun"))


async def _from_body(call: Call, served: InstalledResource, raw: bytes) -> JsonObject:
    """Return the DeleteOptions of a body. Raises 400 for another kind or a wrong type."""
    media = body.media_type(call)
    if media == PROTOBUF:
        return body.read_protobuf(served, raw)
    if media not in (JSON, YAML):
        raise body.unsupported_media()
    try:
        parsed: JsonValue = (await compute(len(raw), parse_yaml if media == YAML else parse_json, raw)).tree
    except SyntaxProblemError as error:
        prefix = "" if media == YAML else "couldn't get version/kind; json parse error: "
        raise api_errors.bad_request(f"{prefix}{error}") from None
    options = {} if parsed is None else parsed
    version, kind = body.type_named(options)
    if version == "v1" and kind in _WITHOUT_VERSION:
        raise api_errors.bad_request(f"converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
    if kind not in ("", "DeleteOptions"):
        raise api_errors.bad_request(_UNKNOWN.format(kind=kind, version=version))
    _check_types(options, _TYPES, "DeleteOptions", "")
    return dict(options)


_WITHOUT_VERSION = ("Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList")
"""Types that are registered in every group."""


_TYPES: Mapping[str, str] = {
    "gracePeriodSeconds": "int64",
    "propagationPolicy": "v1.DeletionPropagation",
    "orphanDependents": "bool",
    "dryRun": "[]string",
    "preconditions": "v1.Preconditions",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "bool",
}
_PRECONDITION_TYPES: Mapping[str, str] = {"uid": "types.UID", "resourceVersion": "string"}
_JSON_TYPES: Mapping[str, type] = {
    "int64": int,
    "string": str,
    "types.UID": str,
    "v1.DeletionPropagation": str,
    "bool": bool,
    "[]string": list,
}


def _check_types(tree: JsonValue, types: Mapping[str, str], struct: str, path: str) -> None:
    """Raise a 400 for values of wrong types, as Go's decoder does."""
    for key, expected_type in types.items():
        value: JsonValue = tree.get(key)
        if value is None:
            continue
        field_path = f"{struct}.{path}{key}"
        if type(value) is not _JSON_TYPES.get(expected_type, dict):
            raise _wrong_type(value, field_path, expected_type)
        if expected_type == "[]string":
            for part in tree[key]:
                if not isinstance(part, str):
                    raise _wrong_type(part, field_path, "string")
        if key == "preconditions":
            _check_types(value, _PRECONDITION_TYPES, "Preconditions", "preconditions.")


def _wrong_type(value: object, path: str, expected: str) -> ApiError:
    what = f"number {value}" if isinstance(value, float) else json_kind(value)
    return api_errors.bad_request(f"json: cannot unmarshal {what} into Go struct field {path} of type {expected}")


def _from_query(call: Call) -> JsonObject:
    query = call.http.query
    options: JsonObject = {}
    grace = number(query, "gracePeriodSeconds")
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query.get("propagationPolicy")
    if "orphanDependents" in query:
        options["orphanDependents"] = is_true(query.get("orphanDependents"))
    if "dryRun" in query:
        options["dryRun"] = query.all("dryRun")
    preconditions = {key: query.get(key) for key in _PRECONDITION_TYPES if key in query}
    return {**options, "preconditions": preconditions} if preconditions else options
