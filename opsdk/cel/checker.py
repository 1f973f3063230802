"""The type checker: resolves names and overloads, and infers the type of each expression.

Upstream: github.com/google/cel-go/checker/checker.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

import msgspec

from opsdk.cel import types
from opsdk.cel.declarations import Functions, Overload
from opsdk.cel.source import Issue
from opsdk.cel.syntax import (
    CallNode,
    Comprehension,
    Expr,
    Ident,
    ListOf,
    Literal,
    MapOf,
    Select,
    StructNode,
)
from opsdk.cel.types import Bindings, Type, TypeKind


class CheckerScope(msgspec.Struct, frozen=True):
    """The variables, types and functions of an expression."""

    variables: Mapping[str, Type]
    types: Mapping[str, Type]
    functions: Functions


class Checked(msgspec.Struct):
    """The results of the type check, by node id.

    Attributes:
        types: the type of each node.
        variables: the variable of each identifier or chain of selections.
        constants: the type that an identifier names.
        overloads: the possible overloads of each call.
        statics: calls whose target is a part of a qualified function name.
    """

    types: dict[int, Type] = msgspec.field(default_factory=dict)
    variables: dict[int, str] = msgspec.field(default_factory=dict)
    constants: dict[int, Type] = msgspec.field(default_factory=dict)
    overloads: dict[int, tuple[str, tuple[Overload, ...]]] = msgspec.field(default_factory=dict)
    statics: set[int] = msgspec.field(default_factory=set)
    structs: dict[int, Type] = msgspec.field(default_factory=dict)


_LIBRARY_OBJECTS: Final = "kubernetes."
"""Name prefixes of opaque types: libraries declare them without fields."""
_RANGE_KINDS: Final = frozenset({TypeKind.DYN, TypeKind.ERROR, TypeKind.PARAM})


def check(tree: Expr, scope: CheckerScope) -> tuple[Checked, list[Issue]]:
    """Check a tree; return the results and the issues."""
    checker = _Checker(scope)
    checker.check(tree)
    type_errors = checker.found
    type_errors.types = {
        id_: types.substitute(checker.bindings, type_, unknown_is_dyn=True) for id_, type_ in type_errors.types.items()
    }
    return type_errors, checker.issues


class _Checker:
    def __init__(self, scope: CheckerScope) -> None:
        self._scope = scope
        self._locals: list[dict[str, Type]] = []
        self._fresh = count()
        self.bindings: Bindings = {}
        self.found = Checked()
        self.issues: list[Issue] = []

    def check(self, expr: Expr) -> Type:
        """Check a node with its children and return its type."""
        result_type = self._type(expr)
        self.found.types[expr.id] = result_type
        return result_type

    def _type(self, expr: Expr) -> Type:
        """Return the type of an expression; problems become issues."""
        match expr:
            case Literal():
                return expr.type
            case Ident():
                return self._lookup(expr, expr.name) or self._undeclared(expr.at, expr.name)
            case Select():
                return self._select(expr)
            case CallNode():
                return self._call(expr)
            case ListOf():
                element: Type | None = None
                for index, one in enumerate(expr.elements):
                    element = self._join(element, self._content(one, optional=index in expr.optional))
                return types.list_of(element or self._new_param())
            case MapOf():
                return self._map(expr)
            case StructNode():
                return self._struct(expr)
            case Comprehension():
                over = self.check(expr.range)
                accumulator = self.check(expr.init)
                first, second = self._variables(types.substitute(self.bindings, over), expr)
                self._locals.append({expr.accumulator: accumulator})
                names = {expr.variable: first} if expr.second is None else {expr.variable: first, expr.second: second}
                self._locals.append(names)
                self._expect(expr.condition, types.BOOL)
                self._expect(expr.step, accumulator)
                self._locals.pop()
                result = self.check(expr.result)
                self._locals.pop()
                return result

    def _issue(self, at: int, message: str) -> Type:
        self.issues.append(Issue(at, message))
        return types.ERROR

    def _show(self, type_: Type) -> str:
        return str(types.substitute(self.bindings, type_))

    def _fits(self, left: Type, right: Type) -> bool:
        return self._fit_all((left,), (right,))

    def _fit_all(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        attempt = dict(self.bindings)
        if not types.assignable_all(attempt, tuple(left), tuple(right)):
            return False
        self.bindings = attempt
        return True

    def _new_param(self) -> Type:
        return types.param(f"_var{next(self._fresh)}")

    # -------------------------------------------------------------- names
    def _lookup(self, node: Expr, name: str) -> Type | None:
        """Return the type of a name: of a local variable, a variable, or a type. None for an unknown name."""
        bare = name.removeprefix(".")
        if not name.startswith("."):
            for scope in reversed(self._locals):
                if bare in scope:
                    return scope[bare]
        variable = self._scope.variables.get(bare)
        if variable is not None:
            self.found.variables[node.id] = bare
            return variable
        constant = self._scope.types.get(bare)
        if constant is not None:
            self.found.constants[node.id] = constant
            return types.type_of(constant)
        return None

    def _undeclared(self, at: int, name: str) -> Type:
        return self._issue(at, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Select) -> Type:
        qualified = qualified_name(node)
        if qualified is not None and not node.test:
            declared = self._lookup(node, qualified)
            if declared is not None:
                return declared
        return self._field(self.check(node.operand), node.field, node.at, test=node.test)

    def _field(self, operand: Type, name: str, at: int, *, test: bool = False, optional: bool = False) -> Type:
        target = types.substitute(self.bindings, operand)
        if types.is_optional(target):
            optional = True
            target = target.params[0]
        field_type = self._field_of(target, name, at)
        if test:
            return types.BOOL
        return types.optional_of(field_type) if optional else field_type

    def _field_of(self, target: Type, name: str, at: int) -> Type:
        """Return the type of a field or of a map's value."""
        match target.kind:
            case TypeKind.DYN:
                return types.DYN
            case TypeKind.ERROR:
                return types.ERROR
            case TypeKind.OBJECT:
                return target.fields.get(name) or self._issue(at, f"undefined field '{name}'")
            case TypeKind.MAP:
                return target.params[1]
            case TypeKind.PARAM:
                self._fits(types.DYN, target)
                return types.DYN
            case TypeKind.OPAQUE if target.name.startswith(_LIBRARY_OBJECTS):
                return self._issue(at, f"unexpected failed resolution of '{target}'")
        return self._issue(at, f"type '{self._show(target)}' does not support field selection")

    # -------------------------------------------------------------- calls
    def _call(self, node: CallNode) -> Type:
        """Return the type of a call: of a function, of a method, or of a qualified function such as ``math.least``."""
        if node.function == "_?._":
            operand, field = node.args
            type_ = self.check(operand)
            self.check(field)
            assert isinstance(field, Literal)
            self.found.overloads[node.id] = ("_?._", ())
            return self._field(type_, field.value, node.at, optional=True)
        arguments = [self.check(arg) for arg in node.args]
        if node.function in ("_&&_", "_||_"):
            for arg, argument_type in zip(node.args, arguments, strict=True):
                if not self._fits(argument_type, types.BOOL):
                    self._issue(arg.at, f"expected type 'bool' but found '{self._show(argument_type)}'")
            arguments = [types.BOOL for _ in arguments]
        if node.target is None:
            overloads = self._scope.functions.get(node.function.removeprefix("."))
            if overloads is None:
                return self._undeclared(node.at, node.function)
            return self._resolve(node, node.function, overloads, arguments, method=False)
        qualified = qualified_name(node.target)
        if qualified is not None:
            name = f"{qualified}.{node.function}".removeprefix(".")
            overloads = self._scope.functions.get(name)
            if overloads is not None:
                self.found.statics.add(node.id)
                return self._resolve(node, name, overloads, arguments, method=False)
        target = self.check(node.target)
        overloads = self._scope.functions.get(node.function)
        if overloads is None:
            return self._undeclared(node.at, node.function)
        return self._resolve(node, node.function, overloads, [target, *arguments], method=True)

    def _resolve(
        self, node: CallNode, name: str, overloads: Sequence[Overload], arguments: list[Type], *, method: bool
    ) -> Type:
        """Return the result type of the overloads that fit the arguments, and keep them for the evaluation."""
        result: Type | None = None
        chosen: list[Overload] = []
        for overload in overloads:
            if overload.method is not method or len(overload.params) != len(arguments):
                continue
            params, outcome = self._instantiate(overload)
            if not self._fit_all(arguments, params):
                continue
            chosen.append(overload)
            result_type = types.substitute(self.bindings, outcome)
            result = result_type if result is None or result == result_type else types.DYN
        if result is None:
            type_names = [self._show(one) for one in arguments]
            signature = f"{type_names[0]}.({', '.join(type_names[1:])})" if method else f"({', '.join(type_names)})"
            return self._issue(node.at, f"found no matching overload for '{name}' applied to '{signature}'")
        self.found.overloads[node.id] = (name, tuple(chosen))
        return result

    def _instantiate(self, overload: Overload) -> tuple[list[Type], Type]:
        """Return the overload's parameter and result types with fresh type parameters."""
        names: Bindings = {}
        for type_ in (*overload.params, overload.result):
            self._rename(type_, names)
        if not names:
            return list(overload.params), overload.result
        return [types.substitute(names, one) for one in overload.params], types.substitute(names, overload.result)

    def _rename(self, type_: Type, names: Bindings) -> None:
        if type_.kind is TypeKind.PARAM and type_.name not in names:
            names[type_.name] = self._new_param()
        for one in type_.params:
            self._rename(one, names)

    # -------------------------------------------------------------- aggregates
    def _join(self, before: Type | None, current: Type) -> Type:
        if before is None:
            return current
        return types.more_general(before, current) if self._fits(before, current) else types.DYN

    def _content(self, expr: Expr, *, optional: bool) -> Type:
        """Return the type of an element; for an optional element, of its content."""
        content_type = self.check(expr)
        if not optional:
            return content_type
        content_text = types.substitute(self.bindings, content_type)
        if types.is_optional(content_text):
            return content_text.params[0]
        if content_text.kind in (TypeKind.DYN, TypeKind.ERROR):
            return content_text
        return self._mismatch(expr.at, types.optional_of(content_text), content_text)

    def _mismatch(self, at: int, expected: Type, actual: Type) -> Type:
        return self._issue(at, f"expected type '{self._show(expected)}' but found '{self._show(actual)}'")

    def _map(self, node: MapOf) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            assert not isinstance(entry.key, str)
            key = self._join(key, self.check(entry.key))
            value = self._join(value, self._content(entry.value, optional=entry.optional))
        return types.map_of(key or self._new_param(), value or self._new_param())

    def _struct(self, node: StructNode) -> Type:
        """Return the type of an object literal, whose fields must exist and fit."""
        type_ = self._scope.types.get(node.name.removeprefix("."))
        if type_ is None:
            return self._undeclared(node.at, node.name)
        if type_.kind is not TypeKind.OBJECT:
            return self._issue(node.at, f"'{node.name}' is not a message type")
        self.found.structs[node.id] = type_
        for entry in node.entries:
            assert isinstance(entry.key, str)
            value = self.check(entry.value)
            expected = type_.fields.get(entry.key) or self._issue(entry.at, f"undefined field '{entry.key}'")
            expected_value = types.optional_of(expected) if entry.optional else expected
            if not self._fits(expected_value, value):
                text = f"expected type of field '{entry.key}' is '{self._show(expected_value)}' but provided type is"
                self._issue(entry.at, f"{text} '{self._show(value)}'")
        return type_

    # -------------------------------------------------------------- comprehensions

    def _variables(self, over: Type, node: Comprehension) -> tuple[Type, Type]:
        """Return the types of a comprehension's variables; with one variable, only the first type is used."""
        if over.kind is TypeKind.LIST:
            return (over.params[0], types.DYN) if node.second is None else (types.INT, over.params[0])
        if over.kind is TypeKind.MAP:
            return over.params[0], over.params[1]
        if over.kind in _RANGE_KINDS:
            self._fits(types.DYN, over)
            return types.DYN, types.DYN
        text = "cannot be range of a comprehension (must be list, map, or dynamic)"
        self._issue(node.range.at, f"expression of type '{self._show(over)}' {text}")
        return types.ERROR, types.ERROR

    def _expect(self, expr: Expr, expected: Type) -> None:
        actual = self.check(expr)
        if not self._fits(expected, actual):
            self._mismatch(expr.at, expected, actual)


def qualified_name(expr: Expr) -> str | None:
    """Return the dotted name of a chain of selections; None for other expressions."""
    match expr:
        case Ident():
            return expr.name
        case Select(test=False):
            operand = qualified_name(expr.operand)
            return None if operand is None else f"{operand}.{expr.field}"
    return None
