"""Validation of pod-level resources and DRA claims.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.groups.common import validation
from envtest.groups.core import resource_names
from envtest.groups.core.pod_requests import requested
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.validation import dns_subdomain
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_WHOLE: Final = ("cpu", "memory")


# ------------------------------------------------------------------ claims
def validate_claims(claims: Sequence[JsonObject], path: str, pod: str) -> Iterator[Cause]:
    """Validate DRA claims of a pod; `pod` is its name, empty for a template."""
    names: set[str] = set()
    for index, claim in enumerate(claims):
        item_path = f"{path}[{index}]"
        name_path = f"{item_path}.name"
        name = claim.get("name", "")
        if not name:
            yield api_errors.required(name_path)
        elif name in names:
            yield api_errors.duplicate(name_path, name)
        else:
            names.add(name)
            wrong = list(validation.label(name, name_path))
            yield from wrong
            if not wrong and pod and claim.get("resourceClaimTemplateName") is not None:
                yield from validation.each(dns_subdomain(f"{pod}-{name}"), f"{pod}-{name}", name_path)
        claim_name, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        rendered = {
            "Name": claim.get("name", ""),
            "ResourceClaimName": claim_name,
            "ResourceClaimTemplateName": template,
        }
        if claim_name is not None and template is not None:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield api_errors.invalid_value(item_path, rendered, text)
        if claim_name is None and template is None:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield api_errors.invalid_value(item_path, rendered, text)
        for key in ("resourceClaimName", "resourceClaimTemplateName"):
            if claim.get(key) is not None:
                yield from validation.subdomain(claim[key], f"{item_path}.{key}")


# ------------------------------------------------------------------ pod-level resources
def validate_pod_resources(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate pod-level resources: requests cover those of the containers."""
    resources, resources_path = spec.get("resources"), f"{path}.resources"
    if resources is None:
        return
    for index, _ in enumerate(resources.get("claims") or ()):
        yield api_errors.not_allowed(f"{resources_path}.claims[{index}]", "may not be set for Resources at pod-level")
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in sorted(amounts.items()):
            item_path = f"{resources_path}.{kind}[{name}]"
            if name not in _WHOLE and not name.startswith("hugepages-"):
                yield api_errors.unsupported(item_path, name, ("cpu", "hugepages-", "memory"))
            yield from resource_names.amount(name, amount, item_path)
    for name, amount in sorted(requests.items()):
        limit = limits.get(name)
        if limit is not None and Quantity(amount) > Quantity(limit):
            text = f"must be less than or equal to {name} limit of {limit}"
            yield api_errors.invalid_value(f"{resources_path}.requests", amount, text)
    yield from _consistent(spec, path)


def _consistent(spec: JsonObject, path: str) -> Iterator[Cause]:
    resources = spec["resources"]
    for name, amount in sorted((resources.get("requests") or {}).items()):
        together = requested(spec, name)
        if Quantity(amount) < together:
            text = f"must be greater than or equal to aggregate container requests of {together}"
            yield api_errors.invalid_value(f"{path}.resources.requests[{name}]", amount, text)
    for name, most in sorted((resources.get("limits") or {}).items()):
        for index, container in enumerate(spec.get("containers") or ()):
            limit = ((container.get("resources") or {}).get("limits") or {}).get(name)
            if limit is not None and Quantity(limit) > Quantity(most):
                where = f"{path}.containers[{index}].resources.limits[{name}]"
                yield api_errors.invalid_value(where, limit, f"must be less than or equal to pod limits of {most}")
