"""Declarations of libraries: functions, overloads, implementations and costs.

Upstream: github.com/google/cel-go/common/decls/decls.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from opsdk.cel.macros import Macros
from opsdk.cel.syntax import Expr
from opsdk.cel.types import Type, Value

MOST: Final = 2**64 - 1
"""The value for an unbounded size or cost."""

TRAVERSAL: Final = 0.1
"""Cost per traversed character."""

REGEX_FACTOR: Final = 0.25
"""Cost per character of a regular expression, for each unit of the text."""

LIST_COST: Final = 10
MAP_COST: Final = 30
STRUCT_COST: Final = 40


def scaled(amount: int, factor: float) -> int:
    """Return the product, rounded up."""
    product = math.ceil(amount * factor)
    return min(product, MOST)


# ------------------------------------------------------------------ estimates
class Range(msgspec.Struct, frozen=True):
    """Bounds of a size or a cost; sums and products saturate at `MAX_MESSAGE_BYTES`.

    >>> Range(1, 2) + Range(0, MOST)
    Range(least=1, most=18446744073709551615)
    """

    least: int
    most: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def __or__(self, other: Range) -> Range:
        """Return the range that covers both."""
        return Range(min(self.least, other.least), max(self.most, other.most))

    def scaled(self, factor: float) -> Range:
        """Return the product with a number, rounded up."""
        return Range(scaled(self.least, factor), scaled(self.most, factor))


def exactly(amount: int) -> Range:
    """Return the range of one value."""
    return Range(amount, amount)


ONE: Final = exactly(1)
UNKNOWN: Final = Range(0, MOST)


class Operand(msgspec.Struct, frozen=True):
    """An argument for cost estimation.

    Attributes:
        path: the path from a variable; empty for a computed value.
        type: its type.
        expr: its node; None for an element of another operand.
        size: its size, if it is known.
    """

    path: tuple[str, ...]
    type: Type
    expr: Expr | None
    size: Range | None


class Sizes(Protocol):
    """Provides the sizes of operands."""

    def size(self, operand: Operand) -> Range:
        """Return the bounds of an operand's size."""
        ...

    def element(self, operand: Operand) -> Operand | None:
        """Return the element of a list operand; None for other types."""
        ...


class CallEstimate(msgspec.Struct, frozen=True):
    """The cost of a call without its arguments, and the size of its result."""

    cost: Range
    size: Range | None = None


Estimate = Callable[[Sizes, Sequence[Operand]], CallEstimate | None]
"""Estimates a call; the target of a method is the first operand."""

Cost = Callable[[Sequence[Value], Value], int]
"""The cost of a call by its arguments and its result."""


# ------------------------------------------------------------------ functions
class Overload(msgspec.Struct, frozen=True, kw_only=True):
    """An overload of a function.

    Attributes:
        id: its ID in cost tables.
        params: the types of its parameters, first the target of a method.
        result: the type of its result.
        call: the implementation; raises `CelEvaluationError`.
        method: whether it is called on its first parameter.
        cost: the actual cost of a call; by default one unit.
        estimate: the estimated cost of a call.
    """

    id: str
    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Value]
    method: bool = False
    cost: Cost | None = None
    estimate: Estimate | None = None


Functions = Mapping[str, Sequence[Overload]]


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """A set of functions, macros and constants."""

    functions: Functions = msgspec.field(default_factory=dict)
    macros: Macros = msgspec.field(default_factory=dict)
    types: Mapping[str, Type] = msgspec.field(default_factory=dict)


def merged(libraries: Iterable[Library]) -> Library:
    """Merge libraries into one, with the overloads of equal functions joined."""
    functions: dict[str, list[Overload]] = {}
    macros: dict[Any, Any] = {}
    types: dict[str, Type] = {}
    for library in libraries:
        for name, overloads in library.functions.items():
            functions.setdefault(name, []).extend(overloads)
        macros.update(library.macros)
        types.update(library.types)
    return Library(functions=functions, macros=macros, types=types)


def function(id_: str, params: Sequence[Type], result: Type, call: Callable[..., Any], **more: Any) -> Overload:
    """Return an overload of a function."""
    return Overload(id=id_, params=tuple(params), result=result, call=call, **more)


def method(id_: str, params: Sequence[Type], result: Type, call: Callable[..., Any], **more: Any) -> Overload:
    """Return an overload of a method; the first parameter is its target."""
    return Overload(id=id_, params=tuple(params), result=result, call=call, method=True, **more)
