"""`ApiError` values with kube-apiserver's messages.

Upstream: k8s.io/apimachinery/pkg/api/errors/errors.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver.field_errors import plural
from opsdk.apiserver.resources import ResourceInfo
from opsdk.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    Cause,
    ConflictError,
    Details,
    ForbiddenError,
    GoneError,
    InvalidError,
    MethodNotAllowedError,
    NotFoundError,
    ServerTimeoutError,
)
from opsdk.structured_merge.go_format import go_json, go_quote

EMPTY = Details()
"""Serialized as an empty object, unlike `NONE`."""

NONE = Details()
"""Omits ``details`` from the Status."""


def _qualified(info: ResourceInfo) -> str:
    return f"{info.resource}.{info.group}" if info.group else info.resource


def _details(info: ResourceInfo, name: str) -> Details:
    return Details(name=name, group=info.group, kind=info.resource)


def not_found(info: ResourceInfo, name: str) -> NotFoundError:
    """Return a 404 for a missing object."""
    return NotFoundError(f"{_qualified(info)} {go_quote(name)} not found", details=_details(info, name))


def already_exists(info: ResourceInfo, name: str) -> AlreadyExistsError:
    """Return a 409 for an existing name."""
    return AlreadyExistsError(f"{_qualified(info)} {go_quote(name)} already exists", details=_details(info, name))


def generated_name_taken(info: ResourceInfo, name: str) -> AlreadyExistsError:
    """Return a 409 after eight generated names existed."""
    what = f"{_qualified(info)} {go_quote(name)}"
    text = f"{what} already exists, the server was not able to generate a unique name for the object"
    details = Details(name=name, group=info.group, kind=info.resource, retry_after_seconds=1)
    return AlreadyExistsError(text, details=details)


def precondition_failed(info: ResourceInfo, name: str, reason: str) -> ConflictError:
    """Return the 409 of a failed precondition; it names the kind."""
    what = f"{info.kind}.{info.group}" if info.group else info.kind
    details = Details(name=name, group=info.group, kind=info.kind)
    return ConflictError(f"Operation cannot be fulfilled on {what} {go_quote(name)}: {reason}", details=details)


def conflict(info: ResourceInfo, name: str, reason: str) -> ConflictError:
    """Return a 409 for a write that lost against another one."""
    text = f"Operation cannot be fulfilled on {_qualified(info)} {go_quote(name)}: {reason}"
    return ConflictError(text, details=_details(info, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def modified(info: ResourceInfo, name: str) -> ConflictError:
    """Return a 409 for an object that changed since the client read it."""
    return conflict(info, name, MODIFIED)


def forbidden(info: ResourceInfo, name: str, reason: str, *, causes: tuple[Cause, ...] = ()) -> ForbiddenError:
    """Return the 403 of admission or authorization."""
    what = f"{_qualified(info)} {go_quote(name)}" if name else _qualified(info)
    details = Details(name=name, group=info.group, kind=info.resource, causes=causes)
    return ForbiddenError(f"{what} is forbidden: {reason}", details=details)


def plain(text: str) -> ApiError:
    """Return a 500 error without a reason."""
    return ApiError(text, code=500, reason="")


def internal(text: str) -> ApiError:
    """Return a 500 for an internal error."""
    return ApiError(
        f"Internal error occurred: {text}",
        code=500,
        reason="InternalError",
        details=Details(causes=(Cause(message=text),)),
    )


def method_not_allowed() -> MethodNotAllowedError:
    """Return a 405 for a path that does not support the HTTP method."""
    return MethodNotAllowedError("the server does not allow this method on the requested resource", details=EMPTY)


def method_not_supported(info: ResourceInfo, verb: str) -> MethodNotAllowedError:
    """Return a 405 for a resource that does not support the verb."""
    text = f'{verb} is not supported on resources of kind "{_qualified(info)}"'
    return MethodNotAllowedError(text, details=Details(group=info.group, kind=info.resource))


def no_such_resource() -> NotFoundError:
    """Return a 404 for a resource that is not served in this group and version."""
    return NotFoundError("the server could not find the requested resource", details=EMPTY)


def bad_request(text: str) -> BadRequestError:
    """Return a 400."""
    return BadRequestError(text)


def foreign_namespace() -> BadRequestError:
    """Return the 400 of an object whose namespace differs from the request's."""
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def expired(text: str) -> GoneError:
    """Return a 410 for an expired resourceVersion or continue token."""
    return GoneError(text, code=410, reason="Expired")


def invalid_options(kind: str, causes: tuple[Cause, ...]) -> InvalidError:
    """Return the 422 of contradictory request options."""
    listed = [f"{c.field}: {c.message}" for c in causes]
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    details = Details(group="meta.k8s.io", kind=kind, causes=causes)
    return InvalidError(f'{kind}.meta.k8s.io "" is invalid: {text}', details=details)


def too_large_resource_version(requested: int, current: int) -> ServerTimeoutError:
    """Return a 504 for a resourceVersion that the server has not reached."""
    text = f"Too large resource version: {requested}, current: {current}"
    causes = (Cause(reason="ResourceVersionTooLarge", message="Too large resource version"),)
    return ServerTimeoutError(
        f"Timeout: {text}", reason="Timeout", details=Details(causes=causes, retry_after_seconds=1)
    )


# ------------------------------------------------------------------ invalid objects
def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> InvalidError:
    """Return the 422 of an invalid object, with one cause for each error."""
    listed = list(dict.fromkeys(f"{c.field}: {c.message}" for c in causes))
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    what = f"{kind}.{group}" if group else kind
    details = Details(name=name, group=group, kind=kind, causes=tuple(causes))
    return InvalidError(f"{what} {go_quote(name)} is invalid: {text}", details=details)


def quoted(value: object) -> str:
    r"""Format a value for error messages: strings as Go's %q, other values as JSON.

    >>> quoted("a\tb<"), quoted({"a": "<"})
    ('"a\\tb<"', '{"a":"\\u003c"}')
    """
    return go_quote(value) if isinstance(value, str) else go_json(value, ordered=True)


def required(field: str, detail: str = "") -> Cause:
    """Return the cause of a missing value."""
    return Cause(reason="FieldValueRequired", message=f"Required value{f': {detail}' if detail else ''}", field=field)


def invalid_value(field: str, value: object, detail: str) -> Cause:
    """Return the cause of an invalid value."""
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {quoted(value)}: {detail}", field=field)


def unsupported(field: str, value: object, allowed: Sequence[str]) -> Cause:
    """Return the cause of a value that is not in `allowed`."""
    names = ", ".join(quoted(v) for v in allowed)
    text = f"Unsupported value: {quoted(value)}: supported values: {names}"
    return Cause(reason="FieldValueNotSupported", message=text, field=field)


def not_allowed(field: str, detail: str) -> Cause:
    """Return the cause of a field that must not be set or changed."""
    return Cause(reason="FieldValueForbidden", message=f"Forbidden: {detail}", field=field)


def duplicate(field: str, value: object) -> Cause:
    """Return the cause of a duplicate value."""
    return Cause(reason="FieldValueDuplicate", message=f"Duplicate value: {quoted(value)}", field=field)


def too_many(field: str, actual: int, limit: int) -> Cause:
    """Return the cause of a list with too many elements."""
    text = f"Too many: {actual}: must have at most {limit} item{plural(limit)}"
    return Cause(reason="FieldValueTooMany", message=text, field=field)


def too_long(field: str, limit: int) -> Cause:
    """Return the cause of a value with too many bytes."""
    return Cause(
        reason="FieldValueTooLong", message=f"Too long: may not be more than {limit} byte{plural(limit)}", field=field
    )
