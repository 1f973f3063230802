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
"""What counts as without bound."""

TRAVERSAL: Final = 0.1
"""The cost of looking at one character."""

REGEX_FACTOR: Final = 0.25
"""The cost of one character of a regular expression, for each unit of the text."""

LIST_COST: Final = 10
MAP_COST: Final = 30
STRUCT_COST: Final = 40


def scaled(amount: int, factor: float) -> int:
    """The product, rounded up."""
    product = math.ceil(amount * factor)
    return min(product, MOST)


# ------------------------------------------------------------------ estimates
class Range(msgspec.Struct, frozen=True):
    """Between the least and the most of a size or of a cost; sums and products stop at `MAX_MESSAGE_BYTES`.

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
        """What both lie in."""
        return Range(min(self.least, other.least), max(self.most, other.most))

    def scaled(self, factor: float) -> Range:
        """The product with a number, rounded up."""
        return Range(scaled(self.least, factor), scaled(self.most, factor))


def exactly(amount: int) -> Range:
    """Just this."""
    return Range(amount, amount)


ONE: Final = exactly(1)
UNKNOWN: Final = Range(0, MOST)


class Operand(msgspec.Struct, frozen=True):
    """An argument as cost estimates see it.

    Attributes:
        path: how it is reached from a variable; empty if it is computed.
        type: its type.
        expr: what it is; None for the element of an argument.
        size: what is known of its size.
    """

    path: tuple[str, ...]
    type: Type
    expr: Expr | None
    size: Range | None


class Sizes(Protocol):
    """Knows how large operands can be."""

    def size(self, operand: Operand) -> Range:
        """Between what and what the size lies."""
        ...

    def element(self, operand: Operand) -> Operand | None:
        """The element of a list; None for what is no list."""
        ...


class CallEstimate(msgspec.Struct, frozen=True):
    """What a call costs beside its arguments, and how large its result is."""

    cost: Range
    size: Range | None = None


Estimate = Callable[[Sizes, Sequence[Operand]], CallEstimate | None]
"""Estimates a call; a method's target is the first operand."""

Cost = Callable[[Sequence[Value], Value], int]
"""The cost of a call by its arguments and its result."""


# ------------------------------------------------------------------ functions
class Overload(msgspec.Struct, frozen=True, kw_only=True):
    """One form of a function.

    Attributes:
        id: its name in cost tables.
        params: the types of its arguments, a method's target first.
        result: the type of what it gives.
        call: does it; raises `CelEvaluationError`.
        method: whether it is called on its first argument.
        cost: the cost of a call; default: one unit.
        estimate: what it may cost.
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
    """Functions, macros and constants that belong together."""

    functions: Functions = msgspec.field(default_factory=dict)
    macros: Macros = msgspec.field(default_factory=dict)
    types: Mapping[str, Type] = msgspec.field(default_factory=dict)


def merged(libraries: Iterable[Library]) -> Library:
    """All of them as one; overloads of a function come together."""
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
    """A function's overload."""
    return Overload(id=id_, params=tuple(params), result=result, call=call, **more)


def method(id_: str, params: Sequence[Type], result: Type, call: Callable[..., Any], **more: Any) -> Overload:
    """A method's overload; the first parameter is its target."""
    return Overload(id=id_, params=tuple(params), result=result, call=call, method=True, **more)
