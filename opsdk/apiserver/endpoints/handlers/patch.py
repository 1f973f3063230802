"""PATCH: JSON patch, merge patch, strategic merge patch, apply.

A patcher returns the desired object for the current one. The store calls `transform` in its update path, and calls it
again after a conflict.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (v1.36).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import msgspec

from opsdk.apimachinery.patch.json_patch import apply_json_patch
from opsdk.apimachinery.patch.merge_patch import apply_merge_patch
from opsdk.apimachinery.patch.strategic_merge_patch import apply_strategic
from opsdk.apimachinery.serializer.documents import ParsedDocument, SyntaxProblemError, json_kind, parse_json
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.chain import AdmissionInterface
from opsdk.apiserver.endpoints import body, managed_fields
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.handlers.admission import RequestAdmission
from opsdk.apiserver.endpoints.handlers.update import check_name, finish
from opsdk.apiserver.endpoints.options import WriteQueryOptions, write_options
from opsdk.apiserver.endpoints.response import accepted_for, object_response
from opsdk.apiserver.fieldmanager.field_manager import FieldManager, describe_object
from opsdk.apiserver.fieldmanager.managed_fields import keep_times
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.serializer.raw import forget_text
from opsdk.base.limits import LIMITS
from opsdk.errors import ApiError, DecodeError, InvalidError, PatchError, TooLargeError, UnsupportedMediaTypeError
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.go_format import go_json, go_value
from opsdk.structured_merge.value import JsonObject, JsonValue

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_MAP = "map[string]interface {}"


class ParsedPatch(msgspec.Struct, frozen=True):
    """A parsed patch, with the data for its error messages.

    Attributes:
        document: the patch of a strategic merge, whose errors show it. Other errors show the patched object.
        complaints: strict-decoding errors of the patch itself.
    """

    apply: Callable[[JsonObject], Any]
    document: JsonObject | None = None
    complaints: tuple[str, ...] = ()

    def refused(self, error: PatchError) -> ApiError:
        """Return the error of a patch that cannot be applied. Only a strategic merge reports the reason."""
        if self.document is not None:
            return api_errors.plain(str(error))
        return InvalidError("the server rejected our request due to an error in our request")

    def undecodable(self, patched: JsonObject, reason: str, *, custom: bool = False) -> ApiError:
        """Return the error of a patched object that does not decode; `custom` objects have sorted keys."""
        if self.document is not None:
            text = go_value(self.document)
        else:
            text = go_json(patched) if custom else json.dumps(patched, ensure_ascii=False, separators=(",", ":"))
        return api_errors.invalid("", "", "", [api_errors.invalid_value("patch", text, reason)])


def patch_types(served: InstalledResource) -> tuple[str, ...]:
    """Return the patch content types of a resource; custom resources have no strategic merge patch."""
    return (JSON_PATCH, MERGE_PATCH, APPLY) if served.custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC, APPLY)


async def handle(call: Call, served: InstalledResource, admission: AdmissionInterface) -> HttpResponse:
    """Patch the object; 200, or 201 if apply created it."""
    accepted = accepted_for(call, served)
    # Unlike for other verbs, the type is compared literally.
    media = call.http.header("content-type").partition(";")[0]
    if media not in patch_types(served):
        # For built-in types, the router rejects the request before a handler could list the types.
        if not served.custom:
            raise UnsupportedMediaTypeError("415: Unsupported Media Type", details=api_errors.EMPTY)
        raise body.unsupported_media(", ".join(patch_types(served)))
    apply = media == APPLY
    query = call.http.query
    wrong = []
    if apply and not query.get("fieldManager"):
        wrong.append(api_errors.required("fieldManager", "is required for apply patch"))
    if not apply and query.get("force"):
        wrong.append(api_errors.not_allowed("force", "may not be specified for non-apply patch"))
    options = write_options(query, "PatchOptions", known_causes=wrong)
    raw = await call.http.body(LIMITS.body_bytes)
    context = call.context(dry_run=options.dry_run)
    context.size = len(raw)
    gate = RequestAdmission(admission, call, served, options.tree, context)
    if apply:
        config = await context.compute(_configuration, call, served, options, raw)
        patcher: _Patcher = _ApplyPatcher(call, served, gate, options, config)
    else:
        patcher = _MergePatcher(call, served, gate, options, cache(partial(parse_patch, media, served, raw)))
    stored, created = await served.storage.update(
        context, call.info.name, patcher.transform, gate.validate, force_create=apply and not served.info.subresource
    )
    return await object_response(call, served, stored, accepted, status=201 if created else 200, size=context.size)


def _parse(raw: bytes, *, go_type: str, prefix: str = "error decoding patch: ") -> ParsedDocument:
    try:
        parsed = parse_json(raw)
    except SyntaxProblemError as error:
        raise api_errors.bad_request(f"{prefix}{error}") from None
    _check_type(parsed.tree, list if go_type.startswith("[]") else dict, f"{prefix}json: cannot unmarshal", go_type)
    return parsed


def _check_type(value: JsonValue, expected: type, prefix: str, go_type: str) -> None:
    if value is not None and not isinstance(value, expected):
        raise api_errors.bad_request(f"{prefix} {json_kind(value)} into Go value of type {go_type}")


def parse_patch(media: str, served: InstalledResource, raw: bytes) -> ParsedPatch:
    """Parse a patch of any type but apply. Raises a 400, or a 413 for too many operations."""
    if media == JSON_PATCH:
        parsed = _parse(raw, go_type="[]handlers.jsonPatchOp")
        operations = parsed.tree or []
        for operation in operations:
            _check_type(operation, dict, "error decoding patch: json: cannot unmarshal", "handlers.jsonPatchOp")
        if len(operations) > LIMITS.patch_operations:
            raise TooLargeError(
                "Request entity too large: The allowed maximum operations in a JSON patch is"
                f" {LIMITS.patch_operations}, got {len(operations)}"
            )
        changes = [operation or {} for operation in operations]
        return ParsedPatch(lambda doc: apply_json_patch(doc, changes), complaints=parsed.complaints)
    if media == MERGE_PATCH:
        parsed = _parse(raw, go_type=_MAP)
        if parsed.tree is None:
            raise api_errors.bad_request("Invalid JSON Patch")
        return ParsedPatch(lambda doc: apply_merge_patch(doc, parsed.tree), complaints=parsed.complaints)
    parsed = _parse(raw, go_type=_MAP, prefix="")
    patch = parsed.tree or {}
    merge = partial(apply_strategic, patch=patch, schema=served.model.shape)
    return ParsedPatch(merge, document=patch, complaints=parsed.complaints)


@dataclass(frozen=True, slots=True)
class _Patcher(ABC):
    """Makes the desired object of one request."""

    call: Call
    served: InstalledResource
    gate: RequestAdmission
    options: WriteQueryOptions

    @abstractmethod
    async def transform(self, current: JsonObject | None) -> JsonObject:
        """Return the desired object in its storage version."""


@dataclass(frozen=True, slots=True)
class _MergePatcher(_Patcher):
    """Applies a JSON patch, merge patch or strategic merge patch.

    Attributes:
        patch: parses the patch at its first call: a missing object is reported before an error in the patch.
    """

    patch: Callable[[], ParsedPatch]

    async def transform(self, current: JsonObject | None) -> JsonObject:
        """Return the desired object in its storage version."""
        if current is None:
            raise api_errors.not_found(self.served.info, self.call.info.name)
        desired = await self.gate.context.compute(self._desired, current)
        manager = self.options.field_manager
        return await finish(self.call, self.served, self.gate, current, desired, manager=manager)

    def _desired(self, current: JsonObject) -> JsonObject:
        """Return the patched object with its defaults, in the served version."""
        model, patch = self.served.model, self.patch()
        live = model.from_storage(current)
        desired = self._decode(patch, self._apply(patch, live))
        if self.served.info.raw_field:
            forget_text(desired, self.served.info.raw_field, live)
        return model.default(desired)

    def _apply(self, patch: ParsedPatch, live: JsonObject) -> JsonObject:
        """Return the patched tree, which shares with `live` the parts that the patch does not change."""
        try:
            patched = patch.apply(live)
        except PatchError as error:
            raise patch.refused(error) from None
        if not isinstance(patched, dict):
            raise InvalidError("the server rejected our request due to an error in our request")
        return _checked_kind(self.served, patch, patched)

    def _decode(self, patch: ParsedPatch, patched: JsonObject) -> JsonObject:
        """Decode the patched tree, and report unknown and repeated fields. The result shares nothing that changes."""
        model, validation = self.served.model, self.options.validation
        try:
            decoded = model.decode(patched, memory=patch.document is not None)
            if len(decoded.problems) > 1 and patch.document is None:
                # Upstream decodes the patched JSON text with sorted keys, so errors are in that order.
                decoded = model.decode(json.loads(json.dumps(patched, sort_keys=True)))
        except DecodeError as error:
            raise patch.undecodable(patched, str(error), custom=not model.typed) from None
        problems = [*patch.complaints, *decoded.problems]
        if problems and validation == "Strict":
            reason = f"strict decoding error: {', '.join(problems)}"
            raise patch.undecodable(patched, reason, custom=not model.typed)
        check_identity(self.call, self.served, decoded.obj)
        body.report_complaints(self.call, self.served.info, problems, validation)
        return decoded.obj


def _checked_kind(served: InstalledResource, patch: ParsedPatch, patched: JsonObject) -> JsonObject:
    """Check the kind of the patched object. A built-in object without a kind gets it back."""
    info = served.info
    expected = {"apiVersion": info.kind_api_version, "kind": info.kind}
    for key in expected if patch.document is None else ():
        if patched.get(key) is not None and not isinstance(patched[key], str):
            reason = f"json: cannot unmarshal {json_kind(patched[key])} into Go struct field .{key} of type string"
            reason = f"couldn't get version/kind; json parse error: {reason}"
            raise patch.undecodable(patched, reason, custom=not served.model.typed)
    if served.model.typed:
        patched = {**patched, **{key: value for key, value in expected.items() if patched.get(key) in (None, "")}}
        version, kind = patched["apiVersion"], patched["kind"]
        if patch.document is None and (version, kind) != (info.kind_api_version, info.kind):
            raise patch.undecodable(patched, body.unregistered(served, version, kind))
        return {**patched, **expected}
    if not patched.get("kind"):
        raise patch.undecodable(patched, f"Object 'Kind' is missing in '{go_json(patched)}'", custom=True)
    if not patched.get("apiVersion"):
        raise api_errors.internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    return patched


def check_identity(call: Call, served: InstalledResource, obj: JsonObject) -> None:
    """Check that a patch keeps the name and the namespace."""
    meta = obj.setdefault("metadata", {})
    if not served.info.namespaced:
        meta.pop("namespace", None)
    elif meta.setdefault("namespace", call.info.namespace) != call.info.namespace:
        raise api_errors.foreign_namespace()
    check_name(call, obj)


@dataclass(frozen=True, slots=True)
class _ApplyPatcher(_Patcher):
    """Applies a configuration with server-side apply."""

    config: JsonObject

    async def transform(self, current: JsonObject | None) -> JsonObject:
        """Return the desired object in its storage version."""
        model, context = self.served.model, self.gate.context
        live = None if current is None else await context.compute(model.from_storage, current)
        merge = partial(self._merge, live, managed_fields.stamp())
        desired = await managed_fields.with_field_manager(self.served, context, merge)
        applied = await self.gate.mutate(await context.compute(self._decode, desired, live), live)
        if live is not None:
            # Compare again after decoding: 1024Mi over 1Gi is not a change (IgnoreManagedFieldsTimestampsTransformer).
            applied = await context.compute(keep_times, live, applied)
        return model.to_storage(applied)

    def _merge(self, live: JsonObject | None, now: str, field_manager: FieldManager) -> JsonObject:
        options, config = self.options, copy_tree(self.config)
        return field_manager.apply(live, config, manager=options.field_manager, force=bool(options.force), now=now)

    def _decode(self, desired: JsonObject, live: JsonObject | None) -> JsonObject:
        """Decode the merged object, and complete it with its defaults."""
        served = self.served
        try:
            decoded = served.model.decode(desired, memory=True)
        except DecodeError as error:
            gvk = _gvk_text(served.info.kind_api_version, served.info.kind)
            text = f"failed to convert new object ({describe_object(desired)}) to proper version"
            raise api_errors.plain(f"{text}: unable to convert unstructured object to {gvk}: {error}") from None
        if served.info.raw_field:
            forget_text(decoded.obj, served.info.raw_field, live)
        check_identity(self.call, served, decoded.obj)
        return served.model.default(decoded.obj, nulls=True)


def _configuration(call: Call, served: InstalledResource, options: WriteQueryOptions, raw: bytes) -> JsonObject:
    """Return the applied configuration of a body. Raises 400 unless it is an object of this kind."""
    info = served.info
    try:
        parsed = parse_yaml(raw)
    except SyntaxProblemError as error:
        raise api_errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    config: JsonValue = {} if parsed.tree is None else parsed.tree
    if not isinstance(config, dict):
        raise api_errors.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON:"
            f" json: cannot unmarshal {json_kind(config)} into Go value of type {_MAP}"
        )
    if parsed.complaints and options.validation == "Strict":
        text = f"error strict decoding YAML: error converting YAML to JSON: {', '.join(parsed.strict)}"
        raise api_errors.bad_request(text)
    body.report_complaints(call, info, parsed.complaints, options.validation)
    version, kind = config.get("apiVersion") or "", config.get("kind") or ""
    if (version, kind) != (info.kind_api_version, info.kind):
        raise api_errors.bad_request(f"invalid object type: {_gvk_text(str(version), str(kind))}")
    return config


def _gvk_text(version: str, kind: str) -> str:
    group, _, name = version.rpartition("/")
    return f"{group}/{name}, Kind={kind}"
