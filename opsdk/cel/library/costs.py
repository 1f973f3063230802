"""Cost functions that several libraries share.

Upstream: k8s.io/apiserver/pkg/cel/library/cost.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opsdk.cel.declarations import (
    ONE,
    REGEX_FACTOR,
    TRAVERSAL,
    CallEstimate,
    Cost,
    Estimate,
    Operand,
    Range,
    Sizes,
    scaled,
)
from opsdk.cel.syntax import Literal
from opsdk.cel.types import TypeKind, Value
from opsdk.cel.values import CelObject, Listed, Mapped, size


def size_of(value: Value) -> int:
    """Return the size of a value; 1 without a size."""
    if isinstance(value, CelObject):
        return value.size()
    size_found = size(value)
    return 1 if size_found is None else size_found


def walk(argument: int, *, times: int = 1) -> Cost:
    """Return the cost function of traversing an argument."""
    return lambda args, _: scaled(size_of(args[argument]), times * TRAVERSAL)


def unit(_: Sequence[Value], __: Value) -> int:
    """Return one."""
    return 1


def estimate_unit(_: Sizes, __: Sequence[Operand]) -> CallEstimate:
    """Return one."""
    return CallEstimate(ONE)


def estimate_walk(argument: int = 0, *, times: int = 1, keeps_size: bool = False) -> Estimate:
    """Return the estimate of traversing an argument; with `keeps_size` the result has at most its size."""

    def estimate(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
        operand_size = sizes.size(operands[argument])
        return CallEstimate(operand_size.scaled(times * TRAVERSAL), operand_size if keeps_size else None)

    return estimate


def traversal(value: Value) -> int:
    """Return the cost of traversing a nested value."""
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
    """Return the cost of comparing the elements of a list, or of traversing a string."""
    return traversal(args[0])


_TEXTS: Final = frozenset({TypeKind.STRING, TypeKind.BYTES})


def estimate_elements(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    """Estimate the comparison of a list's elements, or the traversal of a string."""
    target = operands[0]
    element = sizes.element(target)
    if element is None:
        return CallEstimate(sizes.size(target).scaled(TRAVERSAL))
    each = ONE
    if element.type.kind in _TEXTS:
        each += sizes.size(element).scaled(TRAVERSAL)
    return CallEstimate(sizes.size(target) * each)


def regex_cost(text: int, pattern: int) -> int:
    """Return the cost of matching a regular expression, by both sizes."""
    return scaled(text + 1, TRAVERSAL) * scaled(pattern, REGEX_FACTOR)


def estimate_regex(sizes: Sizes, operands: Sequence[Operand]) -> Range:
    """Estimate matching the first operand with the regular expression in the second."""
    text = (sizes.size(operands[0]) + ONE).scaled(TRAVERSAL)
    return text * sizes.size(operands[1]).scaled(REGEX_FACTOR)


def literal_int(operand: Operand, default: int) -> int:
    """Return the value of a constant, which may be negative, or the default."""
    match operand.expr:
        case Literal(value=int(value)) if not isinstance(value, bool):
            return value
    return default
