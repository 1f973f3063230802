"""The compiled expressions of a policy.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from opsdk.apiserver.expressions.activation import CompiledExpression, PolicyCompiler
from opsdk.apiserver.expressions.mutation import JSON_PATCH, OBJECT
from opsdk.cel.types import BOOL, NULL, STRING, list_of
from opsdk.structured_merge.value import JsonObject

ANNOTATION: Final = (STRING, NULL)
PATCH: Final = (list_of(JSON_PATCH),)
CONFIGURATION: Final = (OBJECT,)


@dataclass(frozen=True, slots=True)
class Validation:
    """A compiled validation: its expression and the message of its failure."""

    expression: CompiledExpression
    message: str = ""
    message_expression: CompiledExpression | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A compiled mutation."""

    expression: CompiledExpression
    patch: bool


class CompiledPolicy:
    """All compiled expressions of a policy.

    Attributes:
        variables: in the listed order.
        conditions: the matchConditions.
        annotations: the auditAnnotations by key.
    """

    def __init__(self, spec: JsonObject) -> None:
        compiler = PolicyCompiler(params=spec.get("paramKind") is not None, composed=True)
        for tree in spec.get("variables") or ():
            compiler.variable(tree["name"], tree["expression"])
        self.variables = compiler.variables
        self.conditions = [compiler.compile(tree["expression"], (BOOL,)) for tree in spec.get("matchConditions") or ()]
        self.validations: list[Validation] = []
        for tree in spec.get("validations") or ():
            expression, message = compiler.compile(tree["expression"], (BOOL,)), tree.get("messageExpression")
            compiled = compiler.compile(message, (STRING,), authorizer=False) if message else None
            text = str(tree.get("message") or "").strip()
            self.validations.append(Validation(expression, text, compiled, tree.get("reason") or ""))
        self.annotations: Sequence[tuple[str, CompiledExpression]] = [
            (tree["key"], compiler.compile(tree["valueExpression"], ANNOTATION))
            for tree in spec.get("auditAnnotations") or ()
        ]
        self.mutations: list[Mutation] = []
        for tree in spec.get("mutations") or ():
            patch = tree["patchType"] == "JSONPatch"
            source = tree["jsonPatch" if patch else "applyConfiguration"].get("expression") or ""
            mutation = compiler.compile(source, PATCH if patch else CONFIGURATION, patches=True)
            self.mutations.append(Mutation(mutation, patch))

    def __repr__(self) -> str:
        return f"<CompiledPolicy: {len(self.validations)} validations, {len(self.mutations)} mutations>"
