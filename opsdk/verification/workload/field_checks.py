"""Whether a schema admits a value of one field, by the validator of the server. Pure."""

from __future__ import annotations

from opsdk.apiserver.structural.defaulting import apply_defaults, drop_nulls
from opsdk.apiserver.structural.embedded import change_embedded, check_object
from opsdk.apiserver.structural.list_types import check_lists
from opsdk.apiserver.structural.pruning import Pruner
from opsdk.apiserver.structural.rule_locations import has_rules
from opsdk.apiserver.structural.schema import EvaluateRules
from opsdk.apiserver.structural.validation import SchemaValidator
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.schema_fields import Path, SchemaField
from opsdk.verification.workload.values import ABSENT

_NAME = "value"


class FieldChecks:
    """Checks values of fields by themselves: rules that compare a field with others are not evaluated.

    >>> from opsdk.apiserver.structural.node import SchemaNode
    >>> port = SchemaField(("port",), SchemaNode({"type": "integer", "maximum": 65535}))
    >>> checks = FieldChecks()
    >>> checks.admits(port, 80), checks.admits(port, 70000)
    (True, False)
    """

    def __init__(self) -> None:
        self._rules: dict[Path, EvaluateRules | None] = {}

    def admits(self, field: SchemaField, value: JsonValue) -> bool:
        """Report whether `value` is valid, and the server keeps all of it."""
        if value is ABSENT:
            return not field.required
        node = field.node
        if value is None:
            return node.nullable and SchemaValidator().validate(value, node, _NAME).is_valid
        value = apply_defaults(drop_nulls(value, node), node)
        if not SchemaValidator().validate(value, node, _NAME).is_valid:
            return False
        pruner = Pruner()
        pruner.prune(value, node, resource=False)
        if pruner.unknown or (node.unique and any(check_lists(value, node, FieldPath(_NAME)))):
            return False
        return not self._embedded_errors(field, value) and not self._rule_errors(field, value)

    @staticmethod
    def _embedded_errors(field: SchemaField, value: JsonValue) -> bool:
        errors: list[object] = []

        def check(obj: JsonObject, path: str) -> JsonObject:
            errors.extend(check_object(obj, path))
            return obj

        change_embedded(value, field.node, check, _NAME)
        return bool(errors)

    def _rule_errors(self, field: SchemaField, value: JsonValue) -> bool:
        if field.path not in self._rules:
            self._rules[field.path] = _rules_of(field)
        evaluate = self._rules[field.path]
        return evaluate is not None and bool(evaluate(value, None, FieldPath(_NAME)).errors)


def _rules_of(field: SchemaField) -> EvaluateRules | None:
    """Return what evaluates the rules of a field and below it; None without rules."""
    if not has_rules(field.node.schema):
        return None
    from opsdk.apiserver.structural.rules import CompiledRules  # noqa: PLC0415 - CEL is slow to import

    return CompiledRules(field.node.schema).evaluate
