"""Conditions on fields. Pure.

A field without value fulfils every negative condition, as in label selectors.

Upstream: github.com/rancher/steve/pkg/stores/sqlpartition/selection/operator.go
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from opsdk.norman.collections.field_path import Cell, FieldPath, texts


class FilterOperator(Enum):
    """The comparison of a condition."""

    EQUALS = "="
    """The value is this string."""
    NOT_EQUALS = "!="
    IN = "in"
    """The value is one of these strings."""
    NOT_IN = "notin"
    EXISTS = ""
    """The field has a value."""
    NOT_EXISTS = "!"


_POSITIVE = {
    FilterOperator.NOT_EQUALS: FilterOperator.EQUALS,
    FilterOperator.NOT_IN: FilterOperator.IN,
    FilterOperator.NOT_EXISTS: FilterOperator.EXISTS,
}


class FilterCondition(msgspec.Struct, frozen=True):
    """One condition on a field.

    Attributes:
        path: the field.
        operator: the comparison.
        values: the strings to compare with: none for existence, several for IN and NOT_IN only, sorted.
    """

    path: FieldPath
    operator: FilterOperator
    values: tuple[str, ...] = ()

    def test(self) -> Callable[[Cell], bool]:
        """Return the function that decides whether a cell fulfils the condition.

        >>> test = FilterCondition(("spec", "replicas"), FilterOperator.IN, ("3", "4")).test()
        >>> test(4), test(2), test(None)
        (True, False, False)
        """
        positive = self.positive()
        holds = _test(positive.operator, self.values)
        return holds if positive is self else lambda cell: not holds(cell)

    def positive(self) -> FilterCondition:
        """Return the negation of a negative condition; a positive condition is returned unchanged."""
        operator = _POSITIVE.get(self.operator)
        return self if operator is None else FilterCondition(self.path, operator, self.values)


OrFilter = tuple[FilterCondition, ...]
"""Alternatives: one of the conditions must hold."""


def _test(operator: FilterOperator, values: tuple[str, ...]) -> Callable[[Cell], bool]:
    """Return the test of a positive operator. Cells with one string, the usual case, take the fast path."""
    if operator is FilterOperator.EXISTS:
        return lambda cell: cell is not None
    contains = frozenset(values).__contains__

    def holds(cell: Cell) -> bool:
        if isinstance(cell, str):
            return contains(cell)
        return cell is not None and any(map(contains, texts(cell)))

    return holds
