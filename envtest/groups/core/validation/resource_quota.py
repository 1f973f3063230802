"""Validation of resource quotas.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envtest.groups.core import resource_names
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_PODS: Final = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"},
)
SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "Terminating": _PODS,
    "NotTerminating": _PODS,
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _PODS,
    "PriorityClass": _PODS,
    "CrossNamespacePodAffinity": _PODS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The scopes, and the resources that each may limit."""
_PLAIN: Final = SCOPES.keys() - {"PriorityClass", "VolumeAttributesClass"}
_OPPOSITES: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS: Final = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
    " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate_amounts(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    """Validate resource names and quantities of a quota."""
    for name, text in sorted(amounts.items()):
        yield from resource_names.quota_name(name, f"{path}[{name}]")
        yield from resource_names.amount(name, text, f"{path}[{name}]")


def _foreign(scope: str, spec: JsonObject) -> int:
    """Return the number of hard limits that the scope does not support."""
    fitting = SCOPES.get(scope)
    hard = spec.get("hard") or {}
    return 0 if fitting is None else sum(resource_names.is_quota_name(name) and name not in fitting for name in hard)


def validate_scopes(spec: JsonObject) -> Iterator[Cause]:
    """Validate scopes and the resources that they apply to."""
    scopes, path = spec.get("scopes") or [], "spec.scopes"
    for scope in scopes:
        if scope not in SCOPES:
            yield api_errors.invalid_value(path, scopes, "unsupported scope")
        for _ in range(_foreign(scope, spec)):
            yield api_errors.invalid_value(path, scopes, "unsupported scope applied to resource")
    yield from _conflicts(set(scopes), scopes, path)


def _conflicts(scopes: set[str], listed: Sequence[str], path: str) -> Iterator[Cause]:
    for pair in _OPPOSITES:
        if pair <= scopes:
            yield api_errors.invalid_value(path, listed or None, "conflicting scopes")


def validate_scope_selector(spec: JsonObject) -> Iterator[Cause]:
    """Validate the scope selector."""
    selector, path = spec.get("scopeSelector"), "spec.scopeSelector.matchExpressions"
    if selector is None:
        return
    expressions = selector.get("matchExpressions") or []
    for requirement in expressions:
        scope = requirement.get("scopeName", "")
        if scope not in SCOPES:
            yield api_errors.invalid_value(f"{path}.scopeName", scope, "unsupported scope")
        for _ in range(_foreign(scope, spec)):
            # The message shows the requirement with the Go names of its fields.
            yield api_errors.invalid_value(
                path,
                {
                    "MatchExpressions": [
                        {
                            "ScopeName": r.get("scopeName", ""),
                            "Operator": r.get("operator", ""),
                            "Values": r.get("values"),
                        }
                        for r in expressions
                    ]
                },
                "unsupported scope applied to resource",
            )
        operator, values = requirement.get("operator", ""), requirement.get("values") or []
        if requirement.get("scopeName", "") in _PLAIN and operator != "Exists":
            yield api_errors.invalid_value(f"{path}.operator", operator, _EXISTS)
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield api_errors.required(f"{path}.values", text)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield api_errors.invalid_value(f"{path}.values", values, text)
        else:
            yield api_errors.invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    yield from _conflicts({r.get("scopeName", "") for r in expressions}, spec.get("scopes") or (), path)
