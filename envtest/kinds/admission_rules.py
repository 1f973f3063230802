"""Rules for rules: which operations and resources a webhook or a policy may name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.kinds import rules
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MAX_CONDITIONS = 64


def validate_rule(rule: JsonObject, field: str) -> Iterator[Cause]:
    """Operations, groups, versions, resources, scope."""
    operations = rule.get("operations") or []
    if not operations:
        yield api_errors.required(f"{field}.operations")
    if len(operations) > 1 and "*" in operations:
        why = "if '*' is present, must not specify other operations"
        yield api_errors.invalid_value(f"{field}.operations", operations, why)
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield api_errors.unsupported(f"{field}.operations[{index}]", operation, _OPERATIONS)
    for key, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        yield from _alone(rule.get(key) or [], f"{field}.{key}", what)
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield api_errors.required(f"{field}.apiVersions[{index}]")
    yield from _resources(rule.get("resources") or [], f"{field}.resources")
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        yield api_errors.unsupported(f"{field}.scope", rule["scope"], _SCOPES)


def _alone(values: Sequence[str], field: str, what: str) -> Iterator[Cause]:
    """Some, or a wildcard for all of them."""
    if not values:
        yield api_errors.required(field)
    if len(values) > 1 and "*" in values:
        yield api_errors.invalid_value(field, list(values), f"if '*' is present, must not specify other {what}")


def _resources(resources: Sequence[str], field: str) -> Iterator[Cause]:
    if not resources:
        yield api_errors.required(field)
    yield from _subresources(resources, field)
    if len(resources) > 1 and "*/*" in resources:
        yield api_errors.invalid_value(field, list(resources), "if '*/*' is present, must not specify other resources")
    if "*" in resources and any("/" not in text and text not in ("", "*") for text in resources):
        why = "if '*' is present, must not specify other resources without subresources"
        yield api_errors.invalid_value(field, list(resources), why)


def _subresources(resources: Sequence[str], field: str) -> Iterator[Cause]:
    """What an earlier wildcard covers already."""
    whole: set[str] = set()
    everywhere: set[str] = set()
    for index, text in enumerate(resources):
        at = f"{field}[{index}]"
        resource, slash, sub = text.partition("/")
        if not text:
            yield api_errors.required(at)
        if not slash:
            continue
        if resource in whole:
            yield api_errors.invalid_value(at, text, f"if '{resource}/*' is present, must not specify {text}")
        if sub in everywhere:
            yield api_errors.invalid_value(at, text, f"if '*/{sub}' is present, must not specify {text}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)


# ------------------------------------------------------------------ match conditions
def validate_conditions(conditions: Sequence[JsonObject], field: str, *, params: bool = False) -> Iterator[Cause]:
    """Names, each once, and expressions; `params` says whether these may refer to parameters."""
    if len(conditions) > _MAX_CONDITIONS:
        text = f"Too many: {len(conditions)}: must have at most {_MAX_CONDITIONS} items"
        yield Cause(reason="FieldValueTooMany", message=text, field=field)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, name = f"{field}[{index}]", condition.get("name") or ""
        yield from _condition(str(condition.get("expression") or ""), f"{at}.expression", params=params)
        if not name:
            yield api_errors.required(f"{at}.name")
            continue
        yield from rules.each(validation.qualified_name(name), name, f"{at}.name")
        if name in seen:
            yield api_errors.duplicate(f"{at}.name", name)
        seen.add(name)


def _condition(expression: str, field: str, *, params: bool) -> Iterator[Cause]:
    from opsdk.apiserver.expressions.admission import compile_condition  # noqa: PLC0415 - CEL takes long to load

    if not expression.strip():
        yield api_errors.required(field)
        return
    found = compile_condition(expression.strip(), params=params)
    if isinstance(found, str):
        yield api_errors.invalid_value(field, expression.strip(), found)
