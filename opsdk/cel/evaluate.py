"""The evaluator: it compiles the syntax tree to Python functions once.

Each function counts its cost. An evaluation stops when it exceeds its cost limit.

Upstream: github.com/google/cel-go/interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opsdk.aio.large_work import check_time, is_spent
from opsdk.cel.checker import Checked
from opsdk.cel.declarations import LIST_COST, MAP_COST, STRUCT_COST, Overload
from opsdk.cel.errors import CelBudgetError, CelCompileError, CelEvaluationError
from opsdk.cel.macros import ACCUMULATOR, BIND_RANGE
from opsdk.cel.mismatch import mismatch
from opsdk.cel.regex import compile_regex
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
from opsdk.cel.types import Type, TypeKind, Value
from opsdk.cel.values import (
    Listed,
    Mapped,
    Optional,
    contains,
    elements,
    field,
    find_field,
    find_index,
    find_key,
    index,
    kind_of,
    no_such_overload,
    not_iterable,
    show,
    type_of,
)
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

Construct = Callable[[Type, JsonObject], Value]
"""Constructs an object of a type from the values of its fields."""


_CHECKED_COST: Final = 2_000
"""Cost between two checks of the time: about a millisecond."""


class Frame:
    """The state of one evaluation: variables, comprehension results and the cost."""

    __slots__ = ("construct", "cost", "limit", "locals", "next_check", "variables")

    def __init__(self, variables: Mapping[str, Value], slots: int, limit: int, construct: Construct | None) -> None:
        self.variables = variables
        self.locals: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit
        self.next_check = min(limit, _CHECKED_COST)
        self.construct = construct

    def charge(self, cost: int) -> None:
        """Add a cost.

        Raises:
            CelBudgetError: the limit is exceeded, or the budget of time (`opsdk.aio.large_work.evaluate`).
        """
        self.cost += cost
        if self.cost > self.next_check:
            self._check()

    def _check(self) -> None:
        """Check the cost, and between long steps the time."""
        if self.cost > self.limit or is_spent():
            raise CelBudgetError("operation cancelled: actual cost limit exceeded")
        check_time()
        self.next_check = min(self.limit, self.cost + _CHECKED_COST)


Code = Callable[[Frame], Value]


class _Raised:
    """The error of a failed comprehension step; the reader of the result raises it."""

    __slots__ = ("error",)

    def __init__(self, error: CelEvaluationError) -> None:
        self.error = error


def compile_code(tree: Expr, checked: Checked) -> tuple[Code, int]:
    """Return the function that evaluates a tree, and the number of its local variables.

    Raises:
        CelCompileError: the evaluation of a constant subexpression failed.
    """
    compiler = _Compiler(checked)
    return compiler.code(tree), compiler.slots


_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)


class _Compiler:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._scopes: list[dict[str, int]] = []
        self.slots = 0

    def code(self, node: Expr) -> Code:
        """Compile a node."""
        match node:
            case Literal():
                return _constant(node.value)
            case Ident():
                slot = next((scope[node.name] for scope in reversed(self._scopes) if node.name in scope), None)
                if slot is not None:
                    return _local(slot)
                constant = self._named(node)
                assert constant is not None
                return constant
            case Select():
                return self._select(node)
            case CallNode():
                return self._call(node)
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)
            case StructNode():
                return self._struct(node)
            case Comprehension():
                bind = node.variable == BIND_RANGE and node.accumulator != ACCUMULATOR
                return self._bind(node) if bind else self._fold(node)

    # -------------------------------------------------------------- names and fields
    def _named(self, node: Expr) -> Code | None:
        """Compile a reference to a variable or type."""
        constant = self._checked.constants.get(node.id)
        if constant is not None:
            return _constant(constant)
        variable = self._checked.variables.get(node.id)
        return None if variable is None else _variable(variable)

    def _select(self, node: Select) -> Code:
        """Return the code of a field selection, or of ``has()``."""
        constant = self._named(node)
        if constant is not None:
            return constant
        operand, name = self.code(node.operand), node.field
        if node.test:
            return lambda frame: _test(operand(frame), name)
        cost = 1 if _is_path(node.operand) else 2

        def select(frame: Frame) -> Value:
            value = operand(frame)
            frame.cost += cost
            if isinstance(value, Optional):
                return find_field(value.value, name) if value.has_value else value
            return field(value, name)

        return select

    # -------------------------------------------------------------- calls
    def _call(self, node: CallNode) -> Code:
        """Return the code of a call. Conversions and patterns of literals are computed now."""
        name, overloads = self._checked.overloads[node.id]
        arguments = node.args
        if node.target is not None and node.id not in self._checked.statics:
            arguments = (node.target, *arguments)
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, *arguments)
        appended = self._append(*arguments) if name == "_+_" else None
        if appended is not None:
            return appended
        codes = [self.code(argument) for argument in arguments]
        called = self._dispatch(name, overloads, arguments)
        if name in _SEARCHES and isinstance(arguments[1], Literal):
            _folded(_read_regex, arguments[1].value)
        if name in _CONVERSIONS and isinstance(arguments[0], Literal):
            return _constant(_folded(called, arguments[0].value))
        return _invoke(called, overloads[0].cost if len(overloads) == 1 else _cost_of_first(overloads), codes)

    def _dispatch(self, name: str, overloads: Sequence[Overload], arguments: Sequence[Expr]) -> Callable[..., Value]:
        """Return the function of a call. With dynamic types, it selects the overload at run time."""
        if len(overloads) == 1 and not any(
            (self._checked.types[argument.id].kind in (TypeKind.DYN, TypeKind.ERROR, TypeKind.PARAM))
            for argument in arguments
        ):
            return _guarded(name, overloads[0])

        guarded = [(overload.params, _guarded(name, overload)) for overload in overloads]

        def choose(*values: Value) -> Value:
            for params, call in guarded:
                if all(map(_fits, params, values)):
                    return call(*values)
            raise mismatch(name, values)

        return choose

    def logic(self, left: Expr, right: Expr, *, decisive: bool) -> Code:
        """Compile ``&&`` or ``||``: one operand may decide, even if the other one fails."""
        first, second = self.code(left), self.code(right)

        def decide(frame: Frame) -> bool:
            error: CelEvaluationError
            try:
                value = first(frame)
                if value is decisive:
                    return value is True
                if not isinstance(value, bool):
                    raise no_such_overload()
            except CelBudgetError:
                raise
            except CelEvaluationError as raised:
                error = raised
            else:
                return _boolean(second(frame))
            try:
                other = second(frame)
            except CelBudgetError:
                raise
            except CelEvaluationError:
                raise error from None
            if other is decisive:
                return other is True
            raise error

        return decide

    def choice(self, condition: Expr, yes: Expr, no: Expr) -> Code:
        """Compile a conditional; only the chosen branch is evaluated."""
        test, first, second = self.code(condition), self._without_variable_cost(yes), self._without_variable_cost(no)
        return lambda frame: first(frame) if _boolean(test(frame)) else second(frame)

    def _without_variable_cost(self, node: Expr) -> Code:
        """Compile a node; for a path, omit the cost of its variable."""
        code = self.code(node)
        if not _is_path(node) or (isinstance(node, CallNode) and node.function == "_?_:_"):
            return code

        def evaluate(frame: Frame) -> Value:
            frame.cost -= 1
            return code(frame)

        return evaluate

    def not_false(self, argument: Expr) -> Code:
        """Compile ``@not_strictly_false``: true unless the value is false; errors are true too."""
        code = self.code(argument)

        def test(frame: Frame) -> bool:
            frame.charge(1)
            try:
                return code(frame) is not False
            except CelBudgetError:
                raise
            except CelEvaluationError:
                return True

        return test

    def member(self, element: Expr, container: Expr) -> Code:
        """Compile ``in``; a list of constants costs nothing."""
        first, second = self.code(element), self.code(container)
        fixed = isinstance(container, ListOf) and all(isinstance(one, Literal) for one in container.elements)

        def test(frame: Frame) -> bool:
            value, within = first(frame), second(frame)
            if not fixed:
                frame.charge(len(within) if isinstance(within, Listed) else 1)
            return contains(within, value)

        return test

    def index(self, container: Expr, key: Expr) -> Code:
        """Compile an index."""
        first, second = self.code(container), self._without_variable_cost(key)
        cost = 1 if _is_path(container) else 2

        def get(frame: Frame) -> Value:
            value, key = first(frame), second(frame)
            frame.charge(cost)
            if isinstance(value, Optional):
                return find_index(value.value, key) if value.has_value else value
            return index(value, key)

        return get

    def optional_index(self, container: Expr, key: Expr) -> Code:
        """Compile an optional index."""
        return self._optional(container, key, find_index)

    def optional_select(self, operand: Expr, name: Expr) -> Code:
        """Compile an optional selection."""
        return self._optional(operand, name, find_field)

    def _optional(self, container: Expr, key: Expr, find: Callable[[Value, Value], Optional]) -> Code:
        first, second = self.code(container), self.code(key)

        def get(frame: Frame) -> Optional:
            value, key = first(frame), second(frame)
            frame.charge(1)
            if isinstance(value, Optional):
                return find(value.value, key) if value.has_value else value
            return find(value, key)

        return get

    def _append(self, left: Expr, right: Expr) -> Code | None:
        """Compile an append to a comprehension's result. The list is private, so it grows in place."""
        if not (isinstance(left, Ident) and left.name == ACCUMULATOR and isinstance(right, ListOf)):
            return None
        gathered, codes = self.code(left), [self.code(one) for one in right.elements]

        def append(frame: Frame) -> Value:
            list_ = gathered(frame)
            added = [code(frame) for code in codes]
            frame.charge(LIST_COST + 1)
            list_.extend(added)
            return list_

        return append

    # -------------------------------------------------------------- aggregates
    def _list(self, node: ListOf) -> Code:
        """Return the code of a list. A list of literals is a constant."""
        if not node.optional and all(isinstance(one, Literal) for one in node.elements):
            return _constant([one.value for one in node.elements if isinstance(one, Literal)])
        codes = [(self.code(one), index in node.optional) for index, one in enumerate(node.elements)]

        def build(frame: Frame) -> list[Value]:
            built: list[Value] = []
            for code, optional in codes:
                value = code(frame)
                if not optional:
                    built.append(value)
                elif _content(value).has_value:
                    built.append(value.value)
            frame.charge(LIST_COST)
            return built

        return build

    def _map(self, node: MapOf) -> Code:
        """Return the code of a map. A map of literals is a constant."""
        codes = [
            (self.code(entry.key), self.code(entry.value), entry.optional)
            for entry in node.entries
            if not isinstance(entry.key, str)
        ]

        def build(frame: Frame) -> dict[Value, Value]:
            built: dict[Value, Value] = {}
            for key_code, code, optional in codes:
                key, value = key_code(frame), code(frame)
                if not optional:
                    _put(built, key, value)
                elif _content(value).has_value:
                    _put(built, key, value.value)
            frame.charge(MAP_COST)
            return built

        if all(isinstance(one, Literal) for entry in node.entries for one in (entry.key, entry.value)):
            constant = build(Frame({}, 0, MAP_COST, None))
            return _constant(constant)
        return build

    def _struct(self, node: StructNode) -> Code:
        """Return the code of an object literal. Raises `CelEvaluationError` where objects cannot be made."""
        type_ = self._checked.structs[node.id]
        codes: list[tuple[str, Code, bool]] = []
        for entry in node.entries:
            assert isinstance(entry.key, str)
            codes.append((entry.key, self.code(entry.value), entry.optional))

        def build(frame: Frame) -> Value:
            values: JsonObject = {}
            for name, code, optional in codes:
                value = code(frame)
                if not optional:
                    values[name] = value
                elif _content(value).has_value:
                    values[name] = value.value
            frame.charge(STRUCT_COST)
            if frame.construct is None:
                raise CelEvaluationError(f"unknown type: '{type_.name}'")
            return frame.construct(type_, values)

        return build

    # -------------------------------------------------------------- comprehensions
    def _declare(self, scope: dict[str, int], name: str) -> int:
        slot = scope[name] = self.slots
        self.slots += 1
        return slot

    def _bind(self, node: Comprehension) -> Code:
        value = self.code(node.init)
        scope: dict[str, int] = {}
        slot = self._declare(scope, node.accumulator)
        self._scopes.append(scope)
        result = self.code(node.result)
        self._scopes.pop()

        def evaluate(frame: Frame) -> Value:
            frame.locals[slot] = value(frame)
            return result(frame)

        return evaluate

    def _fold(self, node: Comprehension) -> Code:
        """Return the code of a comprehension. An error of a step may be absorbed by a later one."""
        over, init = self.code(node.range), self.code(node.init)
        outer: dict[str, int] = {}
        accumulator = self._declare(outer, node.accumulator)
        self._scopes.append(outer)
        inner: dict[str, int] = {}
        first = self._declare(inner, node.variable)
        second = None if node.second is None else self._declare(inner, node.second)
        self._scopes.append(inner)
        condition = None if isinstance(node.condition, Literal) else self.code(node.condition)
        step = self.code(node.step)
        self._scopes.pop()
        result = self.code(node.result)
        self._scopes.pop()
        pairs = _singles if second is None else _pairs
        second_slot = first if second is None else second

        def evaluate(frame: Frame) -> Value:
            container = over(frame)
            gathered = init(frame)
            local = frame.locals
            local[accumulator] = list(gathered) if isinstance(gathered, list) else gathered
            if isinstance(gathered, dict):
                local[accumulator] = dict(gathered)
            for value, other in pairs(container):
                local[second_slot], local[first] = other, value
                if condition is not None and not condition(frame):
                    break
                frame.charge(0)
                try:
                    local[accumulator] = step(frame)
                except CelBudgetError:
                    raise
                except CelEvaluationError as error:
                    if condition is None:
                        raise
                    local[accumulator] = _Raised(error)
            return result(frame)

        return evaluate


def _is_path(node: Expr) -> bool:
    """Report whether a node is a path, which costs one for the variable and one for each step.

    A step from another node costs one as well. A conditional is a path without a cost of its own.
    """
    match node:
        case Ident():
            return True
        case Select(test=False):
            return True
        case CallNode(function="_[_]" | "_?_:_"):
            return True
    return False


def _singles(container: Value) -> Value:
    return ((value, value) for value in elements(container))


def _pairs(container: Value) -> Value:
    if isinstance(container, Listed):
        return enumerate(container)
    if isinstance(container, Mapped):
        return container.items()
    raise not_iterable(container)


def _constant(value: Value) -> Code:
    return lambda _: value


def _variable(name: str) -> Code:
    def get(frame: Frame) -> Value:
        frame.cost += 1
        try:
            return frame.variables[name]
        except KeyError:
            raise CelEvaluationError(f"no such attribute(s): {name}") from None

    return get


def _local(slot: int) -> Code:
    def get(frame: Frame) -> Value:
        frame.cost += 1
        value = frame.locals[slot]
        if type(value) is _Raised:
            raise value.error
        return value

    return get


def _test(value: Value, name: str) -> bool:
    if isinstance(value, Optional):
        return value.has_value and find_field(value.value, name).has_value
    return find_field(value, name).has_value


def _boolean(value: Value) -> bool:
    if not isinstance(value, bool):
        raise no_such_overload()
    return value


def _content(value: Value) -> Optional:
    if not isinstance(value, Optional):
        raise CelEvaluationError(f"cannot initialize optional entry from non-optional value {show(value)}")
    return value


def insert(entries: dict[Value, Value], key: Value, value: Value) -> None:
    """Add an entry.

    Raises:
        CelEvaluationError: the key exists already, or its type is not allowed.
    """
    if find_key(entries, key).has_value:
        raise CelEvaluationError(f"insert failed: key {show(key)} already exists")
    _put(entries, key, value)


def _put(entries: dict[Value, Value], key: Value, value: Value) -> None:
    """Add or replace an entry."""
    if kind_of(key) not in _KEYS:
        raise CelEvaluationError(f"unsupported key type: {type_of(key).runtime_name}")
    entries[key] = value


_KEYS: Final = frozenset({TypeKind.BOOL, TypeKind.INT, TypeKind.UINT, TypeKind.STRING, TypeKind.DOUBLE})


def _fits(param: Type, value: Value) -> bool:
    if param.kind in (TypeKind.DYN, TypeKind.PARAM):
        return True
    actual = type_of(value)
    return actual.kind is param.kind and (param.kind is not TypeKind.OPAQUE or actual.name == param.name)


def _guarded(name: str, overload: Overload) -> Callable[..., Value]:
    """Return a call that checks its arguments, because dynamic values may have other types and variables be null."""
    call, params = overload.call, overload.params
    nested = any(param.params for param in params)

    def attempt(*values: Value) -> Value:
        try:
            return call(*values)
        except (TypeError, AttributeError):
            if not nested and all(map(_fits, params, values)):
                raise
            raise mismatch(name, values) from None

    return attempt


_SEARCHES: Final = frozenset({"find", "findAll"})


def _read_regex(pattern: Value) -> None:
    try:
        compile_regex(pattern)
    except UsageError as error:
        raise CelEvaluationError(str(error)) from error


def _folded(call: Callable[..., Value], value: Value) -> Value:
    try:
        return call(value)
    except CelEvaluationError as error:
        raise CelCompileError(f"program instantiation failed: {error}") from error


def _cost_of_first(overloads: Sequence[Overload]) -> Callable[[Sequence[Value], Value], int] | None:
    if not any(overload.cost for overload in overloads):
        return None

    def cost(values: Sequence[Value], result: Value) -> int:
        for overload in overloads:
            if all(map(_fits, overload.params, values)):
                return overload.cost(values, result) if overload.cost is not None else 1
        return 1

    return cost


def _invoke(
    call: Callable[..., Value], cost: Callable[[Sequence[Value], Value], int] | None, codes: Sequence[Code]
) -> Code:
    """Return code that calls a function with its arguments and counts the cost."""
    if cost is None and len(codes) == 1:
        (only,) = codes

        def unary(frame: Frame) -> Value:
            value = only(frame)
            frame.charge(1)
            return call(value)

        return unary
    if cost is None and len(codes) == 2:
        first, second = codes

        def binary(frame: Frame) -> Value:
            first_value, right = first(frame), second(frame)
            frame.charge(1)
            return call(first_value, right)

        return binary

    def general(frame: Frame) -> Value:
        values = [code(frame) for code in codes]
        result = call(*values)
        frame.charge(1 if cost is None else cost(values, result))
        return result

    return general


_SPECIAL: Final[dict[str, Callable[..., Code]]] = {
    "_&&_": lambda compiler, left, right: compiler.logic(left, right, decisive=False),
    "_||_": lambda compiler, left, right: compiler.logic(left, right, decisive=True),
    "_?_:_": _Compiler.choice,
    "_[_]": _Compiler.index,
    "_[?_]": _Compiler.optional_index,
    "_?._": _Compiler.optional_select,
    "@in": _Compiler.member,
    "@not_strictly_false": _Compiler.not_false,
}
