"""Cost functions that several libraries share.

Upstream: k8s.io/apiserver/pkg/cel/library/cost.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opsdk.cel.declarations import ONE, TRAVERSAL, CallEstimate, Cost, Estimate, Operand, Range, Sizes, scaled
from opsdk.cel.syntax import Literal
from opsdk.cel.types import TypeKind, Value
from opsdk.cel.values import CelObject, Listed, Mapped, size


def size_of(value: Value) -> int:
    """The size of a value that has one; else 1."""
    if isinstance(value, CelObject):
        return value.size()
    size_found = size(value)
    return 1 if size_found is None else size_found


def walk(argument: int, *, times: int = 1) -> Cost:
    """The cost of reading an argument's characters."""
    return lambda args, _: scaled(size_of(args[argument]), times * TRAVERSAL)


def unit(_: Sequence[Value], __: Value) -> int:
    """One."""
    return 1


def estimate_unit(_: Sizes, __: Sequence[Operand]) -> CallEstimate:
    """One."""
    return CallEstimate(ONE)


def estimate_walk(argument: int = 0, *, times: int = 1, keeps_size: bool = False) -> Estimate:
    """Estimates reading an argument's characters; the result may be as large as the argument."""

    def estimate(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
        operand_size = sizes.size(operands[argument])
        return CallEstimate(operand_size.scaled(times * TRAVERSAL), operand_size if keeps_size else None)

    return estimate


def traversal(value: Value) -> int:
    """The cost of reading a tree."""
    if isinstance(value, str):
        return int(len(value.encode()) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, Listed):
        return sum(map(traversal, value))
    if isinstance(value, Mapped):
        return sum(traversal(key) + traversal(one) for key, one in value.items())
    return 1


def walk_elements(args: Sequence[Value], _: Value) -> int:
    """The cost of comparing the elements of a list, or reading a text."""
    return traversal(args[0])


_TEXTS: Final = frozenset({TypeKind.STRING, TypeKind.BYTES})


def estimate_elements(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    """Estimates comparing the elements of a list, or reading a text."""
    target = operands[0]
    element = sizes.element(target)
    if element is None:
        return CallEstimate(sizes.size(target).scaled(TRAVERSAL))
    each = ONE
    if element.type.kind in _TEXTS:
        each += sizes.size(element).scaled(TRAVERSAL)
    return CallEstimate(sizes.size(target) * each)


def regex_cost(text: int, pattern: int) -> int:
    """The cost of running a regular expression, by the two sizes."""
    return scaled(text + 1, TRAVERSAL) * scaled(pattern, 0.25)


def estimate_regex(sizes: Sizes, operands: Sequence[Operand]) -> Range:
    """Estimates running the regular expression that is the second operand on the first."""
    text = (sizes.size(operands[0]) + ONE).scaled(TRAVERSAL)
    return text * sizes.size(operands[1]).scaled(0.25)


def literal_int(operand: Operand, default: int) -> int:
    """The value of a constant, or the default; it may be negative."""
    match operand.expr:
        case Literal(value=int(value)) if not isinstance(value, bool):
            return value
    return default
