"""What ``x-kubernetes-validations`` in a CRD's schema may be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from opsdk.apiserver.expressions.schemas import cardinality, declare
from opsdk.apiserver.field_errors import AsShown, FieldError, forbidden, internal, invalid, not_supported, required
from opsdk.apiserver.structural.rule import REASONS, Rule, parse_field_path
from opsdk.apiserver.structural.rule_places import RULES, has_rules
from opsdk.cel.declarations import MOST
from opsdk.errors import UsageError
from opsdk.tree.go_text import go_json
from opsdk.tree.paths import FieldPath

Schema = Mapping[str, Any]
Errors = Iterator[FieldError]

RULE_LIMIT: Final = 10_000_000
"""What one rule may cost for a whole object, by its estimate."""

SCHEMA_LIMIT: Final = 100_000_000
"""What all rules of a schema may cost together."""

_MOST_SHOWN: Final = 4
_HINT: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
    " declared)"
)


# ------------------------------------------------------------------ how rules are written
def check_rule_texts(schema: Schema, path: FieldPath) -> Errors:
    """What is wrong with the entries of one level, before anything is compiled."""
    for index, rule in enumerate(schema.get(RULES) or ()):
        yield from _check_texts(rule, schema, path.child(RULES).index(index))


def _breaks(text: str) -> bool:
    return bool(re.search(r"[\n\r]", text))


def _check_texts(rule: Mapping[str, Any], schema: Schema, at: FieldPath) -> Errors:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    if not text:
        yield required(at.child("rule"), "rule is not specified")
    elif message and not message.strip():
        yield invalid(at.child("message"), message, "must be non-empty if specified")
    elif _breaks(message.strip()):
        yield invalid(at.child("message"), message, "must not contain line breaks")
    elif _breaks(text) and not message:
        yield required(at.child("message"), "must be specified if rule contains line breaks")
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        yield required(at.child("messageExpression"), "must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in REASONS:
        yield not_supported(at.child("reason"), reason, sorted(REASONS))
    yield from _check_field_path(rule.get("fieldPath") or "", schema, at.child("fieldPath"))


def _check_field_path(text: str, schema: Schema, at: FieldPath) -> Errors:
    if not text:
        return
    if not text.strip():
        yield invalid(at, text, "must be non-empty if specified")
    if _breaks(text):
        yield invalid(at, text, "must not contain line breaks")
    try:
        parse_field_path(text, schema)
    except UsageError:
        yield invalid(at, text, "must be a valid path")


# ------------------------------------------------------------------ what rules mean
@dataclass(slots=True)
class _Total:
    """The cost of all rules, and those that make most of it."""

    cost: int = 0
    expensive: list[tuple[int, FieldPath]] = field(default_factory=list)

    def add(self, cost: int, path: FieldPath) -> None:
        self.cost = min(self.cost + cost, MOST)
        if cost >= SCHEMA_LIMIT // 100:
            self.expensive.append((cost, path))
            self.expensive.sort(key=lambda one: -one[0])
            del self.expensive[_MOST_SHOWN:]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands.

    Attributes:
        times: how many values of it one object can have; None if there is no bound.
        loose: the list or map whose elements cannot be found again, around this.
        resource: whether values are whole objects.
    """

    path: FieldPath
    times: int | None = 1
    loose: FieldPath | None = None
    resource: bool = False

    def below(self, path: FieldPath, schema: Schema, *, limit: str = "", correlated: bool = True) -> _Place:
        """The place of a schema below `schema`; `limit` is the keyword that says how often it can be there."""
        times = self.times
        if limit:
            most = schema.get(limit)
            times = None if times is None or most is None else min(times * max(int(most), 0), MOST)
        loose = self.loose if self.loose is not None or correlated else self.path
        return replace(self, path=path, times=times, loose=loose, resource=False)


def check_rules(schema: Schema, path: FieldPath) -> list[FieldError]:
    """What is wrong with the rules of a whole schema that is right otherwise."""
    if not has_rules(schema):
        return []
    total = _Total()
    errors = list(_check(schema, _Place(path, resource=True), total))
    if total.cost > SCHEMA_LIMIT:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors += [forbidden(at, text) for _, at in total.expensive]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        errors.append(forbidden(path, _too_much(name, total.cost, SCHEMA_LIMIT)))
    return errors


def _check(schema: Schema, place: _Place, total: _Total) -> Errors:
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    additional, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(additional, Mapping) and has_rules(additional):
        at = place.path.child("additionalProperties")
        yield from _check(additional, place.below(at, schema, limit="maxProperties", correlated=not atomic), total)
    for name, below in sorted((schema.get("properties") or {}).items()):
        if has_rules(below):
            at = place.path.child("properties").key(name)
            yield from _check(below, place.below(at, schema, correlated=not atomic), total)
    if isinstance(items, Mapping) and has_rules(items):
        correlated = schema.get("x-kubernetes-list-type") == "map"
        at = place.path.child("items")
        yield from _check(items, place.below(at, schema, limit="maxItems", correlated=correlated), total)
    yield from _check_level(schema, place, total)


def _check_level(schema: Schema, place: _Place, total: _Total) -> Errors:
    written: Sequence[Mapping[str, Any]] = schema.get(RULES) or ()
    if not written:
        return
    declared = declare(schema, "selfType", resource=place.resource)
    if declared is None:
        kept = go_json(bool(schema.get("x-kubernetes-preserve-unknown-fields")))
        kind = schema.get("type") or ""
        text = f"rule declared on schema that does not support validation rules type: '{kind}'"
        yield internal(place.path.child(RULES), f"{text} x-kubernetes-preserve-unknown-fields: '{kept}'")
        return
    times = cardinality(declared.least_bytes) if place.times is None else place.times
    for index, one in enumerate(written):
        yield from _check_rule(Rule(one, declared, schema), times, place, place.path.child(RULES).index(index), total)


def _check_rule(rule: Rule, times: int, place: _Place, at: FieldPath, total: _Total) -> Errors:
    cost = min(rule.cost * times, MOST)
    if cost > RULE_LIMIT:
        yield forbidden(at.child("rule"), _too_much("estimated rule cost", cost, RULE_LIMIT))
    total.add(cost, at.child("rule"))
    if rule.fault:
        yield invalid(at.child("rule"), _shown(rule), rule.fault)
    if rule.message_fault:
        yield invalid(at.child("messageExpression"), _shown(rule), rule.message_fault)
    elif rule.message_program is not None:
        if rule.message_cost > RULE_LIMIT:
            text = _too_much("estimated messageExpression cost", rule.message_cost, RULE_LIMIT)
            yield forbidden(at.child("messageExpression"), text)
        total.add(rule.message_cost, at.child("messageExpression"))
    if rule.uses_old and place.loose is not None:
        text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.loose}"
        yield invalid(at.child("rule"), rule.text, text)
    elif not rule.uses_old and rule.written.get("optionalOldSelf") is not None:
        value = rule.written["optionalOldSelf"]
        yield invalid(at.child("optionalOldSelf"), value, "may not be set if oldSelf is not used in rule")


def _shown(rule: Rule) -> AsShown:
    """A rule as the server's own form of it looks."""
    keys = ("rule", "message", "messageExpression")
    texts = [f'"{key[0].upper()}{key[1:]}":{go_json(rule.written.get(key) or "")}' for key in keys]
    texts.append(f'"Reason":{go_json(rule.written.get("reason"))}')
    texts.append(f'"FieldPath":{go_json(rule.written.get("fieldPath") or "")}')
    texts.append(f'"OptionalOldSelf":{go_json(rule.written.get("optionalOldSelf"))}')
    return AsShown(f"{{{','.join(texts)}}}")


def _too_much(name: str, cost: int, limit: int) -> str:
    times = cost / limit
    if times > 100:
        factor = "more than 100x"
    elif times < 1.5:
        factor = f"{times:f}x"
    else:
        factor = f"{times:.1f}x"
    return f"{name} exceeds budget by factor of {factor} {_HINT}"
