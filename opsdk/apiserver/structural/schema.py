"""`StructuralSchema`: prunes, defaults and validates objects by a CRD's schema.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol

from opsdk.apiserver.field_errors import NO_PATH, FieldError, invalid
from opsdk.apiserver.structural.defaulting import apply_defaults, drop_nulls
from opsdk.apiserver.structural.embedded import Change, change_embedded, check_embedded
from opsdk.apiserver.structural.list_types import check_lists
from opsdk.apiserver.structural.node import SchemaNode
from opsdk.apiserver.structural.pruning import Pruner
from opsdk.apiserver.structural.rule_locations import has_rules
from opsdk.apiserver.structural.validation import BLOCKING, RuleViolation, Validator
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.typed import ABSENT
from opsdk.structured_merge.value import JsonValue

RULES_SKIPPED: Final = invalid(
    NO_PATH,
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
"""Reported instead of evaluating rules on an object that is not what its schema promises."""


class RuleEvaluator(Protocol):
    """Evaluates the rules of a schema; `opsdk.apiserver.structural.rules.CompiledRules` implements it."""

    def evaluate(self, value: JsonValue, old: JsonValue, path: FieldPath) -> RuleViolation:
        """Return the violations of `value`, which replaces `old`."""


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
        schema: the ``openAPIV3Schema``, or the schema of a part.
        resource: whether the values are whole objects, with apiVersion, kind and metadata.
    """

    def __init__(self, schema: Mapping[str, JsonValue], *, resource: bool = True) -> None:
        self._root = SchemaNode(schema)
        self._resource = resource

    @cached_property
    def _rules(self) -> RuleEvaluator | None:
        """``x-kubernetes-validations``, if there are any."""
        if not has_rules(self._root.schema):
            return None
        from opsdk.apiserver.structural.rules import CompiledRules  # noqa: PLC0415 - schemas without rules need no CEL

        return CompiledRules(self._root.schema, resource=self._resource)

    def prune(self, tree: JsonValue) -> tuple[JsonValue, list[str]]:
        """`tree` without fields that the schema does not know, and their paths, sorted."""
        pruner = Pruner()
        return pruner.prune(tree, self._root, resource=self._resource), sorted(pruner.unknown)

    def default(self, tree: JsonValue, *, nulls: bool = False) -> JsonValue:
        """`tree` with the defaults of absent fields, and without nulls in fields that are not nullable.

        With `nulls`, those that no default replaces stay.
        """
        filled = apply_defaults(tree, self._root)
        return filled if nulls else self.without_nulls(filled)

    def without_nulls(self, tree: JsonValue) -> JsonValue:
        """`tree` without nulls in fields that are not nullable, but for those that a default will replace."""
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

        `warn` is told of rules that were broken before, by values that stay. `beside` was found elsewhere, and is told
        after what keywords find.
        """
        before = ABSENT if old is None else old
        embedded = check_embedded(tree, self._root) if self._root.nests else ()
        errors = [*Validator().validate(tree, self._root, "", before).errors, *beside, *embedded]
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
            errors = Validator("status").validate(tree["status"], node, "", old.get("status", ABSENT)).errors
        return self._add_list_and_rule_errors([*errors, *beside], tree, old, warn)

    def _add_list_and_rule_errors(
        self, errors: list[FieldError], tree: JsonValue, old: JsonValue, warn: Callable[[str], None] | None
    ) -> list[FieldError]:
        """With what keywords do not say: elements that are there twice, and rules."""
        if old is None or not self.check_lists(old):
            errors += self.check_lists(tree)
        if self._rules is not None:
            if any(error.type in BLOCKING for error in errors):
                return [*errors, RULES_SKIPPED]
            broken = self._rules.evaluate(tree, old, FieldPath())
            errors += broken.errors
            if warn is not None:
                for warning in broken.warnings:
                    warn(str(warning))
        return errors

    def change_embedded(self, tree: JsonValue, change: Change) -> JsonValue:
        """`tree` with other objects in it, where the schema has objects."""
        return change_embedded(tree, self._root, change)

    def check_lists(self, tree: JsonValue) -> list[FieldError]:
        """The elements that sets and maps have twice."""
        if not self._root.unique:
            return []
        return list(check_lists(tree, self._root, FieldPath()))
