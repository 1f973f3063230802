"""Macros: the parser expands these calls.

Upstream: github.com/google/cel-go/parser/macro.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

import msgspec

from opsdk.cel.syntax import CallNode, Comprehension, Expr, Ident, ListOf, Literal, MapEntryNode, MapOf, Select
from opsdk.cel.types import BOOL, INT, Type, Value

ACCUMULATOR: Final = "@result"
"""The accumulator of a comprehension; no identifier can have this name."""

BIND_RANGE: Final = "#unused"
"""The iteration variable of ``cel.bind``."""


class MacroError(Exception):
    """Invalid macro arguments; the parser reports them."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


class Builder:
    """Creates nodes at one offset."""

    def __init__(self, ids: count[int], at: int) -> None:
        self._ids = ids
        self.at = at

    def literal(self, value: Value, type_: Type) -> Literal:
        """Return a constant."""
        return Literal(value, type_, id=next(self._ids), at=self.at)

    def true(self) -> Literal:
        """Return the constant true."""
        return self.literal(value=True, type_=BOOL)

    def false(self) -> Literal:
        """Return the constant false."""
        return self.literal(value=False, type_=BOOL)

    def number(self, value: int) -> Literal:
        """Return an integer constant."""
        return self.literal(value, INT)

    def ident(self, name: str) -> Ident:
        """Return an identifier."""
        return Ident(name, id=next(self._ids), at=self.at)

    def accumulator(self) -> Ident:
        """Return the accumulator."""
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: Expr) -> CallNode:
        """Return a function call."""
        return CallNode(function, None, args, id=next(self._ids), at=self.at)

    def method(self, function: str, target: Expr, *args: Expr) -> CallNode:
        """Return a method call."""
        return CallNode(function, target, args, id=next(self._ids), at=self.at)

    def list(self, *elements: Expr) -> ListOf:
        """Return a list."""
        return ListOf(elements, id=next(self._ids), at=self.at)

    def map(self, *entries: MapEntryNode) -> MapOf:
        """Return a map."""
        return MapOf(entries, id=next(self._ids), at=self.at)

    def has(self, operand: Expr, field: str) -> Select:
        """Return a field presence test."""
        return Select(operand, field, test=True, id=next(self._ids), at=self.at)

    def append(self, element: Expr) -> CallNode:
        """Return the accumulator with an appended element."""
        return self.call("_+_", self.accumulator(), self.list(element))

    def choose(self, condition: Expr, yes: Expr, no: Expr | None = None) -> CallNode:
        """Return a conditional; `no` defaults to the accumulator."""
        return self.call("_?_:_", condition, yes, no if no is not None else self.accumulator())

    def fold(
        self,
        over: Expr,
        variables: tuple[str, str | None],
        init: Expr,
        step: Expr,
        *,
        condition: Expr | None = None,
        result: Expr | None = None,
        accumulator: str = ACCUMULATOR,
    ) -> Comprehension:
        """Return a comprehension; its result defaults to the accumulator."""
        return Comprehension(
            over,
            *variables,
            accumulator,
            init,
            condition if condition is not None else self.true(),
            step,
            result if result is not None else self.accumulator(),
            id=next(self._ids),
            at=self.at,
        )

    def bind(self, name: str, value: Expr, body: Expr) -> Comprehension:
        """Return `body` with a named value: a comprehension over an empty list."""
        return self.fold(
            self.list(),
            (BIND_RANGE, None),
            value,
            self.ident(name),
            condition=self.false(),
            result=body,
            accumulator=name,
        )


Expander = Callable[[Builder, Expr | None, tuple[Expr, ...]], Expr | None]
"""Expands a macro call. Returns None to keep the call."""


class Key(msgspec.Struct, frozen=True):
    """The key of a macro: name, number of arguments, and whether it is a method."""

    name: str
    arity: int
    method: bool = True


Macros = Mapping[Key, Expander]


def _name(arg: Expr, message: str) -> str:
    if not isinstance(arg, Ident) or arg.name.startswith("."):
        raise MacroError(arg.at, message)
    if arg.name == ACCUMULATOR:
        raise MacroError(arg.at, "iteration variable overwrites accumulator variable")
    return arg.name


def _names(args: tuple[Expr, ...], *, two: bool, message: str) -> tuple[str, str | None]:
    first = _name(args[0], message)
    if not two:
        return first, None
    second = _name(args[1], message)
    if first == second:
        raise MacroError(args[1].at, f"duplicate variable name: {first}")
    return first, second


_SIMPLE_NAME: Final = "argument must be a simple name"
_NOT_IDENT: Final = "argument is not an identifier"


def _has(build: Builder, _: Expr | None, args: tuple[Expr, ...]) -> Expr:
    arg = args[0]
    if not isinstance(arg, Select) or arg.test:
        raise MacroError(arg.at, "invalid argument to has() macro")
    return build.has(arg.operand, arg.field)


def _all(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _names(args, two=len(args) == 3, message=_SIMPLE_NAME)
    condition = build.call("@not_strictly_false", build.accumulator())
    step = build.call("_&&_", build.accumulator(), args[-1])
    return build.fold(target, names, build.true(), step, condition=condition)


def _exists(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _names(args, two=len(args) == 3, message=_SIMPLE_NAME)
    condition = build.call("@not_strictly_false", build.call("!_", build.accumulator()))
    step = build.call("_||_", build.accumulator(), args[-1])
    return build.fold(target, names, build.false(), step, condition=condition)


def _exists_one(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _names(args, two=len(args) == 3, message=_SIMPLE_NAME)
    step = build.choose(args[-1], build.call("_+_", build.accumulator(), build.number(1)))
    result = build.call("_==_", build.accumulator(), build.number(1))
    return build.fold(target, names, build.number(0), step, result=result)


def _map(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _names(args, two=False, message=_NOT_IDENT)
    step = build.append(args[-1])
    return build.fold(target, names, build.list(), build.choose(args[1], step) if len(args) == 3 else step)


def _filter(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _names(args, two=False, message=_NOT_IDENT)
    return build.fold(target, names, build.list(), build.choose(args[1], build.append(args[0])))


STANDARD: Final[Macros] = {
    Key("has", 1, method=False): _has,
    Key("all", 2): _all,
    Key("exists", 2): _exists,
    Key("exists_one", 2): _exists_one,
    Key("existsOne", 2): _exists_one,
    Key("map", 2): _map,
    Key("map", 3): _map,
    Key("filter", 2): _filter,
}
"""The standard macros."""


# ------------------------------------------------------------------ two variables
def _transform_list(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _names(args, two=True, message=_SIMPLE_NAME)
    step = build.append(args[-1])
    return build.fold(target, names, build.list(), build.choose(args[2], step) if len(args) == 4 else step)


def _transform_map(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _names(args, two=True, message=_SIMPLE_NAME)
    step = build.call("cel.@mapInsert", build.accumulator(), build.ident(names[0]), args[-1])
    return build.fold(target, names, build.map(), build.choose(args[2], step) if len(args) == 4 else step)


def _transform_entry(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _names(args, two=True, message=_SIMPLE_NAME)
    step = build.call("cel.@mapInsert", build.accumulator(), args[-1])
    return build.fold(target, names, build.map(), build.choose(args[2], step) if len(args) == 4 else step)


TWO_VARIABLES: Final[Macros] = {
    Key("all", 3): _all,
    Key("exists", 3): _exists,
    Key("existsOne", 3): _exists_one,
    Key("exists_one", 3): _exists_one,
    Key("transformList", 3): _transform_list,
    Key("transformList", 4): _transform_list,
    Key("transformMap", 3): _transform_map,
    Key("transformMap", 4): _transform_map,
    Key("transformMapEntry", 3): _transform_entry,
    Key("transformMapEntry", 4): _transform_entry,
}
"""The macros of two-variable comprehensions."""


# ------------------------------------------------------------------ optionals, bindings, sorting
_TARGET: Final = "@target"


def _optional(
    build: Builder, target: Expr | None, args: tuple[Expr, ...], macro: str, wrap: Callable[[Expr], Expr]
) -> Expr:
    assert target is not None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].at, f"{macro} variable name must be a simple identifier")
    simple = isinstance(target, Ident)

    def subject() -> Expr:
        return build.ident(target.name) if isinstance(target, Ident) else build.ident(_TARGET)

    inner = build.bind(args[0].name, build.method("value", subject()), args[1])
    chosen = build.choose(build.method("hasValue", subject()), wrap(inner), build.call("optional.none"))
    return chosen if simple else build.bind(_TARGET, target, chosen)


OPTIONALS: Final[Macros] = {
    Key("optMap", 2): lambda build, target, args: _optional(
        build, target, args, "optMap()", lambda body: build.call("optional.of", body)
    ),
    Key("optFlatMap", 2): lambda build, target, args: _optional(build, target, args, "optFlatMap()", lambda body: body),
}
"""The macros of optionals: ``optMap`` and ``optFlatMap``."""


def _cel_bind(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].at, "cel.bind() variable names must be simple identifiers")
    return build.bind(args[0].name, args[1], args[2])


BINDINGS: Final[Macros] = {Key("bind", 3): _cel_bind}
"""The macro ``cel.bind(name, value, body)``."""

_SORTED: Final = "@__sortBy_input__"


def _sort_by(build: Builder, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    if isinstance(target, Literal | MapOf):
        text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target.at, text)
    keys = _map(build, build.ident(_SORTED), args)
    return build.bind(_SORTED, target, build.method("@sortByAssociatedKeys", build.ident(_SORTED), keys))


SORTING: Final[Macros] = {Key("sortBy", 2): _sort_by}
"""The macro ``sortBy``."""
