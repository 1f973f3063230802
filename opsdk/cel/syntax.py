"""The syntax tree. Node equality ignores positions.

Upstream: github.com/google/cel-go/common/ast/expr.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from opsdk.cel.types import Type, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The base of all nodes.

    Attributes:
        id: unique in the tree.
        at: the offset in messages about this node.
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
    """A variable or type by name; a leading dot marks the name as absolute."""

    name: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    """A field selection; with `test`, a presence test."""

    operand: Expr
    field: str
    test: bool = False


@dataclass(frozen=True, slots=True)
class CallNode(Node):
    """A call of a function or operator (``_+_``); of a method if it has a target."""

    function: str
    target: Expr | None
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    """A list; `optional` has the indices of optional elements, which are omitted without a value."""

    elements: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MapEntryNode(Node):
    """A map key or field name with its value; if `optional`, it is omitted without a value."""

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
    """A comprehension, to which macros expand.

    The accumulator starts as `init`. For each element of `range`, as long as `condition` holds, it is set to `step`.
    The value is `result`.
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
