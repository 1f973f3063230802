"""Authorizes requests: attributes of a request and the 403 response.

Upstream: k8s.io/apiserver/pkg/endpoints/filters/authorization.go (v1.36).
"""

from __future__ import annotations

from msgspec.structs import replace

from opsdk.apimachinery import validation
from opsdk.apimachinery.selectors import FieldSelector
from opsdk.apiserver import api_errors
from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.request_info import RequestInfo
from opsdk.apiserver.endpoints.response import negotiated_error
from opsdk.apiserver.endpoints.status import error_response
from opsdk.errors import Details, ForbiddenError, UsageError
from opsdk.http.server.response import HttpResponse

_SELECTING = frozenset({"list", "watch", "deletecollection"})


def attributes_of(call: Call) -> AuthorizerAttributes:
    """What the call wants."""
    info, query = call.info, call.http.query
    selecting = info.is_resource and info.verb in _SELECTING
    fields = query.get("fieldSelector") if selecting else ""
    return AuthorizerAttributes(
        user=call.user,
        verb=info.verb,
        resource_request=info.is_resource,
        group=info.group,
        version=info.version,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name or _selected_name(info, fields),
        path=info.path,
        field_selector=fields,
        label_selector=query.get("labelSelector") if selecting else "",
    )


def _selected_name(info: RequestInfo, fields: str) -> str:
    """The one name that a list or watch asks for: who may read this object may read it in this way too."""
    if not fields or info.verb not in ("list", "watch") or info.deprecated_watch:
        return ""
    try:
        name = FieldSelector.parse(fields).exact("metadata.name") or ""
    except UsageError:
        return ""
    return "" if validation.path_segment(name) else name


def denial(attributes: AuthorizerAttributes, reason: str = "") -> ForbiddenError:
    """The 403 for a request that is not allowed."""
    user = attributes.user.name
    if not attributes.resource_request:
        text = f'forbidden: User "{user}" cannot {attributes.verb} path "{attributes.path}"'
        return ForbiddenError(f"{text}: {reason}" if reason else text, details=api_errors.EMPTY)
    path = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    message = f'User "{user}" cannot {attributes.verb} resource "{path}" in API group "{attributes.group}" {where}'
    return refusal(attributes, f"{message}: {reason}" if reason else message)


def refusal(attributes: AuthorizerAttributes, reason: str) -> ForbiddenError:
    """The 403 that names the object; `reason` follows."""
    what = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    resource_text = f'{what} "{attributes.name}"' if attributes.name else what
    details = Details(name=attributes.name, group=attributes.group, kind=attributes.resource)
    return ForbiddenError(f"{resource_text} is forbidden: {reason}", details=details)


def denied(call: Call, attributes: AuthorizerAttributes, reason: str = "") -> HttpResponse:
    """The answer with that 403."""
    response = negotiated_error(call, denial(attributes, reason))
    response.add_header("x-content-type-options", "nosniff")
    return response


async def check(call: Call, authorizer: Authorizer) -> HttpResponse | None:
    """The answer to a call that may not go on; None where it may."""
    attributes = attributes_of(call)
    decision = await authorizer.authorize(attributes)
    if decision.allowed:
        return None
    if decision.error:
        return error_response(api_errors.internal(decision.error))
    return denied(call, attributes, decision.reason)


async def check_create(call: Call) -> None:
    """Raise where an update or a patch turns out to create, and the user may not do that."""
    if call.authorizer is None:
        return
    attributes = replace(attributes_of(call), verb="create")
    decision = await call.authorizer.authorize(attributes)
    if decision.allowed:
        return
    if decision.error:
        raise api_errors.internal(decision.error)
    raise refusal(attributes, decision.reason)
