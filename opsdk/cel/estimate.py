"""Estimates the cost range of an expression before its evaluation.

Upstream: github.com/google/cel-go/checker/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from opsdk.cel.checker import Checked, qualified_name
from opsdk.cel.declarations import (
    LIST_COST,
    MAP_COST,
    MOST,
    ONE,
    STRUCT_COST,
    UNKNOWN,
    CallEstimate,
    Operand,
    Overload,
    Range,
    exactly,
)
from opsdk.cel.macros import ACCUMULATOR, BIND_RANGE
from opsdk.cel.syntax import CallNode, Comprehension, Expr, Ident, ListOf, Literal, MapOf, Select, StructNode
from opsdk.cel.types import Type, TypeKind, is_optional

SizeHint = Callable[[tuple[str, ...]], Range | None]
"""Returns the size at a path: a variable's name, then field names, ``@items``, ``@keys`` or ``@values``."""

_FREE: Final = exactly(0)
_SCALARS: Final = frozenset(
    {TypeKind.BOOL, TypeKind.INT, TypeKind.UINT, TypeKind.DOUBLE, TypeKind.TIMESTAMP, TypeKind.DURATION}
)
_SELECTED: Final = frozenset({TypeKind.MAP, TypeKind.OBJECT, TypeKind.PARAM})


def estimate_cost(tree: Expr, checked: Checked, hint: SizeHint) -> Range:
    """Return the bounds of an evaluation's cost."""
    return _Estimator(checked, hint).visit(tree)


class _Contents(msgspec.Struct, frozen=True):
    """The sizes of a container's keys (or indices) and values."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: _Contents | None) -> _Contents | None:
        """Return the sizes that cover both."""
        return None if other is None else _Contents(self.is_list, self.key | other.key, self.value | other.value)


class _Local(msgspec.Struct, frozen=True):
    path: tuple[str, ...]
    size: Range | None
    contents: _Contents | None


class _Estimator:
    def __init__(self, checked: Checked, hint: SizeHint) -> None:
        self._checked = checked
        self._hint = hint
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Range] = {}
        self._contents: dict[int, _Contents] = {}
        self._locals: dict[str, list[_Local]] = {}

    def visit(self, node: Expr) -> Range:
        """Return the cost of a node, and record its size."""
        match node:
            case Literal():
                return _FREE
            case Ident():
                self._paths[node.id] = self._path(node) or (node.name.removeprefix("."),)
                return ONE
            case Select():
                return self._select(node)
            case CallNode():
                return self._call(node)
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)
            case StructNode():
                return sum((self.visit(entry.value) for entry in node.entries), exactly(STRUCT_COST))
            case Comprehension():
                if node.variable != BIND_RANGE or node.accumulator == ACCUMULATOR:
                    return self._fold(node)
                cost = self.visit(node.range) + self.visit(node.init)
                local = _Local(self._path(node.init), self._size(node.init), self._contained(node.init))
                self._push(node.accumulator, local)
                cost += self.visit(node.result)
                self._locals[node.accumulator].pop()
                self._copy(node, node.result)
                return cost

    def _select(self, node: Select) -> Range:
        if node.id in self._checked.variables or node.id in self._checked.constants:
            self._paths[node.id] = (qualified_name(node) or "",)
            return ONE
        cost = self.visit(node.operand)
        if node.test:
            return cost
        path = self._path(node.operand)
        self._paths[node.id] = (*path, node.field)
        return cost + ONE if self._type(node.operand).kind in _SELECTED else cost

    # -------------------------------------------------------------- calls
    def _call(self, node: CallNode) -> Range:
        """Return the cost of a call with its arguments, and keep the size of its result."""
        if node.function == "dyn":
            argument = self.visit(node.args[0])
            self._copy(node, node.args[0])
            return argument + ONE
        costs = [self.visit(arg) for arg in node.args]
        nodes: tuple[Expr, ...] = node.args
        extra = _FREE
        if node.target is not None and node.id not in self._checked.statics:
            extra = self.visit(node.target)
            nodes = (node.target, *nodes)
        name, overloads = self._checked.overloads[node.id]
        if name in _SPECIAL:
            return extra + _SPECIAL[name](self, node, costs)
        operands = [self._operand(one) for one in nodes]
        together = sum(costs, _FREE)
        cost: Range | None = None
        size: Range | None = None
        for overload in overloads:
            estimated = overload.estimate(self, operands) if overload.estimate is not None else None
            estimate = estimated if estimated is not None else CallEstimate(ONE)
            total = estimate.cost + together
            cost = total if cost is None else cost | total
            if estimate.size is not None:
                size = estimate.size if size is None else size | estimate.size
            size = self._indexed(node, overload, size)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[node.id] = size
        return extra + (cost if cost is not None else together + ONE)

    def _indexed(self, node: CallNode, overload: Overload, size: Range | None) -> Range | None:
        """Record the path of an indexed element and return its size."""
        step = {"index_list": "@items", "index_map": "@values"}.get(overload.id)
        if step is None:
            return size
        self._paths[node.id] = (*self._path(node.args[0]), step)
        contents = self._contained(node.args[0])
        return contents.value if contents is not None else None

    def logic(self, _: CallNode, costs: Sequence[Range]) -> Range:
        """Return the cost of a logical operator: the right operand may be skipped."""
        first, right = costs
        return Range(first.least, (first + right).most)

    def choice(self, node: CallNode, costs: Sequence[Range]) -> Range:
        """Return the cost of a condition and one of its branches."""
        _, yes, no = node.args
        self._sizes[node.id] = self.known_size(yes) | self.known_size(no)
        contents = self._contained(yes)
        both = contents.union(self._contained(no)) if contents is not None else None
        if both is not None:
            self._contents[node.id] = both
        return costs[0] + (costs[1] | costs[2])

    def plus(self, node: CallNode, costs: Sequence[Range]) -> Range:
        """Return the cost of ``+``: strings are copied, lists are not."""
        first, right = node.args
        _, overloads = self._checked.overloads[node.id]
        cost: Range | None = None
        size: Range | None = None
        for overload in overloads:
            own = ONE
            if overload.id in ("add_string", "add_bytes", "add_list"):
                total = self.known_size(first) + self.known_size(right)
                size = total if size is None else size | total
                own = ONE if overload.id == "add_list" else total.scaled(0.1)
                contents = self._contained(first)
                both = contents.union(self._contained(right)) if contents is not None else None
                if both is not None:
                    self._contents[node.id] = both
            cost = own if cost is None else cost | own
        if size is None:
            size = self._size(node)
        if size is not None:
            self._sizes[node.id] = size
        return (cost or ONE) + costs[0] + costs[1]

    # -------------------------------------------------------------- aggregates
    def _list(self, node: ListOf) -> Range:
        cost = exactly(LIST_COST)
        inside: Range | None = None
        for element in node.elements:
            cost += self.visit(element)
            size = self.known_size(element)
            inside = size if inside is None else inside | size
        self._contents[node.id] = _Contents(is_list=True, key=ONE, value=inside or _FREE)
        return cost

    def _map(self, node: MapOf) -> Range:
        cost = exactly(MAP_COST)
        keys: Range | None = None
        values: Range | None = None
        for entry in node.entries:
            assert not isinstance(entry.key, str)
            cost += self.visit(entry.key) + self.visit(entry.value)
            key, value = self.known_size(entry.key), self.known_size(entry.value)
            keys = key if keys is None else keys | key
            values = value if values is None else values | value
        self._contents[node.id] = _Contents(is_list=False, key=keys or _FREE, value=values or _FREE)
        return cost

    # -------------------------------------------------------------- comprehensions
    def _fold(self, node: Comprehension) -> Range:
        """Return the cost of a comprehension: its steps, as often as its range may have elements."""
        cost = self.visit(node.range) + self.visit(node.init)
        self._push(node.accumulator, _Local(self._path(node.init), self._size(node.init), self._contained(node.init)))
        names = self._push_variables(node)
        each = self.visit(node.condition) + self.visit(node.step)
        for name in names:
            self._locals[name].pop()
        cost += self.visit(node.result)
        self._locals[node.accumulator].pop()
        times = self.known_size(node.range)
        match node.init:
            case Literal():
                size = self._size(node.init)
                if size is not None:
                    self._sizes[node.id] = size
            case ListOf() | MapOf():
                self._sizes[node.id] = times
                contents = self._contained(node.step)
                if contents is not None:
                    self._contents[node.id] = contents
        return cost + times * each

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _push_variables(self, node: Comprehension) -> list[str]:
        contents = self._contained(node.range)
        path = self._path(node.range)
        is_list = contents.is_list if contents is not None else self._type(node.range).kind is TypeKind.LIST
        key = _Local((*path, "@indices" if is_list else "@keys"), None if contents is None else contents.key, None)
        value = _Local((*path, "@items" if is_list else "@values"), None if contents is None else contents.value, None)
        if node.second is None:
            self._push(node.variable, value if is_list else key)
            return [node.variable]
        self._push(node.variable, key)
        self._push(node.second, value)
        return [node.variable, node.second]

    # -------------------------------------------------------------- Sizes
    def size(self, operand: Operand) -> Range:
        if operand.size is not None:
            return operand.size
        return (self._hint(operand.path) if operand.path else None) or UNKNOWN

    def element(self, operand: Operand) -> Operand | None:
        if not operand.type.params:
            return None
        path = (*operand.path, "@items") if operand.path else ()
        return Operand(path, operand.type.params[0], None, None)

    def _operand(self, node: Expr) -> Operand:
        path = self._path(node)
        known_path = () if path and path[0] == ACCUMULATOR else path
        return Operand(known_path, self._type(node), node, self._size(node))

    def known_size(self, node: Expr) -> Range:
        """Return the size of a node, or `UNKNOWN`."""
        return self._size(node) or UNKNOWN

    def _type(self, node: Expr) -> Type:
        return self._checked.types[node.id]

    def _local(self, node: Expr) -> _Local | None:
        if isinstance(node, Ident):
            stack = self._locals.get(node.name)
            if stack:
                return stack[-1]
        return None

    def _path(self, node: Expr) -> tuple[str, ...]:
        local = self._local(node)
        return local.path if local is not None else self._paths.get(node.id, ())

    def _size(self, node: Expr) -> Range | None:
        size = self._sizes.get(node.id) or _written_size(node)
        if size is not None:
            return size
        path = self._path(node)
        hinted = self._hint(path) if path else None
        if hinted is not None:
            self._sizes[node.id] = hinted
            return hinted
        if _is_scalar(self._type(node)):
            return ONE
        local = self._local(node)
        return local.size if local is not None else None

    def _contained(self, node: Expr) -> _Contents | None:
        content = self._contents.get(node.id)
        if content is not None:
            return content
        local = self._local(node)
        return local.contents if local is not None else None

    def _copy(self, to: Expr, source: Expr) -> None:
        size, contents = self._size(source), self._contained(source)
        if size is not None:
            self._sizes[to.id] = size
        if contents is not None:
            self._contents[to.id] = contents


def _written_size(node: Expr) -> Range | None:
    match node:
        case Literal(value=str() | bytes()):
            return exactly(len(node.value))
        case Literal():
            return ONE
        case ListOf():
            return exactly(len(node.elements))
        case MapOf():
            return exactly(len(node.entries))
    return None


def _is_scalar(type_: Type) -> bool:
    return type_.kind in _SCALARS or (is_optional(type_) and _is_scalar(type_.params[0]))


_SPECIAL: Final[dict[str, Callable[[Any, CallNode, Sequence[Range]], Range]]] = {
    "_&&_": _Estimator.logic,
    "_||_": _Estimator.logic,
    "_?_:_": _Estimator.choice,
    "_+_": _Estimator.plus,
}

__all__ = ["MOST", "SizeHint", "estimate_cost"]
