"""Admission: requests and responses as values, and their wire form, AdmissionReview v1 and v1beta1. Pure.

Upstream: sigs.k8s.io/controller-runtime/pkg/webhook/admission/http.go, response.go, webhook.go
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.patch.json_patch import create_json_patch
from opsdk.errors import AdmissionDeniedError, ApiError, BadRequestError, Cause, TooLargeError
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject, JsonValue

__all__ = [
    "AdmissionRequest",
    "AdmissionResponse",
    "UserInfo",
    "allowed",
    "decode_review",
    "denied",
    "encode_review",
    "errored",
    "invalid_field",
    "patched",
    "response_for",
]

MAX_REQUEST_SIZE = 7 * 1024 * 1024
"""Bytes from which a review is too large: twice etcd's limit of 3 MiB for old and new object, and some more."""
GROUP = "admission.k8s.io"
KIND = "AdmissionReview"
_API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")


# ------------------------------------------------------------------ requests
class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The user who sent the request (``authentication.k8s.io`` UserInfo)."""

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


class _Kind(msgspec.Struct, frozen=True):
    """Group, version and kind as reviews carry them."""

    group: str = ""
    version: str = ""
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True):
    """Group, version and resource as reviews carry them."""

    group: str = ""
    version: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """One request to the API server that a webhook admits, changes or denies.

    Attributes:
        uid: identifies the review; the response carries it too.
        kind: the kind of `object`, in the version that the webhook is registered for.
        resource: the resource of `object`.
        subresource: ``status``, ``scale`` and so on; empty for the object itself.
        request_kind: the kind in the version of the original request.
        request_resource: the resource of the original request.
        name: empty if the server generates the name.
        namespace: empty for cluster-scoped objects.
        operation: ``CREATE``, ``UPDATE``, ``DELETE`` or ``CONNECT``.
        user_info: the user of the original request.
        object: the new object; None for ``DELETE``.
        old_object: the existing object; None for ``CREATE`` and ``CONNECT``.
        dry_run: nothing is stored, so a webhook must not have side effects.
        options: CreateOptions, UpdateOptions or DeleteOptions of the original request.
    """

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind("", "", "")
    resource: GroupVersionResource = GroupVersionResource("", "", "")
    subresource: str = ""
    request_kind: GroupVersionKind = GroupVersionKind("", "", "")
    request_resource: GroupVersionResource = GroupVersionResource("", "", "")
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = field(default_factory=UserInfo)
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    dry_run: bool = False
    options: JsonObject | None = None


class _WireRequest(msgspec.Struct, rename="camel"):
    """``request`` of a review. Null stands for an absent value, as in Go."""

    uid: str | None = None
    kind: _Kind | None = None
    resource: _Resource | None = None
    sub_resource: str | None = None
    request_kind: _Kind | None = None
    request_resource: _Resource | None = None
    name: str | None = None
    namespace: str | None = None
    operation: str | None = None
    user_info: UserInfo | None = None
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None
    options: dict[str, Any] | None = None


class _WireReview(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    request: _WireRequest | None = None


@dataclass(frozen=True, slots=True)
class AdmissionReview:
    """A decoded review: its request, and the ``apiVersion`` in which the response goes back."""

    request: AdmissionRequest
    api_version: str


def decode_review(body: bytes, content_type: str) -> AdmissionReview:
    """Decode an AdmissionReview v1 or v1beta1; a review without ``apiVersion`` and ``kind`` is v1.

    Raises:
        BadRequestError: the content type is not exactly ``application/json``, or the body is empty or undecodable.
        TooLargeError: the body has 7 MiB or more.
    """
    if not body:
        raise BadRequestError("request body is empty")
    if len(body) >= MAX_REQUEST_SIZE:
        raise TooLargeError(f"request entity is too large; limit is {MAX_REQUEST_SIZE} bytes")
    if content_type != "application/json":
        raise BadRequestError(f"contentType={content_type}, expected application/json")
    try:
        review = msgspec.json.decode(body, type=_WireReview)
    except JSON_ERRORS as error:
        raise BadRequestError(f"the AdmissionReview does not decode: {error}") from error
    api_version = review.api_version or ""
    if (review.kind or api_version) and (review.kind != KIND or api_version not in _API_VERSIONS):
        raise BadRequestError(
            f"{api_version}, Kind={review.kind or ''} is not known: send {_API_VERSIONS[0]}, Kind={KIND}"
        )
    wire = review.request or _WireRequest()
    request = AdmissionRequest(
        uid=wire.uid or "",
        kind=GroupVersionKind(*_group_version_name(wire.kind or _Kind())),
        resource=GroupVersionResource(*_group_version_name(wire.resource or _Resource())),
        subresource=wire.sub_resource or "",
        request_kind=GroupVersionKind(*_group_version_name(wire.request_kind or wire.kind or _Kind())),
        request_resource=GroupVersionResource(
            *_group_version_name(wire.request_resource or wire.resource or _Resource())
        ),
        name=wire.name or "",
        namespace=wire.namespace or "",
        operation=wire.operation or "",
        user_info=wire.user_info or UserInfo(),
        object=wire.object,
        old_object=wire.old_object,
        dry_run=bool(wire.dry_run),
        options=wire.options,
    )
    return AdmissionReview(request, api_version or _API_VERSIONS[0])


def _group_version_name(value: _Kind | _Resource) -> tuple[str, str, str]:
    group, version, name = msgspec.structs.astuple(value)
    return group, version, name


# ------------------------------------------------------------------ responses
@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionResponse:
    """The decision of a webhook. Create one with `allowed`, `denied`, `errored` or `patched`.

    Attributes:
        allowed: whether the request is admitted.
        patches: JSON patch operations; only for mutating webhooks, and only if `allowed`.
        code: the HTTP status that the client gets for a denial.
        reason: machine-readable, such as ``Forbidden``.
        message: human-readable.
        causes: one for each invalid field.
        details: other members of the ``Status``'s details, such as ``kind`` and ``retryAfterSeconds``.
        warnings: the client shows them, whether the request is allowed or not.
        audit_annotations: added to the audit event; the server prefixes the keys with the webhook's name.
    """

    allowed: bool
    patches: Sequence[JsonObject] = ()
    code: int = 200
    reason: str = ""
    message: str = ""
    causes: Sequence[Cause] = ()
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)

    def with_warnings(self, *warnings: str) -> AdmissionResponse:
        """Return the same response with more warnings, each at most 120 characters long by convention.

        >>> allowed().with_warnings("spec.size is deprecated").warnings
        ('spec.size is deprecated',)
        """
        return replace(self, warnings=(*self.warnings, *warnings))


def allowed(message: str = "") -> AdmissionResponse:
    """Return a response that allows the request.

    >>> allowed().allowed, allowed().code
    (True, 200)
    """
    return AdmissionResponse(allowed=True, message=message)


def denied(message: str) -> AdmissionResponse:
    """Return a response that denies the request with 403 Forbidden.

    >>> denied("not today").reason
    'Forbidden'
    """
    return AdmissionResponse(allowed=False, code=403, reason="Forbidden", message=message)


def errored(code: int, message: str, *, reason: str = "") -> AdmissionResponse:
    """Return a response that denies the request because of an error.

    >>> errored(400, "there is no content to decode").code
    400
    """
    return AdmissionResponse(allowed=False, code=code, message=message, reason=reason)


def patched(original: JsonObject, current: JsonObject, message: str = "") -> AdmissionResponse:
    """Return a response that allows the request and turns `original` into `current`; no patch if they are equal.

    >>> patched({"spec": {}}, {"spec": {"size": 1}}).patches
    ({'op': 'add', 'path': '/spec/size', 'value': 1},)
    """
    return AdmissionResponse(allowed=True, patches=tuple(create_json_patch(original, current)), message=message)


def response_for(error: AdmissionDeniedError | ApiError) -> AdmissionResponse:
    """Return the denial for an error, with its code, reason, causes and details.

    >>> response_for(AdmissionDeniedError("no", reason="Invalid")).code
    422
    """
    if isinstance(error, AdmissionDeniedError):
        return AdmissionResponse(
            allowed=False,
            code=error.code,
            reason=error.reason,
            message=error.message,
            causes=error.causes,
            warnings=error.warnings,
        )
    fields = {name: getattr(error.details, name) for name in ("name", "group", "kind", "uid")}
    details: JsonObject = {name: value for name, value in fields.items() if value}
    if error.details.retry_after_seconds:
        details["retryAfterSeconds"] = error.details.retry_after_seconds
    return AdmissionResponse(
        allowed=False,
        code=error.code,
        reason=error.reason,
        message=error.message,
        causes=tuple(error.details.causes),
        details=details,
    )


def invalid_field(path: str, value: JsonValue, detail: str) -> Cause:
    """Return the cause for an invalid field value, with the message format of the API server.

    >>> invalid_field("spec.size", -1, "must be positive").message
    'Invalid value: -1: must be positive'
    """
    text = msgspec.json.encode(value).decode()
    return Cause("FieldValueInvalid", f"Invalid value: {text}: {detail}", path)


def encode_review(response: AdmissionResponse, *, uid: str = "", api_version: str = "") -> bytes:
    """Return the review that carries `response`.

    Args:
        response: the decision.
        uid: of the request; empty if the request could not be decoded.
        api_version: of the request's review; empty if the request could not be decoded.
    """
    status: JsonObject = {"code": response.code or 200}
    if response.reason:
        status["reason"] = response.reason
    if response.message:
        status["message"] = response.message
    details = dict(response.details)
    if response.causes:
        details["causes"] = [
            {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in response.causes
        ]
    if details:
        status["details"] = details
    body: JsonObject = {"uid": uid, "allowed": response.allowed, "status": status}
    if response.patches and response.allowed:
        body["patch"] = base64.b64encode(msgspec.json.encode(list(response.patches))).decode()
        body["patchType"] = "JSONPatch"
    if response.audit_annotations:
        body["auditAnnotations"] = dict(response.audit_annotations)
    if response.warnings:
        body["warnings"] = list(response.warnings)
    head = {"kind": KIND, "apiVersion": api_version} if api_version else {}
    return msgspec.json.encode({**head, "response": body})
