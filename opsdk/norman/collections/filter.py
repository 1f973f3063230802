"""Conditions on fields. Pure.

A field without value fulfils every negative condition, as in label selectors.

Upstream: github.com/rancher/steve/pkg/stores/sqlpartition/selection/operator.go
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

import msgspec

from opsdk.norman.collections.field_path import Cell, FieldPath, format_path, texts
from opsdk.norman.errors import NormanError


class FilterOperator(Enum):
    """The comparison of a condition. The value is its spelling."""

    EQUALS = "="
    """The value is this string; ``==`` is the same."""
    NOT_EQUALS = "!="
    CONTAINS = "~"
    """The value contains this string."""
    NOT_CONTAINS = "!~"
    IN = "in"
    """The value is one of these strings."""
    NOT_IN = "notin"
    LESS = "<"
    """The value is a number below this one."""
    GREATER = ">"
    EXISTS = ""
    """The field has a value."""
    NOT_EXISTS = "!"


_POSITIVE = {
    FilterOperator.NOT_EQUALS: FilterOperator.EQUALS,
    FilterOperator.NOT_CONTAINS: FilterOperator.CONTAINS,
    FilterOperator.NOT_IN: FilterOperator.IN,
    FilterOperator.NOT_EXISTS: FilterOperator.EXISTS,
}
SET_OPERATORS = (FilterOperator.IN, FilterOperator.NOT_IN)
NUMBERS = (FilterOperator.LESS, FilterOperator.GREATER)
NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
PLAIN_VALUE = re.compile(r"[^\s=!(),<>~\"'\\\[\]]+")


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

        >>> test = FilterCondition(("spec", "replicas"), FilterOperator.GREATER, ("3",)).test()
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

    def __str__(self) -> str:
        field = format_path(self.path)
        if self.operator in (FilterOperator.EXISTS, FilterOperator.NOT_EXISTS):
            return f"{self.operator.value}{field}"
        if self.operator in SET_OPERATORS:
            return f"{field} {self.operator.value} ({','.join(map(_quoted, self.values))})"
        return f"{field}{self.operator.value}{_quoted(self.values[0])}"


class OrFilter(tuple[FilterCondition, ...]):
    """Alternatives: one of the conditions must hold. It prints as the parameter's value."""

    __slots__ = ()

    def __str__(self) -> str:
        return ",".join(map(str, self))


def _test(operator: FilterOperator, values: tuple[str, ...]) -> Callable[[Cell], bool]:
    """Return the test of a positive operator. Cells with one string, the usual case, take the fast path."""
    if operator is FilterOperator.EXISTS:
        return lambda cell: cell is not None
    compare = _comparison(operator, values)

    def holds(cell: Cell) -> bool:
        if isinstance(cell, str):
            return compare(cell)
        return cell is not None and any(map(compare, texts(cell)))

    return holds


def _comparison(operator: FilterOperator, values: tuple[str, ...]) -> Callable[[str], bool]:
    """Return the test of one string. A string that is not a number is neither less nor greater than one."""
    if operator is FilterOperator.EQUALS:
        return values[0].__eq__
    if operator is FilterOperator.IN:
        return frozenset(values).__contains__
    if operator is FilterOperator.CONTAINS:
        part = values[0]
        return lambda text: part in text
    bound, less = float(values[0]), operator is FilterOperator.LESS

    def compares(text: str) -> bool:
        if not NUMBER.fullmatch(text):
            return False
        return float(text) < bound if less else float(text) > bound

    return compares


def _quoted(value: str) -> str:
    if PLAIN_VALUE.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def query_error(parameter: str, position: int, reason: str) -> NormanError:
    """Return the error of a parameter that does not parse: status 400, code ``InvalidFormat``.

    >>> query_error("filter", 3, "a value is missing").message
    "parameter 'filter', position 3: a value is missing"
    """
    message = f"parameter {parameter!r}, position {position}: {reason}"
    return NormanError(message, status=400, code="InvalidFormat", field_name=parameter)
