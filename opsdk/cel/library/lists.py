"""List libraries: Kubernetes' functions (``sum``, ``isSorted``), cel-go's lists extension, and sets.

Upstream: k8s.io/apiserver/pkg/cel/library/lists.go, github.com/google/cel-go/ext/lists.go, ext/sets.go.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from itertools import pairwise
from typing import Final

from opsdk.cel.declarations import (
    LIST_COST,
    MOST,
    ONE,
    TRAVERSAL,
    CallEstimate,
    Cost,
    Estimate,
    Library,
    Operand,
    Overload,
    Range,
    Sizes,
    exactly,
    function,
    method,
)
from opsdk.cel.errors import CelBudgetError, CelEvaluationError
from opsdk.cel.library.costs import estimate_elements, literal_int, walk_elements
from opsdk.cel.macros import SORTING
from opsdk.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    TypeKind,
    Value,
    list_of,
    param,
)
from opsdk.cel.values import Duration, Listed, UInt, compare, contains, equal, kind_of, no_such_overload

_T: Final = param("T")
_LIST: Final = list_of(_T)
_ORDERED: Final = {
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "bool": BOOL,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "string": STRING,
    "bytes": BYTES,
}
_READ: Final = {"cost": walk_elements, "estimate": estimate_elements}


# ------------------------------------------------------------------ Kubernetes' own
def _int_sum(one: int, other: int) -> int:
    total = one + other
    if not -(2**63) <= total < 2**63:
        raise CelEvaluationError("integer overflow")
    return total


def _uint_sum(one: int, other: int) -> UInt:
    total = int(one) + int(other)
    if total >= 2**64:
        raise CelEvaluationError("unsigned integer overflow")
    return UInt(total)


_PLUS: Final[dict[TypeKind, Callable[[Value, Value], Value]]] = {
    TypeKind.INT: _int_sum,
    TypeKind.UINT: _uint_sum,
    TypeKind.DOUBLE: operator.add,
    TypeKind.DURATION: lambda one, other: Duration(_int_sum(one.nanoseconds, other.nanoseconds)),
}
_ZEROS: Final[dict[str, tuple[Type, Value]]] = {
    "int": (INT, 0),
    "uint": (UINT, UInt(0)),
    "double": (DOUBLE, 0.0),
    "duration": (DURATION, Duration(0)),
}


def _summing(zero: Value) -> Callable[[Sequence[Value]], Value]:
    """Sum by the type of the elements; `zero` for an empty list."""

    def total(elements: Sequence[Value]) -> Value:
        if not elements:
            return zero
        plus = _PLUS.get(kind_of(elements[0]))
        if plus is None:
            raise CelEvaluationError("no such overload: sum(list)")
        total_value = elements[0]
        for element in elements[1:]:
            if kind_of(element) is not kind_of(total_value):
                raise no_such_overload()
            total_value = plus(total_value, element)
        return total_value

    return total


def _extreme(name: str, sign: int) -> Callable[[Sequence[Value]], Value]:
    def find(elements: Sequence[Value]) -> Value:
        if not elements:
            raise CelEvaluationError(f"{name} called on empty list")
        extreme = elements[0]
        for element in elements[1:]:
            if compare(element, extreme) == sign:
                extreme = element
        return extreme

    return find


def _ordered(form: str, result: Callable[[Type], Type], call: Callable[..., Value]) -> list[Overload]:
    return [
        method(form.format(name), (list_of(type_),), result(type_), call, **_READ) for name, type_ in _ORDERED.items()
    ]


KUBERNETES_LISTS: Final = Library(
    functions={
        "isSorted": _ordered(
            "list_{}_is_sorted_bool",
            lambda _: BOOL,
            lambda elements: all(compare(one, other) <= 0 for one, other in pairwise(elements)),
        ),
        "sum": [
            method(f"list_{name}_sum_{name}", (list_of(type_),), type_, _summing(zero), **_READ)
            for name, (type_, zero) in _ZEROS.items()
        ],
        "min": _ordered("list_{}_min", lambda type_: type_, _extreme("min", -1)),
        "max": _ordered("list_{}_max", lambda type_: type_, _extreme("max", 1)),
        "indexOf": [
            method(
                "list_a_index_of_int",
                (_LIST, _T),
                INT,
                lambda elements, value: next((i for i, element in enumerate(elements) if equal(element, value)), -1),
                **_READ,
            )
        ],
        "lastIndexOf": [
            method(
                "list_a_last_index_of_int",
                (_LIST, _T),
                INT,
                lambda elements, value: next(
                    (i for i in reversed(range(len(elements))) if equal(elements[i], value)), -1
                ),
                **_READ,
            )
        ],
    }
)
"""The list functions of Kubernetes."""


# ------------------------------------------------------------------ the lists extension
def _slice(elements: Sequence[Value], start: int, end: int) -> list[Value]:
    where = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelEvaluationError(f"{where}, negative indexes not supported")
    if start > end:
        raise CelEvaluationError(f"{where}, start index must be less than or equal to end index")
    if len(elements) < end:
        raise CelEvaluationError(f"{where}, list is length {len(elements)}")
    return list(elements[start:end])


def _flatten(elements: Sequence[Value], depth: int = 1) -> list[Value]:
    if depth < 0:
        raise CelEvaluationError("level must be non-negative")
    flat: list[Value] = []
    for element in elements:
        if depth and isinstance(element, Listed):
            flat.extend(_flatten(element, depth - 1))
        else:
            flat.append(element)
    return flat


def _sort_by_keys(elements: Sequence[Value], keys: Sequence[Value]) -> list[Value]:
    if len({kind_of(key) for key in keys}) > 1:
        raise CelEvaluationError("list elements must have the same type")
    order = cmp_to_key(compare)
    indices = sorted(range(len(elements)), key=lambda index: order(keys[index]))
    return [elements[index] for index in indices]


_LONGEST_RANGE: Final = 10_000_000


def _range(count: int) -> list[int]:
    if count > _LONGEST_RANGE:
        raise CelBudgetError("operation cancelled: actual cost limit exceeded")
    if count < 0:
        raise CelEvaluationError(f"lists.range: size must be non-negative, got {count}")
    return list(range(count))


def _distinct(elements: Sequence[Value]) -> list[Value]:
    unique: list[Value] = []
    for element in elements:
        if not contains(unique, element):
            unique.append(element)
    return unique


def _made(factor: float, size: Range) -> CallEstimate:
    """Estimate a call that creates a list of this size."""
    return CallEstimate(size.scaled(factor) + exactly(LIST_COST + 1), size)


def _making(factor: float, size: int) -> int:
    return int(size * factor) + LIST_COST + 1


def _estimate_slice(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    most = sizes.size(operands[0]).most
    start, end = max(literal_int(operands[1], 0), 0), literal_int(operands[2], most)
    end = most if end < 0 else end
    # Upstream subtracts unsigned numbers, so a negative result wraps around.
    return _made(1, exactly(end - start if end >= start else MOST))


def _estimate_flatten(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    depth = literal_int(operands[1], MOST) if len(operands) > 1 else 1
    return _made(max(depth, 0), sizes.size(operands[0]))


def _estimate_pairs(argument: int, type_: Type | None = None) -> Estimate:
    factor = 2.0 + (TRAVERSAL if type_ in (STRING, BYTES) else 0)

    def estimate(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
        size = sizes.size(operands[argument])
        return _made(factor, size * size)

    return estimate


def _result_cost(_: Sequence[Value], result: Value) -> int:
    return _making(1, len(result))


def _flatten_cost(args: Sequence[Value], _: Value) -> int:
    return _making(args[1] if len(args) > 1 else 1, len(args[0]))


def _pairs_cost(argument: int) -> Cost:
    def cost(args: Sequence[Value], _: Value) -> int:
        elements = args[argument]
        text = bool(elements) and isinstance(elements[0], str | bytes)
        return _making(2.0 + (TRAVERSAL if text else 0), len(elements) ** 2)

    return cost


def _sorting(id_: str, type_: Type) -> Overload:
    of = list_of(type_)
    return method(
        id_,
        (of,),
        of,
        lambda elements: _sort_by_keys(elements, elements),
        cost=_pairs_cost(0),
        estimate=_estimate_pairs(0, type_),
    )


def _sorting_by(id_: str, type_: Type) -> Overload:
    params = (_LIST, list_of(type_))
    return method(id_, params, _LIST, _sort_by_keys, cost=_pairs_cost(1), estimate=_estimate_pairs(1, type_))


_FLATTEN: Final = {"cost": _flatten_cost, "estimate": _estimate_flatten}

LISTS_LIBRARY: Final = Library(
    functions={
        "slice": [method("list_slice", (_LIST, INT, INT), _LIST, _slice, cost=_result_cost, estimate=_estimate_slice)],
        "flatten": [
            method("list_flatten", (list_of(_LIST),), _LIST, _flatten, **_FLATTEN),
            method("list_flatten_int", (list_of(DYN), INT), list_of(DYN), _flatten, **_FLATTEN),
        ],
        "sort": [_sorting(f"list_{name}_sort", type_) for name, type_ in _ORDERED.items()],
        "@sortByAssociatedKeys": [
            _sorting_by(f"list_{name}_sortByAssociatedKeys", type_) for name, type_ in _ORDERED.items()
        ],
        "lists.range": [
            function(
                "lists_range",
                (INT,),
                list_of(INT),
                _range,
                cost=_result_cost,
                estimate=lambda _, operands: _made(1, exactly(max(literal_int(operands[0], MOST), 0))),
            )
        ],
        "reverse": [
            method(
                "list_reverse",
                (_LIST,),
                _LIST,
                lambda one: one[::-1],
                cost=_result_cost,
                estimate=lambda sizes, operands: _made(1, sizes.size(operands[0])),
            )
        ],
        "distinct": [
            method("list_distinct", (_LIST,), _LIST, _distinct, cost=_pairs_cost(0), estimate=_estimate_pairs(0))
        ],
    },
    macros=SORTING,
)
"""The lists extension, version 3."""


# ------------------------------------------------------------------ sets
def _sets_contain(elements: Sequence[Value], others: Sequence[Value]) -> bool:
    return all(contains(elements, other) for other in others)


def _sets(name: str, factor: float, call: Callable[..., bool]) -> list[Overload]:
    def cost(args: Sequence[Value], _: Value) -> int:
        return int(len(args[0]) * len(args[1]) * factor) + 1

    def estimate(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
        pairs = sizes.size(operands[0]) * sizes.size(operands[1])
        return CallEstimate(pairs.scaled(factor) + ONE)

    return [function(f"list_sets_{name}_list", (_LIST, _LIST), BOOL, call, cost=cost, estimate=estimate)]


SETS_LIBRARY: Final = Library(
    functions={
        "sets.contains": _sets("contains", 1, _sets_contain),
        "sets.equivalent": _sets(
            "equivalent", 2, lambda one, other: _sets_contain(one, other) and _sets_contain(other, one)
        ),
        "sets.intersects": _sets("intersects", 1, lambda one, other: any(contains(other, element) for element in one)),
    }
)
"""The sets extension."""
