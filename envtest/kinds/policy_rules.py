"""Admission policies and their bindings: what may stand in them besides expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from envtest.kinds.admission_rules import validate_rule
from envtest.kinds.selector_rules import check_label_selector
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
"""What mutating policies may concern: what is deleted does not change any more."""

_ACTIONS = ("Audit", "Deny", "Warn")
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and"
    " headers serves no purpose)"
)
_EXCLUSIVE = "name and selector are mutually exclusive"


def one_of(tree: JsonObject, field: str, key: str, allowed: Sequence[str]) -> Iterator[Cause]:
    """One of some words, which must be there."""
    value = tree.get(key)
    if value is None:
        yield api_errors.required(f"{field}.{key}")
    elif value not in allowed:
        yield api_errors.unsupported(f"{field}.{key}", value, allowed)


# ------------------------------------------------------------------ what is meant
def match_constraints(match: JsonObject | None, field: str, *, operations: Sequence[str] = ()) -> Iterator[Cause]:
    """The constraints of a policy: there is at least one rule, and only `operations` if any are given."""
    if match is None:
        yield api_errors.required(field)
        return
    yield from match_resources(match, field)
    if not match.get("resourceRules"):
        yield api_errors.required(f"{field}.resourceRules")
    if operations:
        yield from only_operations(match, field, operations)


def match_resources(match: JsonObject, field: str) -> Iterator[Cause]:
    """Selectors and rules."""
    yield from one_of(match, field, "matchPolicy", ("Equivalent", "Exact"))
    for key in ("namespaceSelector", "objectSelector"):
        if match.get(key) is None:
            yield api_errors.required(f"{field}.{key}")
        else:
            yield from check_label_selector(match[key], f"{field}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(key) or ()):
            yield from _named_rule(rule, f"{field}.{key}[{index}]")


def only_operations(match: JsonObject, field: str, allowed: Sequence[str]) -> Iterator[Cause]:
    """No rule means another operation."""
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in allowed:
                yield api_errors.unsupported(f"{field}.resourceRules.operations", operation, allowed)


def _named_rule(rule: JsonObject, field: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        at = f"{field}.resourceNames[{index}]"
        yield from _faults(name, at, validation.path_segment)
        if name in seen:
            yield api_errors.duplicate(at, name)
        seen.add(name)
    yield from validate_rule(rule, field)


def _faults(name: str, field: str, rule: Callable[[str], Sequence[str]]) -> Iterator[Cause]:
    for why in rule(name):
        yield api_errors.invalid_value(field, name, why)


# ------------------------------------------------------------------ parameters
def param_kind(kind: JsonObject, field: str) -> Iterator[Cause]:
    """A version and a kind that can be those of a resource."""
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not version:
        yield api_errors.required(f"{field}.apiVersion")
    elif version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        yield api_errors.invalid_value(f"{field}.apiVersion", version, text)
    else:
        yield from _group_version(version, f"{field}.apiVersion")
    if not name:
        yield api_errors.required(f"{field}.kind")
    elif found := validation.dns_1035_label(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(found)}"
        yield api_errors.invalid_value(f"{field}.kind", name, text)


def _group_version(text: str, field: str) -> Iterator[Cause]:
    group, _, version = text.rpartition("/")
    if group and (found := validation.dns_subdomain(group)):
        yield api_errors.invalid_value(field, group, ",".join(found))
    if not version:
        yield api_errors.invalid_value(field, text, "version must be specified")
    elif found := validation.dns_1035_label(version):
        yield api_errors.invalid_value(field, version, ",".join(found))


def param_ref(ref: JsonObject, field: str) -> Iterator[Cause]:
    """By name or by labels, and what to do where there are none."""
    name, selector = ref.get("name") or "", ref.get("selector")
    if name:
        yield from _faults(name, f"{field}.name", validation.path_segment)
        if selector is not None:
            yield api_errors.not_allowed(f"{field}.name", _EXCLUSIVE)
    if selector is not None:
        yield from check_label_selector(selector, f"{field}.selector")
        if name:
            yield api_errors.not_allowed(f"{field}.selector", _EXCLUSIVE)
    if not name and selector is None:
        yield api_errors.required(field, "one of name or selector must be specified")
    action = ref.get("parameterNotFoundAction") or ""
    if not action:
        yield api_errors.required(f"{field}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        yield api_errors.unsupported(f"{field}.parameterNotFoundAction", action, ("Deny", "Allow"))


# ------------------------------------------------------------------ bindings
def binding(spec: JsonObject, field: str, *, mutating: bool) -> Iterator[Cause]:
    """The whole of a binding's spec."""
    policy = spec.get("policyName") or ""
    if not policy:
        yield api_errors.required(f"{field}.policyName")
    else:
        yield from _faults(policy, f"{field}.policyName", validation.dns_subdomain)
    if spec.get("paramRef") is not None:
        yield from param_ref(spec["paramRef"], f"{field}.paramRef")
    match = spec.get("matchResources")
    if match is not None:
        yield from match_resources(match, f"{field}.matchResources")
        if mutating:
            yield from only_operations(match, f"{field}.matchResources", MUTABLE)
    if not mutating:
        yield from _actions(spec.get("validationActions") or [], f"{field}.validationActions")


def _actions(actions: Sequence[str], field: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield api_errors.unsupported(f"{field}[{index}]", action, _ACTIONS)
        if action in seen:
            yield api_errors.duplicate(f"{field}[{index}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        yield api_errors.invalid_value(field, list(actions), _BOTH)
    if not seen:
        yield api_errors.required(field, "at least one validation action is required")
