"""Builds AdmissionReview requests and interprets responses. Pure.

Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go (v1.36).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

import msgspec

from opsdk.apimachinery.patch.json_patch import apply_json_patch
from opsdk.apimachinery.serializer import documents
from opsdk.apimachinery.serializer.documents import json_kind
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.versioned_attributes import VersionedAttributes
from opsdk.apiserver.webhook_client.review_types import ReviewError, check_field, check_review
from opsdk.errors import ApiError, Cause, Details, PatchError
from opsdk.structured_merge.go_format import go_quote
from opsdk.structured_merge.value import JsonObject, JsonValue

GROUP = "admission.k8s.io"
KNOWN_VERSIONS = ("v1", "v1beta1")


class AdmissionReviewError(Exception):
    """The webhook's AdmissionReview response is invalid; the message is the server's."""


# ------------------------------------------------------------------ request
def create_admission_review(
    attributes: Attributes, versioned: VersionedAttributes, *, uid: str, version: str
) -> JsonObject:
    """Return the AdmissionReview request."""
    request: JsonObject = {"uid": uid, "kind": versioned.kind._asdict(), "resource": versioned.resource._asdict()}
    sub = {"subResource": attributes.subresource} if attributes.subresource else {}
    request.update(sub)
    request["requestKind"] = attributes.kind._asdict()
    request["requestResource"] = attributes.resource._asdict()
    if attributes.subresource:
        request["requestSubResource"] = attributes.subresource
    for key, value in (("name", attributes.name), ("namespace", attributes.namespace)):
        if value:
            request[key] = value
    request["operation"] = attributes.operation
    request["userInfo"] = attributes.user.user_info()
    request["object"], request["oldObject"] = versioned.obj, versioned.old
    request["dryRun"] = attributes.dry_run
    request["options"] = attributes.options or None
    return {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request}


# ------------------------------------------------------------------ response
class WebhookResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook's verified response."""

    allowed: bool
    patch: bytes = b""
    patch_type: str = ""
    status: JsonObject | None = None
    warnings: Sequence[str] = ()


_FIELDS = {
    "uid": (str, "string"),
    "allowed": (bool, "bool"),
    "status": (dict, "v1.Status"),
    "patch": (str, "[]uint8"),
    "patchType": (str, "v1.PatchType"),
    "auditAnnotations": (dict, "map[string]string"),
    "warnings": (list, "[]string"),
}


def parse_response(review: JsonObject, version: str) -> JsonObject | None:
    """Return the ``response`` field with checked types. Raises `AdmissionReviewError` for a wrong version or type."""
    response = review.get("response")
    try:
        check_review(review, GROUP, version, "AdmissionReview")
        check_field(response, dict, "AdmissionReview.response", "v1.AdmissionResponse")
        for key, (kind_of, name) in _FIELDS.items():
            check_field((response or {}).get(key), kind_of, f"AdmissionResponse.response.{key}", name)
    except ReviewError as error:
        raise AdmissionReviewError(str(error)) from None
    if not isinstance(response, dict):
        return None
    _decoded(response.get("patch") or "")
    return response


def verify_admission_response(
    review: JsonObject, response: JsonObject | None, *, uid: str, version: str, mutating: bool
) -> WebhookResponse:
    """Return the verified response. Raises `AdmissionReviewError` if it violates the API."""
    if response is None:
        raise AdmissionReviewError("webhook response was absent")
    patch, kind = _decoded(response.get("patch") or ""), response.get("patchType")
    if version == "v1":
        _check_v1(review, response, uid, has_patch=bool(patch), kind=kind, mutating=mutating)
    return WebhookResponse(
        allowed=bool(response.get("allowed")),
        patch=patch if mutating else b"",
        patch_type=str(kind or ("JSONPatch" if patch else "")),
        status=response.get("status"),
        warnings=[str(text) for text in response.get("warnings") or ()],
    )


def _check_v1(
    review: JsonObject, response: JsonObject, uid: str, *, has_patch: bool, kind: JsonValue, mutating: bool
) -> None:
    """Check an answer of version v1. Raises `AdmissionReviewError` in upstream's words."""
    if (response.get("uid") or "") != uid:
        raise AdmissionReviewError(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    group, _, version = str(review.get("apiVersion") or "").rpartition("/")
    expected, got = f"{GROUP}/v1, Kind=AdmissionReview", (f"{group}/{version}, Kind={review.get('kind') or ''}")
    if got != expected:
        raise AdmissionReviewError(f"expected webhook response of {expected}, got {got}")
    if not mutating:
        if has_patch:
            raise AdmissionReviewError("validating webhook may not return response.patch")
        if kind is not None:
            raise AdmissionReviewError("validating webhook may not return response.patchType")
        return
    if has_patch and kind is None:
        raise AdmissionReviewError("webhook returned response.patch but not response.patchType")
    if not has_patch and kind is not None:
        raise AdmissionReviewError("webhook returned response.patchType but not response.patch")
    if kind == "":
        raise AdmissionReviewError('webhook returned invalid response.patchType of ""')


def _decoded(patch: str) -> bytes:
    try:
        return base64.b64decode(patch, validate=True)
    except (binascii.Error, ValueError):
        raise AdmissionReviewError("illegal base64 data at input byte 0") from None


# ------------------------------------------------------------------ denial
def rejection(name: str, status: Mapping[str, JsonValue] | None) -> ApiError:
    """Return the error that a client gets for a webhook's denial."""
    result = status or {}
    message = f'admission webhook "{name}" denied the request'
    reason = result.get("message") or result.get("reason")
    code = result.get("code")
    details, tree = api_errors.NONE, result.get("details")
    if isinstance(tree, dict):
        causes = [
            Cause(**{key: str(cause.get(key) or "") for key in ("reason", "message", "field")})
            for cause in tree.get("causes") or ()
            if isinstance(cause, dict)
        ]
        after = tree.get("retryAfterSeconds")
        details = Details(
            **{key: str(tree.get(key) or "") for key in ("name", "group", "kind", "uid")},
            causes=tuple(causes),
            retry_after_seconds=after if isinstance(after, int) else 0,
        )
    return ApiError(
        f"{message}: {reason}" if reason else f"{message} without explanation",
        code=code if isinstance(code, int) and 400 <= code <= 599 else 400,
        reason=str(result.get("reason") or ""),
        details=details,
    )


# ------------------------------------------------------------------ patches
def parse_patch(raw: bytes) -> list[JsonObject]:
    """Parse a JSON patch. Raises `PatchError` with Go's message."""
    try:
        patch = documents.parse_json(raw).tree
    except documents.SyntaxProblemError as error:
        raise PatchError(str(error)) from None
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise PatchError(f"json: cannot unmarshal {json_kind(patch)} into Go value of type jsonpatch.Patch")
    for operation in patch:
        if not isinstance(operation, dict):
            raise PatchError(f"json: cannot unmarshal {json_kind(operation)} into Go value of type jsonpatch.Operation")
    return patch


def patched(obj: JsonObject, operations: Sequence[JsonObject]) -> JsonObject:
    """Return `obj` after the patch. Raises `PatchError` with Go's message."""
    try:
        changed: JsonValue = apply_json_patch(obj, operations)
    except PatchError:
        # Apply the operations one by one, to report the first failure with evanphx/json-patch's message.
        for operation in operations:
            try:
                obj = apply_json_patch(obj, [operation])
            except PatchError as error:
                raise PatchError(_json_patch_error(obj, operation, str(error))) from None
        raise PatchError("the patch does not apply") from None
    if not isinstance(changed, dict):
        raise PatchError("json: cannot unmarshal patched document into an object")
    return changed


def _json_patch_error(obj: JsonValue, operation: JsonObject, otherwise: str) -> str:
    """Return the words of upstream's JSON patch library for an operation that failed."""
    name, path = operation.get("op"), operation.get("path")
    if name not in ("add", "remove", "replace", "move", "copy", "test"):
        return f"Unexpected kind: {name or 'unknown'}"
    if not isinstance(path, str):
        return f"operation '{name}' has no path: missing value"
    source = operation.get("from")
    if name in ("move", "copy") and isinstance(source, str):
        if not _leads_somewhere(obj, source):
            return f"{name} operation does not apply: doc is missing from path: {source}: missing value"
        if name == "move" and _leads_somewhere(obj, path):
            key = source.rpartition("/")[2]
            return f"error in move for path: '{key}': Unable to remove nonexistent key: {key}: missing value"
    if not _leads_somewhere(obj, path):
        if name == "test":
            return f"test operation does not apply: is missing path: {path}: missing value"
        path_text = path if name == "replace" else f'"{path}"'
        return f"{name} operation does not apply: doc is missing path: {path_text}: missing value"
    if name == "test":
        return f"testing value {path} failed: test failed"
    if name == "replace":
        return f"replace operation does not apply: doc is missing key: {path}: missing value"
    return f"error in {name} for path: '{path}': {_last_part_error(obj, name, path) or otherwise}"


def _leads_somewhere(obj: JsonValue, path: str) -> bool:
    """Report whether the parent of `path` exists."""
    parent = path.rpartition("/")[0]
    try:
        apply_json_patch(obj, _probe(parent))
    except PatchError:
        return False
    return True


def _last_part_error(obj: JsonValue, name: str, path: str) -> str:
    """Return the error of a path's last element; empty for none."""
    parent, _, key = path.rpartition("/")
    holder = apply_json_patch(obj, _probe(parent)).get("probe") if parent else obj
    if not isinstance(holder, list):
        return f"Unable to remove nonexistent key: {key}: missing value" if name == "remove" else ""
    if key.lstrip("+-").isdecimal():
        return f"Unable to access invalid index: {key}: invalid index referenced"
    syntax = f"strconv.Atoi: parsing {go_quote(key)}: invalid syntax"
    return syntax if name == "remove" else f"value was not a proper array index: '{key}': {syntax}"


def _probe(parent: str) -> list[JsonObject]:
    """Return a patch that applies only if `parent` exists."""
    return [{"op": "move", "from": parent, "path": "/probe"}] if parent else []
