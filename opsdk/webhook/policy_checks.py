"""Checks the CEL of an admission policy against the types of its kinds, before a server has it. Pure.

Each expression is compiled twice: with the types of the schema, as the type checker of kube-controller-manager does
for the warnings in a policy's status, and with dynamic types, as the API server does when it stores the policy.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from opsdk.apiserver.expressions.activation import CompiledExpression, PolicyCompiler
from opsdk.apiserver.expressions.escaping import RESERVED
from opsdk.apiserver.expressions.mutation import JSON_PATCH, OBJECT
from opsdk.cel.types import BOOL, NULL, STRING, Type, list_of

JSON_PATCHES: Final = list_of(JSON_PATCH)
_ANNOTATION: Final = (STRING, NULL)
_MUTATION: Final = (OBJECT, JSON_PATCHES)
_ADVICE: Final[Mapping[tuple[Type, ...], str]] = {
    (BOOL,): "a rule is true for allowed requests: compare the value, as in object.spec.size <= 5",
    (STRING,): "convert the value with string(...)",
    _ANNOTATION: "convert the value with string(...)",
    _MUTATION: "return Object{...} with the fields to set, or a list [JSONPatch{...}]",
}
"""What to do about another result type."""
_DYNAMIC: Final = "got dyn"
"""The end of the server's message for a result whose type only the schema tells."""


class PolicyChecker:
    """Compiles the expressions of one policy, and collects what is wrong with them.

    Args:
        schema_types: the types of ``object`` and ``oldObject``, and of ``params`` if the policy has parameters.

    Attributes:
        problems: in the order of the expressions; empty if all of them fit.
    """

    def __init__(self, schema_types: Mapping[str, Type]) -> None:
        self._schema_types = schema_types
        params = "params" in schema_types
        self._typed = PolicyCompiler(params=params, composed=True, schema_types=schema_types)
        self._served = PolicyCompiler(params=params, composed=True)
        self.problems: list[str] = []

    def variable(self, name: str, text: str) -> None:
        """Check a variable, and declare it for the expressions that follow."""
        place = f"variables[{name!r}]"
        if not name.isidentifier() or not name.isascii() or name in RESERVED:
            self.problems.append(f"{place}: the name is not a CEL identifier: use letters, digits and _")
            return
        if self._has_text(text, place):
            self._collect(place, self._typed.variable(name, text), self._served.variable(name, text), ())

    def condition(self, name: str, text: str) -> None:
        """Check a match condition."""
        self._check(f"match_conditions[{name!r}]", text, (BOOL,))

    def rule(self, index: int, text: str, message_expression: str) -> None:
        """Check the expressions of a rule."""
        self._check(f"rules[{index}]", text, (BOOL,))
        if message_expression:
            self._check(f"message_expression of rules[{index}]", message_expression, (STRING,), authorizer=False)

    def annotation(self, key: str, text: str) -> None:
        """Check an audit annotation."""
        self._check(f"audit_annotations[{key!r}]", text, _ANNOTATION)

    def mutation(self, index: int, text: str) -> bool:
        """Check a mutation. Returns whether it is a JSON patch."""
        compiled = self._check(f"mutations[{index}]", text, _MUTATION, patches=True)
        return compiled is not None and not isinstance(compiled.program, str) and compiled.program.type == JSON_PATCHES

    # -------------------------------------------------------------- one expression
    def _check(
        self, place: str, text: str, results: tuple[Type, ...], *, authorizer: bool = True, patches: bool = False
    ) -> CompiledExpression | None:
        if not self._has_text(text, place):
            return None
        typed = self._typed.compile(text, results, authorizer=authorizer, patches=patches)
        served = self._served.compile(text, results, authorizer=authorizer, patches=patches)
        self._collect(place, typed, served, results)
        return served

    def _has_text(self, text: str, place: str) -> bool:
        if not text.strip():
            self.problems.append(f"{place} is empty: write a CEL expression")
        return bool(text.strip())

    def _collect(
        self, place: str, typed: CompiledExpression, served: CompiledExpression, results: tuple[Type, ...]
    ) -> None:
        if not typed.fault and not served.fault:
            return
        advice = next(self._advice(typed, served, results), "")
        fault = (typed.fault or served.fault).removeprefix("compilation failed: ")
        text = f"{place}: {fault}" if "\n" in fault else f"{place} {typed.text.strip()!r}: {fault}"
        self.problems.append(f"{text}\n{advice}" if advice else text)

    def _advice(
        self, typed: CompiledExpression, served: CompiledExpression, results: tuple[Type, ...]
    ) -> Iterator[str]:
        """Yield what to do about a fault."""
        if "must evaluate to" in (typed.fault or served.fault):
            if not typed.fault and served.fault.endswith(_DYNAMIC):
                convert = "compare it, as in ... == true" if results == (BOOL,) else "convert it with string(...)"
                yield f"the server does not use the schema, so the result has no type there: {convert}"
            yield _ADVICE[results]
        if "undefined field '" in typed.fault:
            missing = typed.fault.partition("undefined field '")[2].partition("'")[0]
            if names := get_close_matches(missing, _names_of(self._schema_types.values()), n=3):
                yield f"fields with a similar name: {', '.join(names)}"
            yield "choose a field of the class; dyn(object) leaves fields unchecked"
        if "undeclared reference to 'params'" in typed.fault:
            yield "declare the kind of the parameters: params = ConfigMap"
        if "undeclared reference to 'self'" in typed.fault:
            yield "a policy reads object and oldObject; self is for the rules of a schema, see schema_rules"
        if "undeclared reference to 'Object." in typed.fault:
            yield "the name of an object is its path, as in Object{spec: Object.spec{size: 1}}"
        if typed.fault and not served.fault:
            yield "the types come from the class of the kind; dyn(...) leaves a value unchecked"


def _names_of(types: Iterable[Type]) -> set[str]:
    """Return the names of all fields below some types."""
    names: set[str] = set()
    pending = list(types)
    while pending:
        type_ = pending.pop()
        names.update(type_.fields)
        pending += [*type_.params, *type_.fields.values()]
    return names
