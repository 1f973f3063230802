# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Admission policies and their bindings: what may stand in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from envtest.kinds.admission_rules import validate_conditions
from envtest.kinds.base import TableStrategy
from envtest.kinds.policy_rules import MUTABLE, binding, match_constraints, one_of, param_kind
from envtest.kinds.status_rules import validate_conditions as validate_status_conditions
from envtest.tables.load import Row
from opsdk.apimachinery import validation as names
from opsdk.apiserver import api_errors
from opsdk.apiserver.expressions.escaping import RESERVED
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

if TYPE_CHECKING:
    # CEL takes long to load, and most servers never see a policy.
    from opsdk.apiserver.expressions.activation import CompiledExpression, PolicyCompiler

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_NOTHING = "validations or auditAnnotations must contain at least one item"
_MAX_ANNOTATIONS = 20
_MAX_ANNOTATION = 5 * 1024
"""How long the expression of an annotation may be, in bytes."""
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


class PolicyStrategy(TableStrategy):
    """Both kinds of policies; match conditions that nothing can have broken are not compiled again."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._mutating = row.info.kind.startswith("Mutating")

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """The whole spec."""
        return list(self._check(obj, None))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The whole spec, in the light of the old one."""
        return list(self._check(obj, old.get("spec") or {}))

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """What controllers say of a policy."""
        return list(_status(obj.get("status") or {}))

    def _check(self, obj: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
        from opsdk.apiserver.expressions.activation import PolicyCompiler  # noqa: PLC0415

        spec: JsonObject = obj.get("spec") or {}
        params = spec.get("paramKind") is not None
        compiler = PolicyCompiler(params=params, composed=self._mutating or bool(spec.get("variables")))
        yield from one_of(spec, "spec", "failurePolicy", ("Fail", "Ignore"))
        if params:
            yield from param_kind(spec["paramKind"], "spec.paramKind")
        operations = MUTABLE if self._mutating else ()
        yield from match_constraints(spec.get("matchConstraints"), "spec.matchConstraints", operations=operations)
        if old is None or any(spec.get(key) != old.get(key) for key in ("paramKind", "matchConditions")):
            yield from validate_conditions(spec.get("matchConditions") or (), "spec.matchConditions", params=params)
        for index, variable in enumerate(spec.get("variables") or ()):
            yield from _variable(compiler, variable, f"spec.variables[{index}]")
        yield from self._rest(compiler, obj["metadata"].get("name") or "", spec)

    def _rest(self, compiler: PolicyCompiler, name: str, spec: JsonObject) -> Iterator[Cause]:
        if not self._mutating:
            yield from _judgements(compiler, name, spec)
            return
        mutations = spec.get("mutations") or ()
        if not mutations:
            yield api_errors.required("spec.mutations", "mutations must contain at least one item")
        for index, mutation in enumerate(mutations):
            yield from _mutation(compiler, mutation, f"spec.mutations[{index}]")
        yield from one_of(
            {"reinvocationPolicy": spec.get("reinvocationPolicy") or None},
            "spec",
            "reinvocationPolicy",
            ("IfNeeded", "Never"),
        )


def _status(status: JsonObject) -> Iterator[Cause]:
    checking: JsonObject = status.get("typeChecking") or {}
    for index, warning in enumerate(checking.get("expressionWarnings") or ()):
        for key in ("warning", "fieldRef"):
            if not (warning.get(key) or "").strip():
                yield api_errors.required(f"status.typeChecking.expressionWarnings[{index}].{key}")
    yield from validate_status_conditions(status.get("conditions") or (), "status.conditions")


def _fault(compiled: CompiledExpression, field: str, shown: str = "") -> Iterator[Cause]:
    if compiled.fault:
        yield api_errors.invalid_value(field, shown or compiled.text, compiled.fault)


def _variable(compiler: PolicyCompiler, variable: JsonObject, field: str) -> Iterator[Cause]:
    name, expression = variable.get("name") or "", variable.get("expression") or ""
    if not name.strip():
        yield api_errors.required(f"{field}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in RESERVED:
        yield api_errors.invalid_value(f"{field}.name", name, "must be a valid CEL identifier")
    if not expression.strip():
        yield api_errors.required(f"{field}.expression", "expression is not specified")
    else:
        yield from _fault(compiler.variable(name, expression), f"{field}.expression")


# ------------------------------------------------------------------ validating
def _judgements(compiler: PolicyCompiler, name: str, spec: JsonObject) -> Iterator[Cause]:
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        yield api_errors.required("spec.validations", _NOTHING)
        yield api_errors.required("spec.auditAnnotations", _NOTHING)
        return
    for index, validation in enumerate(validations):
        yield from _validation(compiler, validation, f"spec.validations[{index}]")
    if len(annotations) > _MAX_ANNOTATIONS:
        text = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield api_errors.invalid_value("spec.auditAnnotations", list(annotations), text)
    seen: set[Any] = set()
    for index, annotation in enumerate(annotations):
        field, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        yield from _annotation(compiler, name, annotation, field)
        if key in seen:
            yield api_errors.duplicate(f"{field}.key", key)
        seen.add(key)


def _validation(compiler: PolicyCompiler, validation: JsonObject, field: str) -> Iterator[Cause]:
    from opsdk.cel.types import BOOL, STRING  # noqa: PLC0415

    expression, said = validation.get("expression") or "", validation.get("messageExpression") or ""
    if not expression.strip():
        yield api_errors.required(f"{field}.expression", "expression is not specified")
    else:
        yield from _fault(compiler.compile(expression, (BOOL,)), f"{field}.expression")
    if said and not said.strip():
        yield api_errors.invalid_value(f"{field}.messageExpression", said, "must be non-empty if specified")
    elif said:
        yield from _fault(compiler.compile(said, (STRING,), authorizer=False), f"{field}.messageExpression")
    message = validation.get("message") or ""
    if message and not message.strip():
        yield api_errors.invalid_value(f"{field}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield api_errors.invalid_value(f"{field}.message", message, "must not contain line breaks")
    if validation.get("reason") is not None and validation["reason"] not in _REASONS:
        yield api_errors.unsupported(f"{field}.reason", validation["reason"], _REASONS)


def _annotation(compiler: PolicyCompiler, name: str, annotation: JsonObject, field: str) -> Iterator[Cause]:
    from opsdk.apiserver.admission.policies.compiled_policy import ANNOTATION  # noqa: PLC0415

    key, written = annotation.get("key") or "", annotation.get("valueExpression") or ""
    if name:
        for why in names.qualified_name(f"{name}/{key}"):
            yield api_errors.invalid_value(f"{field}.key", f"{name}/{key}", why)
    else:
        yield api_errors.invalid_value(f"{field}.key", key, "requires metadata.name be non-empty")
    expression = written.strip()
    if not expression:
        yield api_errors.required(f"{field}.valueExpression", "valueExpression is not specified")
    elif len(expression.encode()) > _MAX_ANNOTATION:
        yield api_errors.required(f"{field}.valueExpression", f"must not exceed {_MAX_ANNOTATION} bytes in length")
    else:
        yield from _fault(compiler.compile(expression, ANNOTATION), f"{field}.valueExpression", written)


# ------------------------------------------------------------------ mutating
def _mutation(compiler: PolicyCompiler, mutation: JsonObject, field: str) -> Iterator[Cause]:
    from opsdk.apiserver.admission.policies.compiled_policy import CONFIGURATION, PATCH  # noqa: PLC0415

    sort = mutation.get("patchType") or ""
    if not sort:
        yield api_errors.required(f"{field}.patchType")
        return
    if sort not in _PATCHES:
        yield api_errors.unsupported(f"{field}.patchType", sort, tuple(_PATCHES))
        return
    key = _PATCHES[sort]
    [other] = set(_PATCHES.values()) - {key}
    written = mutation.get(key)
    if written is None:
        yield api_errors.required(f"{field}.{key}", f"must be specified when patchType is {sort}")
    else:
        expression = (written.get("expression") or "").strip()
        if not expression:
            yield api_errors.required(f"{field}.{key}.expression")
        else:
            compiled = compiler.compile(expression, PATCH if sort == "JSONPatch" else CONFIGURATION, patches=True)
            yield from _fault(compiled, f"{field}.{key}.expression")
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {sort}"
        yield api_errors.invalid_value(f"{field}.{other}", f"{{{other}}}", text)


# ------------------------------------------------------------------ bindings
class PolicyBindingStrategy(TableStrategy):
    """Both kinds of bindings."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._mutating = row.info.kind.startswith("Mutating")

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """The whole spec."""
        return list(binding(obj.get("spec") or {}, "spec", mutating=self._mutating))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The whole spec."""
        return self.validate(context, obj)
