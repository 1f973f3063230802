"""One compiled rule of ``x-kubernetes-validations``.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from opsdk.apiserver.expressions.environment import kubernetes_environment
from opsdk.apiserver.expressions.schema_types import SchemaDeclarations
from opsdk.apiserver.field_errors import FieldErrorType
from opsdk.cel.environment import CelEnvironment, Program
from opsdk.cel.errors import CelCompileError
from opsdk.cel.types import Type, TypeKind, optional_of
from opsdk.errors import UsageError
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonValue

REASONS: Final = {
    "FieldValueDuplicate": FieldErrorType.DUPLICATE,
    "FieldValueForbidden": FieldErrorType.FORBIDDEN,
    "FieldValueInvalid": FieldErrorType.INVALID,
    "FieldValueRequired": FieldErrorType.REQUIRED,
}
"""The allowed reasons of rules."""


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """A validation rule and its programs, which are compiled on first use.

    Attributes:
        written: the entry of the schema.
        declared: the type declaration of ``self``.
        schema: the schema that has the rule.
        base: the functions and macros that the rule may use.
    """

    written: Mapping[str, JsonValue]
    declared: SchemaDeclarations
    schema: Mapping[str, JsonValue]
    base: CelEnvironment = field(default_factory=kubernetes_environment)

    @property
    def expression(self) -> str:
        """The rule's expression."""
        text: str = self.written.get("rule") or ""
        return text

    @property
    def optional_old(self) -> bool:
        """Report whether oldSelf is optional, so that the rule also runs on create."""
        return bool(self.written.get("optionalOldSelf"))

    @property
    def label(self) -> str:
        """The rule's name in messages."""
        message: str = self.written.get("message") or ""
        return message.strip() if message else self.expression.strip()

    @property
    def message(self) -> str:
        """The message of a violation."""
        return self.label if self.written.get("message") else f"failed rule: {self.label}"

    @property
    def reason(self) -> FieldErrorType:
        """The reason of a violation."""
        return REASONS.get(self.written.get("reason") or "", FieldErrorType.INVALID)

    # -------------------------------------------------------------- programs
    @cached_property
    def _compiled(self) -> Program | str | None:
        """Return the program, the compilation error, or None for an empty rule."""
        if not self.expression.strip():
            return None
        return self._compile(self.expression, TypeKind.BOOL, "cel expression must evaluate to a bool", prefix="")

    @cached_property
    def _compiled_message(self) -> Program | str | None:
        text = self.written.get("messageExpression") or ""
        if not text.strip() or self.program is None:
            return None
        wrong = "messageExpression must evaluate to a string"
        return self._compile(text, TypeKind.STRING, wrong, prefix="messageExpression ")

    def _compile(self, text: str, kind: TypeKind, type_fault: str, *, prefix: str) -> Program | str:
        """Compile an expression. A wrong result type is reported before invalid constants."""
        self_type = self.declared.type
        old_type = optional_of(self_type) if self.optional_old else self_type
        environment = self.base.extend(variables={"self": self_type, "oldSelf": old_type})

        def accept(problem: Type) -> None:
            if problem.kind is not kind:
                raise CelCompileError(type_fault)

        try:
            return environment.compile(text, accept)
        except CelCompileError as error:
            problem = str(error)
            if problem == type_fault:
                return problem
            if problem.startswith("program instantiation"):
                return problem.replace("program", prefix.strip() or "program", 1)
            return f"{prefix}compilation failed: {problem}"

    @property
    def program(self) -> Program | None:
        """The rule's program; None if it does not compile."""
        return self._compiled if isinstance(self._compiled, Program) else None

    @property
    def fault(self) -> str:
        """The rule's compile error."""
        return self._compiled if isinstance(self._compiled, str) else ""

    @property
    def message_program(self) -> Program | None:
        """The program of messageExpression."""
        return self._compiled_message if isinstance(self._compiled_message, Program) else None

    @property
    def message_fault(self) -> str:
        """The compile error of messageExpression."""
        return self._compiled_message if isinstance(self._compiled_message, str) else ""

    @property
    def uses_old(self) -> bool:
        """Report whether the rule uses oldSelf."""
        return self.program is not None and "oldSelf" in self.program.variables

    @cached_property
    def cost(self) -> int:
        """The estimated maximal cost of one evaluation."""
        return 0 if self.program is None else self.program.estimate(self.declared.size).most

    @cached_property
    def message_cost(self) -> int:
        """The estimated maximal cost of messageExpression."""
        return 0 if self.message_program is None else self.message_program.estimate(self.declared.size).most

    def error_path(self, path: FieldPath) -> FieldPath:
        """Return the field path of a violation."""
        text: str = self.written.get("fieldPath") or ""
        return path.child(str(parse_field_path(text, self.schema))) if text else path


# ------------------------------------------------------------------ field paths
_TOKEN: Final = re.compile(r"'(?:\\.|[^'])*+(?:'|\Z)|[.\[\]]|[^.\[\]']++")
"""A quoted name, a mark or a name. A quoted name without an end takes the rest, so that no string is read twice."""
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def parse_field_path(text: str, schema: Mapping[str, JsonValue]) -> FieldPath:
    """Parse a fieldPath such as ``.field['key']`` against a schema.

    Raises:
        UsageError: the path is invalid, or the schema has no such field.

    >>> str(parse_field_path(".a['b.c']", {"properties": {"a": {"properties": {"b.c": {}}}}}))
    'a.b.c'
    """
    return follow_field_path(text, schema)[0]


def follow_field_path(text: str, schema: Mapping[str, JsonValue]) -> tuple[FieldPath, Mapping[str, JsonValue]]:
    """Parse a fieldPath; return it with the schema that it selects."""
    path = FieldPath()
    for name in _names(text):
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        if properties:
            if name not in properties:
                raise UsageError("does not refer to a valid field")
            path, schema = path.child(name), properties[name]
        elif isinstance(additional, Mapping):
            path, schema = path.key(name), additional
        else:
            raise UsageError("does not refer to a valid field")
    return path, schema


def _names(text: str) -> Iterator[str]:
    """Yield the names of a JSON path. Raises `UsageError` in upstream's words."""
    tokens: Sequence[str] = _TOKEN.findall(text)
    if "".join(tokens) != text:
        raise UsageError("unexpected end of JSON path")
    rest = iter(tokens)
    for mark in rest:
        name = next(rest, None)
        if mark not in (".", "["):
            raise UsageError(f"expected [ or . but got: {mark}")
        if name is None:
            raise UsageError("unexpected end of JSON path")
        if mark == ".":
            yield name
            continue
        if len(name) > 1 and name[0] == "'" and name[-1] != "'":
            raise UsageError("unexpected end of JSON path")
        if not name.startswith("'") or next(rest, None) != "]":
            raise UsageError(f"expected single quoted string but got {name}")
        yield re.sub(r"\\(.)", _unescape, name[1:-1])


def _unescape(match: re.Match[str]) -> str:
    if match[1] not in _ESCAPES:
        raise UsageError(f"invalid string literal: invalid escape char {match[0]}")
    return _ESCAPES[match[1]]
