"""The filter language: conditions on fields, a comma between alternatives. Pure.

Upstream: github.com/rancher/steve/pkg/stores/sqlpartition/queryparser/selector.go, selection/operator.go
Deviates: a field may be tested for existence wherever it is, values in parentheses may be quoted, and numbers may have
fractions. A field without value fulfils every negative condition, as in label selectors.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from enum import Enum

import msgspec

from opsdk.errors import NormanError
from opsdk.norman.steve.field_path import Cell, FieldPath, format_path, parse_path, texts


class FilterOperator(Enum):
    """The comparison of a condition. The value is its spelling."""

    EQUALS = "="
    """The value is this text; ``==`` is the same."""
    NOT_EQUALS = "!="
    CONTAINS = "~"
    """The value contains this text."""
    NOT_CONTAINS = "!~"
    IN = "in"
    """The value is one of these texts."""
    NOT_IN = "notin"
    LESS = "<"
    """The value is a number below this one."""
    GREATER = ">"
    EXISTS = ""
    """The field has a value."""
    NOT_EXISTS = "!"


_SPELLINGS = {op.value: op for op in FilterOperator if op not in (FilterOperator.EXISTS, FilterOperator.NOT_EXISTS)} | {
    "==": FilterOperator.EQUALS,
    "lt": FilterOperator.LESS,
    "gt": FilterOperator.GREATER,
    "contains": FilterOperator.CONTAINS,
    "notcontains": FilterOperator.NOT_CONTAINS,
}
_POSITIVE = {
    FilterOperator.NOT_EQUALS: FilterOperator.EQUALS,
    FilterOperator.NOT_CONTAINS: FilterOperator.CONTAINS,
    FilterOperator.NOT_IN: FilterOperator.IN,
    FilterOperator.NOT_EXISTS: FilterOperator.EXISTS,
}
_SET_OPERATORS = (FilterOperator.IN, FilterOperator.NOT_IN)
_NUMBERS = (FilterOperator.LESS, FilterOperator.GREATER)
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_PLAIN_VALUE = re.compile(r"[^\s=!(),<>~\"'\\\[\]]+")
# A field name, with brackets around names that have operators or white space in them.
_FIELD = re.compile(r"(?:\[[^\]]*\]|[^\s=!(),<>~\"'\[\]])+")
_SYMBOL = re.compile(r"==|!=|!~|=|~|<|>|(?:notcontains|contains|notin|in|lt|gt)(?=[\s(\"'])", re.IGNORECASE)
_SPACE = re.compile(r"\s*")


class FilterCondition(msgspec.Struct, frozen=True):
    """One condition on a field.

    Attributes:
        path: the field.
        operator: the comparison.
        values: the texts to compare with: none for existence, several for IN and NOT_IN only, sorted.
    """

    path: FieldPath
    operator: FilterOperator
    values: tuple[str, ...] = ()

    def test(self) -> Callable[[Cell], bool]:
        """Return the function that decides whether a cell fulfils the condition.

        >>> test = parse_filter("spec.replicas>3")[0].test()
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
        if self.operator in _SET_OPERATORS:
            return f"{field} {self.operator.value} ({','.join(map(_quoted, self.values))})"
        return f"{field}{self.operator.value}{_quoted(self.values[0])}"


class OrFilter(tuple[FilterCondition, ...]):
    """Alternatives: one of the conditions must hold. It prints as the parameter's value."""

    __slots__ = ()

    def __str__(self) -> str:
        return ",".join(map(str, self))


def _test(operator: FilterOperator, values: tuple[str, ...]) -> Callable[[Cell], bool]:
    """Return the test of a positive operator. Cells with one text, the usual case, take the fast path."""
    if operator is FilterOperator.EXISTS:
        return lambda cell: cell is not None
    compare = _comparison(operator, values)

    def holds(cell: Cell) -> bool:
        if isinstance(cell, str):
            return compare(cell)
        return cell is not None and any(map(compare, texts(cell)))

    return holds


def _comparison(operator: FilterOperator, values: tuple[str, ...]) -> Callable[[str], bool]:
    if operator is FilterOperator.EQUALS:
        return values[0].__eq__
    if operator is FilterOperator.IN:
        return frozenset(values).__contains__
    if operator is FilterOperator.CONTAINS:
        part = values[0]
        return lambda text: part in text
    bound, less = float(values[0]), operator is FilterOperator.LESS

    def compares(text: str) -> bool:
        if not _NUMBER.fullmatch(text):
            return False
        return float(text) < bound if less else float(text) > bound

    return compares


def _quoted(value: str) -> str:
    if _PLAIN_VALUE.fullmatch(value):
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


def parse_filter(text: str, *, conditions: int = sys.maxsize, values: int = sys.maxsize) -> OrFilter:
    """Read one value of the parameter ``filter``.

    >>> str(parse_filter("metadata.name in (b, a), !metadata.labels[example.org/x]"))
    'metadata.name in (a,b),!metadata.labels[example.org/x]'

    Args:
        text: the filter.
        conditions: most conditions.
        values: most values of all conditions.

    Raises:
        NormanError: the text is not valid or has too many of them, with status 400 and the position.
    """
    return _Parser(text, conditions, values).parse()


class _Parser:
    """Reads one filter from left to right."""

    def __init__(self, text: str, conditions: int, values: int) -> None:
        self._text = text
        self._position = 0
        self._conditions_left = conditions
        self._values_left = values

    def parse(self) -> OrFilter:
        """Read all alternatives."""
        conditions = [self._condition()]
        while self._accept(","):
            conditions.append(self._condition())
        self._skip_space()
        if self._position < len(self._text):
            raise self._expected("',' or the end")
        return OrFilter(conditions)

    def _condition(self) -> FilterCondition:
        self._conditions_left -= 1
        if self._conditions_left < 0:
            raise self._error("the filters of the request have too many conditions: use 'in' with several values")
        if self._accept("!"):
            return FilterCondition(self._field(), FilterOperator.NOT_EXISTS)
        path = self._field()
        self._skip_space()
        match = _SYMBOL.match(self._text, self._position)
        if match is None:
            return FilterCondition(path, FilterOperator.EXISTS)
        self._position = match.end()
        operator = _SPELLINGS[match.group().lower()]
        if operator in _SET_OPERATORS:
            return FilterCondition(path, operator, self._values())
        start = self._position
        value = self._value()
        if operator in _NUMBERS and not _NUMBER.fullmatch(value):
            self._position = start
            raise self._error(f"{operator.value!r} needs a number, not {value!r}")
        return FilterCondition(path, operator, (value,))

    def _field(self) -> FieldPath:
        self._skip_space()
        match = _FIELD.match(self._text, self._position)
        if match is None:
            raise self._expected("a field")
        try:
            path = parse_path(match.group())
        except ValueError as error:
            raise self._error(str(error)) from error
        self._position = match.end()
        return path

    def _values(self) -> tuple[str, ...]:
        if not self._accept("("):
            raise self._expected("'('")
        values = {self._value()}
        while self._accept(","):
            values.add(self._value())
        if not self._accept(")"):
            raise self._expected("',' or ')'")
        return tuple(sorted(values))

    def _value(self) -> str:
        self._values_left -= 1
        if self._values_left < 0:
            raise self._error("the filters of the request have too many values")
        self._skip_space()
        if self._text[self._position : self._position + 1] in ("'", '"'):
            return self._quoted_value()
        match = _PLAIN_VALUE.match(self._text, self._position)
        if match is None:
            raise self._expected('a value (quote an empty one, and one with other characters, such as "a,b")')
        self._position = match.end()
        return match.group()

    def _quoted_value(self) -> str:
        quote, start = self._text[self._position], self._position
        position, characters = start + 1, []
        while position < len(self._text) and self._text[position] != quote:
            if self._text[position] == "\\":
                position += 1
            characters.append(self._text[position : position + 1])
            position += 1
        if position >= len(self._text):
            raise self._error(f"the quote is not closed: add {quote}")
        self._position = position + 1
        return "".join(characters)

    def _accept(self, symbol: str) -> bool:
        self._skip_space()
        accepted = self._text.startswith(symbol, self._position)
        self._position += len(symbol) if accepted else 0
        return accepted

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._position)
        assert match is not None  # an empty value also matches nothing
        self._position = match.end()

    def _expected(self, symbol: str) -> NormanError:
        rest = self._text[self._position : self._position + 20]
        return self._error(f"expected {symbol}, not {repr(rest) if rest else 'the end'}")

    def _error(self, reason: str) -> NormanError:
        return query_error("filter", self._position, reason)
