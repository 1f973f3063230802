"""The CEL variables of one admission request.

Upstream: k8s.io/apiserver/pkg/admission/plugin/cel/activation.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.versioned_attributes import VersionedAttributes
from opsdk.apiserver.admission.webhooks.admission_review import create_admission_review
from opsdk.apiserver.auth.authorization import AuthorizerAttributes
from opsdk.apiserver.expressions.admission import request_variable
from opsdk.apiserver.expressions.authorizer import AuthorizerValue, ResourceCheck
from opsdk.apiserver.expressions.authorizer_checks import AuthorizerChecks
from opsdk.structured_merge.value import JsonObject

_HIDDEN = frozenset({"ownerReferences", "managedFields", "selfLink"})


def inputs(
    attributes: Attributes,
    versioned: VersionedAttributes,
    checks: AuthorizerChecks,
    *,
    params: JsonObject | None = None,
    namespace: JsonObject | None = None,
) -> JsonObject:
    """Return the CEL variables; `namespace` is the request's Namespace object."""
    namespace_object: JsonObject | None = None
    if namespace is not None:
        # Labels and annotations are exposed, ownerReferences are not.
        meta = {key: value for key, value in namespace["metadata"].items() if key not in _HIDDEN}
        namespace_object = {
            "metadata": meta,
            "spec": namespace.get("spec") or {},
            "status": namespace.get("status") or {},
        }
    requested = AuthorizerAttributes(
        user=attributes.user,
        verb="",
        group=attributes.resource.group,
        version=attributes.resource.version,
        resource=attributes.resource.resource,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )
    return {
        "object": versioned.obj,
        "oldObject": versioned.old,
        "namespaceObject": namespace_object,
        "request": request_variable(create_admission_review(attributes, versioned, uid="", version="v1")["request"]),
        "params": params,
        "authorizer": AuthorizerValue.of(checks.ask, attributes.user),
        "authorizer.requestResource": ResourceCheck.of(checks.ask, requested),
    }


def without_authorizer(values: JsonObject) -> JsonObject:
    """Return the variables of messages and annotations, which have no authorizer."""
    return {name: value for name, value in values.items() if not name.startswith("authorizer")}
