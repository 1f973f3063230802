"""The syntax tree. Node equality ignores positions.

Upstream: github.com/google/cel-go/common/ast/expr.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from opsdk.cel.types import Type, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What all nodes have.

    Attributes:
        id: unique in the tree.
        at: the offset that messages about this node show.
    """

    id: int = field(compare=False)
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class Ident(Node):
    """A variable or a type by its name; a leading dot says that the name is complete."""

    name: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    """A field; with `test`, whether it is there."""

    operand: Expr
    field: str
    test: bool = False


@dataclass(frozen=True, slots=True)
class CallNode(Node):
    """A function, or an operator by its name (``_+_``); with a target it is a method."""

    function: str
    target: Expr | None
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    """A list; `optional` holds the indices of elements that are left out if they have no value."""

    elements: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MapEntryNode(Node):
    """A key or a field name with its value; if `optional`, left out if there is no value."""

    key: Expr | str
    value: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True)
class MapOf(Node):
    """A map."""

    entries: tuple[MapEntryNode, ...]


@dataclass(frozen=True, slots=True)
class StructNode(Node):
    """An object of a named type."""

    name: str
    entries: tuple[MapEntryNode, ...]


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """A fold, which is what macros become.

    For each element of `range`, as long as `condition` holds, `accumulator` (at first `init`) becomes `step`; then the
    value is `result`.
    """

    range: Expr
    variable: str
    second: str | None
    accumulator: str
    init: Expr
    condition: Expr
    step: Expr
    result: Expr


Expr = Literal | Ident | Select | CallNode | ListOf | MapOf | StructNode | Comprehension
