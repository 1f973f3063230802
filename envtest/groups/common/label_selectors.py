"""Label selectors in objects: validation, matching and printing. Pure.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


def check_requirement(
    requirement: JsonObject, field: str, *, labels: bool = True, unknown_operators: bool = False
) -> Iterator[Cause]:
    """Validate one requirement of a label selector, or (without `labels`) of a field selector."""
    if not labels and not requirement.get("key"):
        yield api_errors.required(f"{field}.key", "must be specified")
    operator, values = requirement.get("operator", ""), requirement.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            yield api_errors.required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield api_errors.not_allowed(f"{field}.values", text)
    elif not unknown_operators:
        yield api_errors.invalid_value(f"{field}.operator", operator, "not a valid selector operator")
    if labels:
        yield from _check_words(requirement, field)


def _check_words(requirement: JsonObject, field: str) -> Iterator[Cause]:
    key = requirement.get("key", "")
    for text in validation.qualified_name(key):
        yield api_errors.invalid_value(f"{field}.key", key, text)
    for index, value in enumerate(requirement.get("values") or ()):
        for text in validation.label_value(value):
            yield api_errors.invalid_value(f"{field}.values[{index}]", value, text)


def check_label_selector(selector: JsonObject, field: str) -> Iterator[Cause]:
    """Validate a label selector."""
    for key, value in sorted((selector.get("matchLabels") or {}).items()):
        for text in validation.qualified_name(key):
            yield api_errors.invalid_value(f"{field}.matchLabels", key, text)
        for text in validation.label_value(value):
            yield api_errors.invalid_value(f"{field}.matchLabels", value, text)
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        yield from check_requirement(requirement, f"{field}.matchExpressions[{index}]")


_USABLE = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


def selects(selector: JsonObject, labels: JsonObject) -> bool:
    """Return whether a LabelSelector matches the labels."""
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(e, labels) for e in selector.get("matchExpressions") or ())


def _expression(expression: JsonObject, labels: JsonObject) -> bool:
    value, values = labels.get(expression.get("key", "")), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def is_empty(selector: JsonObject) -> bool:
    """Return whether a selector has no requirements, so matches everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def is_valid(selector: JsonObject | None) -> bool:
    """Return whether a selector is valid."""
    for expression in (selector or {}).get("matchExpressions") or ():
        operator, values = expression.get("operator"), expression.get("values") or []
        if operator not in _USABLE or (operator in ("In", "NotIn")) != bool(values):
            return False
    labels = ((selector or {}).get("matchLabels") or {}).items()
    return not any(validation.qualified_name(key) or validation.label_value(value) for key, value in labels)


def selector_text(selector: JsonObject) -> str:
    """Return a selector as one line."""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{k}={v}" for k, v in sorted(selector.items()))
    parts = [(k, f"{k}={v}") for k, v in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or []))
        match expression["operator"]:
            case "In":
                parts.append((key, f"{key} in ({values})"))
            case "NotIn":
                parts.append((key, f"{key} notin ({values})"))
            case "Exists":
                parts.append((key, key))
            case _:
                parts.append((key, f"!{key}"))
    # A stable sort by key: matchLabels come before expressions of the same key.
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))
