"""The filter language of ``/v1``: a comma between alternatives. Pure.

Upstream: github.com/rancher/steve/pkg/stores/sqlpartition/queryparser/selector.go
Deviates: a field may be tested for existence wherever it is, values in parentheses may be quoted, and numbers may have
fractions.
"""

from __future__ import annotations

import re
import sys

from opsdk.norman.collections.field_path import FieldPath, parse_path
from opsdk.norman.collections.filter import (
    NUMBER,
    NUMBERS,
    PLAIN_VALUE,
    SET_OPERATORS,
    FilterCondition,
    FilterOperator,
    OrFilter,
    query_error,
)
from opsdk.norman.errors import NormanError

_SPELLINGS = {op.value: op for op in FilterOperator if op not in (FilterOperator.EXISTS, FilterOperator.NOT_EXISTS)} | {
    "==": FilterOperator.EQUALS,
    "lt": FilterOperator.LESS,
    "gt": FilterOperator.GREATER,
    "contains": FilterOperator.CONTAINS,
    "notcontains": FilterOperator.NOT_CONTAINS,
}
# A field name, with brackets around names that have operators or white space in them.
_FIELD = re.compile(r"(?:\[[^\]]*\]|[^\s=!(),<>~\"'\[\]]++)++")
_SYMBOL = re.compile(r"==|!=|!~|=|~|<|>|(?:notcontains|contains|notin|in|lt|gt)(?=[\s(\"'])", re.IGNORECASE)
_SPACE = re.compile(r"\s*")


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
    """Reads one filter from left to right. Its limits count the conditions and values that are left for the request."""

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
        """Read one condition: a field, and an operator with its values; without an operator, the field must exist."""
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
        if operator in SET_OPERATORS:
            return FilterCondition(path, operator, self._values())
        start = self._position
        value = self._value()
        if operator in NUMBERS and not NUMBER.fullmatch(value):
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
        match = PLAIN_VALUE.match(self._text, self._position)
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
