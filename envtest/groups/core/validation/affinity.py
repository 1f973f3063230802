"""Validation of pod placement: node affinity, pod affinity, topology spread constraints.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.groups.common import validation
from envtest.groups.common.label_selectors import check_label_selector
from opsdk.apimachinery.validation import label_value, qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
POD_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_WHEN: Final = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSIONS: Final = ("Honor", "Ignore")
_NO_SELECTOR: Final = "must not be specified when labelSelector is not set"
_POSITIVE: Final = "must be greater than zero"


# ------------------------------------------------------------------ nodes
def validate_affinity(affinity: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the affinity of a pod."""
    node = affinity.get("nodeAffinity") or {}
    if node.get(REQUIRED) is not None:
        yield from validate_node_selector(node[REQUIRED], f"{path}.nodeAffinity.{REQUIRED}")
    for index, term in enumerate(node.get(PREFERRED) or ()):
        item_path = f"{path}.nodeAffinity.{PREFERRED}[{index}]"
        yield from _weight(term, item_path)
        yield from _node_term(term.get("preference") or {}, f"{item_path}.preference", values=False)
    for kind in POD_AFFINITIES:
        terms = affinity.get(kind) or {}
        for index, term in enumerate(terms.get(REQUIRED) or ()):
            yield from _pod_term(term, f"{path}.{kind}.{REQUIRED}[{index}]")
        for index, term in enumerate(terms.get(PREFERRED) or ()):
            item_path = f"{path}.{kind}.{PREFERRED}[{index}]"
            yield from _weight(term, item_path)
            yield from _pod_term(term.get("podAffinityTerm") or {}, f"{item_path}.podAffinityTerm")


def _weight(term: JsonObject, path: str) -> Iterator[Cause]:
    if not 1 <= term.get("weight", 0) <= 100:
        yield api_errors.invalid_value(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100")


def validate_node_selector(selector: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the terms of a node selector."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        yield api_errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{path}.nodeSelectorTerms[{index}]", values=True)


def _node_term(term: JsonObject, path: str, *, values: bool) -> Iterator[Cause]:
    """Validate one term. Only required terms need values that are valid labels."""
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        item_path, key = f"{path}.matchExpressions[{index}]", requirement.get("key", "")
        operator, required_values = requirement.get("operator", ""), requirement.get("values") or []
        if operator in ("In", "NotIn"):
            if not required_values:
                yield api_errors.required(f"{item_path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if required_values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield api_errors.not_allowed(f"{item_path}.values", text)
        elif operator in ("Gt", "Lt"):
            if len(required_values) != 1:
                yield api_errors.required(
                    f"{item_path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
                )
        else:
            yield api_errors.invalid_value(f"{item_path}.operator", operator, "not a valid selector operator")
        yield from validation.each(qualified_name(key), key, f"{item_path}.key")
        for number, value in enumerate(requirement.get("values") or () if values else ()):
            yield from validation.each(label_value(value), value, f"{item_path}.values[{number}]")
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _field(requirement, f"{path}.matchFields[{index}]")


def _field(requirement: JsonObject, path: str) -> Iterator[Cause]:
    operator, key, values = requirement.get("operator", ""), requirement.get("key", ""), requirement.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield api_errors.invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield api_errors.required(f"{path}.values", text)
    if key != "metadata.name":
        yield api_errors.invalid_value(f"{path}.key", key, "not a valid field selector key")
        return
    for number, value in enumerate(values):
        yield from validation.subdomain(value, f"{path}.values[{number}]")


# ------------------------------------------------------------------ pod affinity
def _pod_term(term: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a term of pod affinity."""
    yield from check_label_selector(term.get("labelSelector") or {}, f"{path}.labelSelector")
    yield from check_label_selector(term.get("namespaceSelector") or {}, f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        yield from validation.label(name, f"{path}.namespace")
    label_keys: dict[str, Sequence[str]] = {k: term.get(k) or [] for k in ("matchLabelKeys", "mismatchLabelKeys")}
    causes = list[Cause]()
    for name, keys in label_keys.items():
        if keys and term.get("labelSelector") is None:
            causes.append(api_errors.not_allowed(f"{path}.{name}", _NO_SELECTOR))
            continue
        for index, key in enumerate(keys):
            causes.extend(validation.each(qualified_name(key), key, f"{path}.{name}[{index}]"))
    yield from causes
    if not causes:
        for index, key in enumerate(label_keys["matchLabelKeys"]):
            if key in label_keys["mismatchLabelKeys"]:
                text = "exists in both matchLabelKeys and mismatchLabelKeys"
                yield api_errors.invalid_value(f"{path}.matchLabelKeys[{index}]", key, text)
    key = term.get("topologyKey", "")
    if not key:
        yield api_errors.required(f"{path}.topologyKey", "can not be empty")
    yield from validation.each(qualified_name(key), key, f"{path}.topologyKey")


# ------------------------------------------------------------------ topology spread
def validate_spread(constraints: Sequence[JsonObject], path: str) -> Iterator[Cause]:
    """Validate topology spread constraints."""
    pairs = [(c.get("topologyKey", ""), c.get("whenUnsatisfiable", "")) for c in constraints]
    for index, constraint in enumerate(constraints):
        item_path, (key, when) = f"{path}[{index}]", pairs[index]
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            yield api_errors.invalid_value(f"{item_path}.maxSkew", skew, _POSITIVE)
        if not key:
            yield api_errors.required(f"{item_path}.topologyKey", "can not be empty")
        else:
            yield from validation.each(qualified_name(key), key, f"{item_path}.topologyKey")
        if when not in _WHEN:
            yield api_errors.unsupported(f"{item_path}.whenUnsatisfiable", when, _WHEN)
        # Upstream reports the first of two equal constraints.
        if pairs[index] in pairs[index + 1 :]:
            yield api_errors.duplicate(f"{item_path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}")
        yield from _domains(constraint, item_path)
        keys, keys_path = constraint.get("matchLabelKeys") or [], f"{item_path}.matchLabelKeys"
        if keys and constraint.get("labelSelector") is None:
            yield api_errors.not_allowed(keys_path, _NO_SELECTOR)
        for key_index, label_key in enumerate(keys):
            yield from validation.each(qualified_name(label_key), label_key, f"{keys_path}[{key_index}]")
        yield from check_label_selector(constraint.get("labelSelector") or {}, f"{item_path}.labelSelector")


def _domains(constraint: JsonObject, path: str) -> Iterator[Cause]:
    domains, when = constraint.get("minDomains"), constraint.get("whenUnsatisfiable", "")
    if domains is not None:
        if domains <= 0:
            yield api_errors.invalid_value(f"{path}.minDomains", domains, _POSITIVE)
        if when != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
            yield api_errors.invalid_value(f"{path}.minDomains", domains, text)
    for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if constraint.get(key) is not None and constraint[key] not in _INCLUSIONS:
            yield api_errors.unsupported(f"{path}.{key}", constraint[key], _INCLUSIONS)
