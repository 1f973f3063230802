"""Evaluates ``x-kubernetes-validations`` on objects, with ratcheting.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from opsdk.apiserver.expressions.environment import PER_CALL_LIMIT, RUNTIME_BUDGET
from opsdk.apiserver.expressions.schema_types import Schema, SchemaDeclarations, declare
from opsdk.apiserver.expressions.schema_values import Convert, converter, type_mismatch
from opsdk.apiserver.field_errors import NO_PATH, OMITTED, FieldError, FieldErrorType, invalid
from opsdk.apiserver.structural.list_types import element_key
from opsdk.apiserver.structural.rule import CompiledRule
from opsdk.apiserver.structural.rule_locations import RULES, has_rules
from opsdk.apiserver.structural.validation import RuleViolation
from opsdk.cel.environment import EvaluationResult
from opsdk.cel.errors import CelBudgetError, CelEvaluationError
from opsdk.cel.values import Optional
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject, JsonValue

_LONGEST_MESSAGE: Final = 5 * 1024
"""Most bytes of a message from messageExpression."""


class _SpentError(Exception):
    """The budget is exceeded, or a rule has failed: stop the evaluation."""


# ------------------------------------------------------------------ comparison with the old object
class _CorrelatedValue:
    """A value and its old value."""

    def __init__(self, new: JsonValue, old: JsonValue, schema: Schema) -> None:
        self._new = new
        self._old = old
        self._schema = schema

    @cached_property
    def same(self) -> bool:
        """Whether the value is unchanged."""
        return deep_equal(self._new, self._old)

    def key(self, name: str) -> _CorrelatedValue | None:
        """Return the value of an entry, if it existed before."""
        if not isinstance(self._old, dict) or name not in self._old:
            return None
        below = (self._schema.get("properties") or {}).get(name) or self._schema.get("additionalProperties")
        return _CorrelatedValue(self._new[name], self._old[name], below if isinstance(below, Mapping) else {})

    @cached_property
    def _old_element(self) -> Callable[[JsonValue], JsonValue]:
        return old_elements(self._old, self._schema)

    def index(self, at: int) -> _CorrelatedValue | None:
        """Return an element of a map list, if its key existed before."""
        old = self._old_element(self._new[at])
        return None if old is None else _CorrelatedValue(self._new[at], old, self._schema.get("items") or {})


def old_elements(old: JsonValue, schema: Schema) -> Callable[[JsonValue], JsonValue]:
    """Return a function that finds the old element with equal keys, or None."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda _: None
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    elements = {element_key(one, keys): one for one in old if isinstance(one, dict)}
    return lambda element: elements.get(element_key(element, keys)) if isinstance(element, dict) else None


@dataclass(frozen=True, slots=True)
class _RatchetingContext:
    """The old value for ratcheting: that of the value itself, else of its nearest parent."""

    current: _CorrelatedValue | None = None
    nearest: _CorrelatedValue | None = None

    def unchanged(self) -> bool:
        """Report whether the value is unchanged, so that errors are tolerated."""
        node = self.current or self.nearest
        return node is not None and node.same

    def key(self, name: str) -> _RatchetingContext:
        """Return the old value of an entry."""
        if self.current is None:
            return self
        if self.nearest is None and name in ("apiVersion", "kind"):
            return _RatchetingContext()
        return _RatchetingContext(self.current.key(name), self.current)

    def index(self, at: int) -> _RatchetingContext:
        """Return the old value of an element."""
        return self if self.current is None else _RatchetingContext(self.current.index(at), self.current)


# ------------------------------------------------------------------ nested rules
class CompiledRules:
    """The rules of a schema and its nested schemas.

    Args:
        schema: the schema with types and rules.
        resource: whether the values are whole objects.
    """

    def __init__(self, schema: Schema, *, resource: bool = False) -> None:
        self._schema = schema
        self._resource = resource

    @cached_property
    def _declared(self) -> SchemaDeclarations | None:
        return declare(self._schema, "selfType", resource=self._resource)

    @cached_property
    def _convert(self) -> Convert:
        assert self._declared is not None
        return converter(self._schema, self._declared.type, resource=self._resource)

    @cached_property
    def rules(self) -> Sequence[CompiledRule]:
        """The rules of this schema."""
        written = self._schema.get(RULES) or ()
        if not written or self._declared is None:
            return ()
        return [CompiledRule(one, self._declared, self._schema) for one in written]

    @cached_property
    def _items(self) -> CompiledRules | None:
        return _tree(self._schema.get("items"))

    @cached_property
    def _additional(self) -> CompiledRules | None:
        return _tree(self._schema.get("additionalProperties"))

    @cached_property
    def _properties(self) -> Mapping[str, CompiledRules]:
        declared = {name: _tree(below) for name, below in (self._schema.get("properties") or {}).items()}
        return {name: tree for name, tree in declared.items() if tree is not None}

    # -------------------------------------------------------------- evaluating
    def evaluate(self, value: JsonValue, old: JsonValue, path: FieldPath, *, ratchet: bool = True) -> RuleViolation:
        """Return the violations of a value; `old` is the value that it replaces, or None."""
        run = _Run()
        before = (
            _RatchetingContext(_CorrelatedValue(value, old, self._schema))
            if old is not None and ratchet
            else _RatchetingContext()
        )
        with suppress(_SpentError):  # the last error has the reason
            self._visit(value, old, path, before, run)
        return run.broken

    def _visit(self, value: JsonValue, old: JsonValue, path: FieldPath, before: _RatchetingContext, run: _Run) -> None:
        """Evaluate the rules of a value and of what is below it."""
        if value is None:
            return
        if self.rules:
            self._apply(value, old, path, before, run)
        if isinstance(value, list) and self._items is not None:
            was = old_elements(old, self._schema)
            for index, element in enumerate(value):
                self._items._visit(element, was(element), path.index(index), before.index(index), run)  # noqa: SLF001
        elif isinstance(value, dict):
            old_entries = old if isinstance(old, dict) else {}
            if self._additional is not None:
                for name, one in value.items():
                    self._additional._visit(one, old_entries.get(name), path.key(name), before.key(name), run)  # noqa: SLF001
            for name, one in value.items():
                tree = self._properties.get(name)
                if tree is not None:
                    tree._visit(one, old_entries.get(name), path.child(name), before.key(name), run)  # noqa: SLF001

    def _apply(self, value: JsonValue, old: JsonValue, path: FieldPath, before: _RatchetingContext, run: _Run) -> None:
        bound = self._cel_value(value)
        was = None if old is None else self._cel_value(old)
        for rule in self.rules:
            variables: JsonObject = {"self": bound}
            if was is not None:
                variables["oldSelf"] = was
            _Evaluation(rule, value, path, before, run).apply(variables)

    def _cel_value(self, value: JsonValue) -> JsonValue:
        """Convert a value for rules. Return an error if it does not match the schema."""
        wrong = type_mismatch(value, self._schema)
        if wrong:
            return CelEvaluationError(wrong)
        try:
            return self._convert(value)
        except CelEvaluationError as error:
            return error


def _tree(schema: JsonValue) -> CompiledRules | None:
    if not isinstance(schema, Mapping) or not has_rules(schema):
        return None
    return CompiledRules(schema, resource=bool(schema.get("x-kubernetes-embedded-resource")))


class _Run:
    """The cost budget and the violations of one object."""

    def __init__(self) -> None:
        self.broken = RuleViolation()
        self.budget = RUNTIME_BUDGET


_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """The evaluation of one rule on one value."""

    rule: CompiledRule
    value: JsonValue
    path: FieldPath
    before: _RatchetingContext
    run: _Run

    @property
    def _field(self) -> str:
        return str(self.path) or NO_PATH

    @property
    def _kind(self) -> str:
        """The type, which is reported instead of the value if the evaluation fails."""
        schema_type: str = self.rule.schema.get("type") or ""
        return schema_type

    def apply(self, variables: JsonObject) -> None:
        """Evaluate the rule and record a violation."""
        rule = self.rule
        if rule.fault:
            self._add(invalid(self._field, self._kind, f"rule compile error: {rule.fault}"))
            return
        if rule.program is None or (rule.uses_old and "oldSelf" not in variables and not rule.optional_old):
            return
        if self.run.budget <= 0:
            self._stop(_SPENT)
        unseen = next((one for one in variables.values() if isinstance(one, CelEvaluationError)), None)
        if unseen is not None:
            self._failed(EvaluationResult(None, unseen, 0))
            return
        variables_read = dict(variables)
        if rule.optional_old:
            variables_read["oldSelf"] = Optional.of(variables["oldSelf"]) if "oldSelf" in variables else Optional.none()
        outcome = rule.program.run(variables_read, limit=PER_CALL_LIMIT)
        if outcome.cost > self.run.budget:
            self._stop(_SPENT)
        self.run.budget -= outcome.cost
        if outcome.error is not None:
            self._failed(outcome)
        elif outcome.value is not True:
            path = str(self.rule.error_path(self.path)) or NO_PATH
            detail = self._message(variables, path) or self.rule.message
            value_shown = OMITTED if isinstance(self.value, dict | list) else self.value
            reason = self.rule.reason
            self._note(FieldError(reason, path, value_shown, "" if reason is FieldErrorType.DUPLICATE else detail))

    def _stop(self, message: str) -> None:
        self._add(invalid(self._field, self._kind, message))
        raise _SpentError

    def _add(self, error: FieldError) -> None:
        self.run.broken.errors.append(error)

    def _failed(self, result: EvaluationResult) -> None:
        text = str(result.error)
        label = self.rule.label
        if isinstance(result.error, CelBudgetError):
            reason = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._stop(f"'{text}': {reason}: {label}")
        if text.startswith("no such overload"):
            reason = "call arguments did not match a supported operator, function or macro signature for rule"
            self._add(invalid(self._field, self._kind, f"'{text}': {reason}: {label}"))
        else:
            self._add(invalid(self._field, self._kind, f"{text} evaluating rule: {label}"))

    # -------------------------------------------------------------- violations
    def _note(self, error: FieldError) -> None:
        """Record a violation by a changed value as an error, otherwise as a warning."""
        if not self.rule.uses_old and self.before.unchanged():
            self.run.broken.warnings.append(error)
        else:
            self._add(error)

    def _message(self, variables: JsonObject, path: str) -> str | None:
        """Evaluate messageExpression; None if it fails or its message cannot be used."""
        program = self.rule.message_program
        if program is None or (self.rule.optional_old and "oldSelf" in program.variables):
            # Upstream passes the plain old value to messages, so an expression that was compiled for an optional fails.
            return None
        outcome = program.run(variables if self.rule.uses_old else {"self": variables["self"]}, limit=PER_CALL_LIMIT)
        if outcome.cost > self.run.budget:
            self._note(invalid(path, self._kind, f"messageExpression evaluation failed due to {_SPENT[22:]}"))
            raise _SpentError
        if isinstance(outcome.error, CelBudgetError):
            text = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            self._note(invalid(path, self._kind, f'{text}: "{self.rule.written["messageExpression"]}"'))
            raise _SpentError
        self.run.budget -= outcome.cost
        if outcome.error is not None or not isinstance(outcome.value, str):
            return None
        text = outcome.value.strip()
        return text if len(text.encode()) <= _LONGEST_MESSAGE and not re.search(r"\n", text) else None
