"""`StructuralSchema`: prunes, defaults and validates objects by a CRD's schema.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

from opsdk.apiserver.field_errors import NO_PATH, FieldError, invalid
from opsdk.apiserver.structural.defaulting import apply_defaults, drop_nulls
from opsdk.apiserver.structural.embedded import Change, change_embedded, check_embedded
from opsdk.apiserver.structural.list_types import check_lists
from opsdk.apiserver.structural.node import SchemaNode
from opsdk.apiserver.structural.pruning import Pruner
from opsdk.apiserver.structural.rule_locations import has_rules
from opsdk.apiserver.structural.validation import BLOCKING, RuleViolation, SchemaValidator
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.typed import ABSENT
from opsdk.structured_merge.value import JsonValue

RULES_SKIPPED: Final = invalid(
    NO_PATH,
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
"""Reported if an object does not match its schema, so that its rules are not evaluated."""


EvaluateRules = Callable[[JsonValue, JsonValue, FieldPath], RuleViolation]
"""Returns the violations of the first value, which replaces the second one."""


class StructuralSchema:
    """One version's schema, compiled once.

    >>> schema = StructuralSchema({"type": "object", "properties": {"spec": {"type": "object", "properties": {
    ...     "size": {"type": "integer", "default": 1, "maximum": 5}}}}})
    >>> pruned, unknown = schema.prune({"spec": {"colour": "red"}})
    >>> unknown
    ['spec.colour']
    >>> schema.default(pruned)
    {'spec': {'size': 1}}
    >>> print(*schema.validate({"spec": {"size": 9}}))
    spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5

    Args:
        schema: the ``openAPIV3Schema``, or one of its subschemas.
        resource: whether the values are whole objects, with apiVersion, kind and metadata.
    """

    def __init__(self, schema: Mapping[str, JsonValue], *, resource: bool = True) -> None:
        self._root = SchemaNode(schema)
        self._resource = resource

    @cached_property
    def _evaluate_rules(self) -> EvaluateRules | None:
        """Evaluates ``x-kubernetes-validations``; None without rules."""
        if not has_rules(self._root.schema):
            return None
        from opsdk.apiserver.structural.rules import CompiledRules  # noqa: PLC0415 - CEL is slow to import

        return CompiledRules(self._root.schema, resource=self._resource).evaluate

    def prune(self, tree: JsonValue) -> tuple[JsonValue, list[str]]:
        """Return `tree` without unknown fields, and their sorted paths."""
        pruner = Pruner()
        return pruner.prune(tree, self._root, resource=self._resource), sorted(pruner.unknown)

    def default(self, tree: JsonValue, *, nulls: bool = False) -> JsonValue:
        """Return `tree` with the defaults of absent fields, and without non-nullable nulls.

        With `nulls`, nulls without a default are kept.
        """
        filled = apply_defaults(tree, self._root)
        return filled if nulls else self.without_nulls(filled)

    def without_nulls(self, tree: JsonValue) -> JsonValue:
        """Return `tree` without non-nullable nulls, but with those that a default replaces."""
        return drop_nulls(tree, self._root)

    def validate(
        self,
        tree: JsonValue,
        old: JsonValue = None,
        *,
        warn: Callable[[str], None] | None = None,
        beside: Sequence[FieldError] = (),
    ) -> list[FieldError]:
        """Return the errors in `tree`; on an update, only those of changed parts.

        `warn` gets violations of rules by unchanged values. `beside` are other errors of the object, which follow the
        errors of keywords.
        """
        before = ABSENT if old is None else old
        embedded = check_embedded(tree, self._root) if self._root.nests else ()
        errors = [*SchemaValidator().validate(tree, self._root, "", before).errors, *beside, *embedded]
        return self._add_list_and_rule_errors(errors, tree, old, warn)

    def validate_status(
        self,
        tree: JsonValue,
        old: JsonValue,
        *,
        warn: Callable[[str], None] | None = None,
        beside: Sequence[FieldError] = (),
    ) -> list[FieldError]:
        """Return the errors in `tree` after a status update."""
        errors: list[FieldError] = []
        node = self._root.entry("status")
        if node is not None and "status" in tree:
            errors = SchemaValidator("status").validate(tree["status"], node, "", old.get("status", ABSENT)).errors
        return self._add_list_and_rule_errors([*errors, *beside], tree, old, warn)

    def _add_list_and_rule_errors(
        self, errors: list[FieldError], tree: JsonValue, old: JsonValue, warn: Callable[[str], None] | None
    ) -> list[FieldError]:
        """Add duplicates in lists and violations of rules."""
        if old is None or not self.check_lists(old):
            errors += self.check_lists(tree)
        if self._evaluate_rules is not None:
            if any(error.type in BLOCKING for error in errors):
                return [*errors, RULES_SKIPPED]
            broken = self._evaluate_rules(tree, old, FieldPath())
            errors += broken.errors
            if warn is not None:
                for warning in broken.warnings:
                    warn(str(warning))
        return errors

    def change_embedded(self, tree: JsonValue, change: Change) -> JsonValue:
        """Return `tree` with its embedded objects replaced by `change`."""
        return change_embedded(tree, self._root, change)

    def check_lists(self, tree: JsonValue) -> list[FieldError]:
        """Return the errors of duplicate elements in sets and map lists."""
        if not self._root.unique:
            return []
        return list(check_lists(tree, self._root, FieldPath()))
