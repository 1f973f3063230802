"""Compiles and validates ``x-kubernetes-validations`` of a CRD's schema, with cost limits.

Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from opsdk.apiserver.expressions.schema_types import cardinality, declare
from opsdk.apiserver.field_errors import FieldError, forbidden, internal, invalid
from opsdk.apiserver.structural.keyword_validation import check_vocabulary
from opsdk.apiserver.structural.rule import CompiledRule
from opsdk.apiserver.structural.rule_locations import RULES, has_rules
from opsdk.apiserver.structural.schema_format import shown_rule
from opsdk.cel.declarations import MOST
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonValue

Schema = Mapping[str, JsonValue]
Errors = Iterator[FieldError]

RULE_LIMIT: Final = 10_000_000
"""Limit of the estimated cost of one rule for a whole object."""

SCHEMA_LIMIT: Final = 100_000_000
"""Limit of the estimated cost of all rules of a schema."""

_MOST_SHOWN: Final = 4
_HINT: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
    " declared)"
)


# ------------------------------------------------------------------ cost limits
@dataclass(slots=True)
class _Total:
    """The cost of all rules, and the most expensive ones."""

    cost: int = 0
    expensive: list[tuple[int, FieldPath]] = field(default_factory=list)

    def add(self, cost: int, path: FieldPath) -> None:
        self.cost = min(self.cost + cost, MOST)
        if cost >= SCHEMA_LIMIT // 100:
            self.expensive.append((cost, path))
            self.expensive.sort(key=lambda one: -one[0])
            del self.expensive[_MOST_SHOWN:]


@dataclass(frozen=True, slots=True)
class _CelContext:
    """The context of a schema.

    Attributes:
        max_cardinality: most values of the schema in one object; None if unbounded.
        uncorrelatable_path: the enclosing list or map whose elements cannot be matched with old ones.
        resource: whether the values are whole objects.
        has_schema_errors: whether the schema may have errors besides its rules.
    """

    path: FieldPath
    max_cardinality: int | None = 1
    uncorrelatable_path: FieldPath | None = None
    resource: bool = False
    has_schema_errors: bool = False

    def child(self, path: FieldPath, schema: Schema, *, limit: str = "", correlatable: bool = True) -> _CelContext:
        """Return the context of a schema below `schema`; `limit` is the keyword that limits how often it occurs."""
        cardinality = self.max_cardinality
        if limit:
            most = schema.get(limit)
            cardinality = None if cardinality is None or most is None else min(cardinality * max(int(most), 0), MOST)
        uncorrelatable = self.uncorrelatable_path
        if uncorrelatable is None and not correlatable:
            uncorrelatable = self.path
        return replace(self, path=path, max_cardinality=cardinality, uncorrelatable_path=uncorrelatable, resource=False)


def check_rules(schema: Schema, path: FieldPath, *, has_schema_errors: bool = False) -> list[FieldError]:
    """Return the errors in the rules of a whole structural schema.

    With `has_schema_errors`, a rule is checked only if its own schema has no error.
    """
    total = _Total()
    errors = list(_check(schema, _CelContext(path, resource=True, has_schema_errors=has_schema_errors), total))
    if total.cost > SCHEMA_LIMIT:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors += [forbidden(rule_path, text) for _, rule_path in total.expensive]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        errors.append(forbidden(path, _cost_exceeded_message(name, total.cost, SCHEMA_LIMIT)))
    return errors


def _check(schema: Schema, context: _CelContext, total: _Total) -> Errors:
    """Yield what is wrong with the rules of a schema and below it."""
    additional, items = schema.get("additionalProperties"), schema.get("items")
    is_known = schema.get("x-kubernetes-map-type") in (None, "granular", "atomic")
    if isinstance(additional, Mapping) and has_rules(additional):
        child_path = context.path.child("additionalProperties")
        yield from _check(
            additional, context.child(child_path, schema, limit="maxProperties", correlatable=is_known), total
        )
    for name, below in sorted((schema.get("properties") or {}).items()):
        if has_rules(below):
            child_path = context.path.child("properties").key(name)
            yield from _check(below, context.child(child_path, schema, correlatable=is_known), total)
    if isinstance(items, Mapping) and has_rules(items):
        correlated = schema.get("x-kubernetes-list-type") == "map"
        child_path = context.path.child("items")
        yield from _check(items, context.child(child_path, schema, limit="maxItems", correlatable=correlated), total)
    written: Sequence[Mapping[str, JsonValue]] = schema.get(RULES) or ()
    if not written or (context.has_schema_errors and any(check_vocabulary(schema, context.path))):
        return
    declared = declare(schema, "selfType", resource=context.resource)
    if declared is None:
        reason = "failed to construct type information for x-kubernetes-validations rules"
        text = f"internal error: {reason}: unable to convert structural schema to CEL declarations"
        yield internal(context.path.child(RULES), text)
        return
    times = cardinality(declared.min_serialized_size) if context.max_cardinality is None else context.max_cardinality
    for index, one in enumerate(written):
        yield from _check_rule(
            CompiledRule(one, declared, schema), times, context, context.path.child(RULES).index(index), total
        )


def _check_rule(rule: CompiledRule, times: int, context: _CelContext, rule_path: FieldPath, total: _Total) -> Errors:
    """Yield what is wrong with one rule: its text, its message, its cost."""
    cost = min(rule.cost * times, MOST)
    if cost > RULE_LIMIT:
        yield forbidden(rule_path.child("rule"), _cost_exceeded_message("estimated rule cost", cost, RULE_LIMIT))
    total.add(cost, rule_path.child("rule"))
    if rule.fault:
        yield invalid(rule_path.child("rule"), shown_rule(rule.written), rule.fault)
    if rule.message_fault:
        yield invalid(rule_path.child("messageExpression"), shown_rule(rule.written), rule.message_fault)
    elif rule.message_program is not None:
        if rule.message_cost > RULE_LIMIT:
            text = _cost_exceeded_message("estimated messageExpression cost", rule.message_cost, RULE_LIMIT)
            yield forbidden(rule_path.child("messageExpression"), text)
        total.add(rule.message_cost, rule_path.child("messageExpression"))
    if rule.uses_old and context.uncorrelatable_path is not None:
        text = (
            f"oldSelf cannot be used on the uncorrelatable portion of the schema within {context.uncorrelatable_path}"
        )
        yield invalid(rule_path.child("rule"), rule.expression, text)
    elif not rule.uses_old and rule.written.get("optionalOldSelf") is not None:
        value = rule.written["optionalOldSelf"]
        yield invalid(rule_path.child("optionalOldSelf"), value, "may not be set if oldSelf is not used in rule")


def _cost_exceeded_message(name: str, cost: int, limit: int) -> str:
    times = cost / limit
    if times > 100:
        factor = "more than 100x"
    elif times < 1.5:
        factor = f"{times:f}x"
    else:
        factor = f"{times:.1f}x"
    return f"{name} exceeds budget by factor of {factor} {_HINT}"
