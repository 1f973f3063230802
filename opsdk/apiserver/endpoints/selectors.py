"""Parses label and field selectors of queries.

Upstream: k8s.io/apimachinery/pkg/labels/selector.go, pkg/fields/selector.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from opsdk.apimachinery import validation
from opsdk.apimachinery.selectors import (
    FieldRequirement,
    FieldSelector,
    LabelRequirements,
    Requirement,
    SelectorOperator,
    check_terms,
    label_tokens,
)
from opsdk.apiserver import api_errors
from opsdk.errors import ApiError, UsageError

_MARKS = frozenset({"!=", "==", "=", "!", ",", "(", ")", ">", "<"})
_OPERATORS = {
    "=": SelectorOperator.EQUALS,
    "==": SelectorOperator.EQUALS,
    "!=": SelectorOperator.NOT_EQUALS,
    "in": SelectorOperator.IN,
    "notin": SelectorOperator.NOT_IN,
    ">": SelectorOperator.GREATER_THAN,
    "<": SelectorOperator.LESS_THAN,
}
T = TypeVar("T")
_PREFIX = "unable to parse requirement: "


def _bad_request(text: str) -> ApiError:
    return api_errors.bad_request(text)


def _counted(read: Callable[[str], T], text: str) -> T:
    """Return the result of `read`. Raises a 400 for too many terms. Deviates: upstream has no limit."""
    try:
        return read(text)
    except UsageError as error:
        raise _bad_request(str(error)) from None


def parse_labels(text: str) -> LabelRequirements:
    """Parse a label selector. Raises a 400."""
    return LabelRequirements(tuple(_LabelParser(text).parse()))


class _LabelParser:
    """A parser with one token of lookahead; error positions are upstream's."""

    def __init__(self, text: str) -> None:
        self._tokens = _counted(label_tokens, text)
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    @staticmethod
    def _word(word: str) -> bool:
        return bool(word) and word not in _MARKS

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            word = self._peek()
            if not word:
                return requirements
            if word != "!" and not self._word(word):
                raise _bad_request(f"found '{word}', expected: !, identifier, or 'end of string'")
            requirements.append(self._requirement())
            word = self._take()
            if not word:
                return requirements
            if word != ",":
                raise _bad_request(f"found '{word}', expected: ',' or 'end of string'")
            after = self._peek()
            if after != "!" and not self._word(after):
                raise _bad_request(f"found '{after}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        """Parse one requirement of a label selector. Raises 400 in upstream's words."""
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._take()
        if not self._word(key):
            raise _bad_request(f"{_PREFIX}found '{key}', expected: identifier")
        wrong = validation.qualified_name(key)
        if wrong:
            raise _bad_request(f"{_PREFIX}<nil>: Invalid value: {api_errors.quoted(key)}: {'; '.join(wrong)}")
        if negated:
            return Requirement(key, SelectorOperator.DOES_NOT_EXIST)
        if self._peek() in ("", ","):
            return Requirement(key, SelectorOperator.EXISTS)
        mark = self._take()
        if mark not in _OPERATORS:
            raise _bad_request(f"{_PREFIX}found '{mark}', expected: in, notin, =, ==, !=, gt, lt")
        operator = _OPERATORS[mark]
        values = self._values() if operator in (SelectorOperator.IN, SelectorOperator.NOT_IN) else (self._value(),)
        _check_values(key, operator, values)
        return Requirement(key, operator, values)

    def _value(self) -> str:
        word = self._peek()
        if word in ("", ","):
            return ""
        self._take()
        if not self._word(word):
            raise _bad_request(f"{_PREFIX}found '{word}', expected: identifier")
        return word

    def _values(self) -> tuple[str, ...]:
        """Parse the values of ``in`` or ``notin``. Raises 400 in upstream's words."""
        word = self._take()
        if word != "(":
            raise _bad_request(f"{_PREFIX}found '{word}' expected: '('")
        values: set[str] = set()
        first = self._peek()
        if not self._word(first) and first not in (",", ")"):
            raise _bad_request(f"{_PREFIX}found '{first}', expected: ',', ')' or identifier")
        while True:
            values.add(self._take() if self._word(self._peek()) else "")
            word = self._take()
            if word == ")":
                return tuple(sorted(values))
            if word != ",":
                raise _bad_request(f"{_PREFIX}found '{word}', expected: ',' or ')'")


def _check_values(key: str, operator: SelectorOperator, values: tuple[str, ...]) -> None:
    """Check the values of a label selector's requirement. Raises 400 in upstream's words."""
    invalid_values = []
    if operator in (SelectorOperator.GREATER_THAN, SelectorOperator.LESS_THAN):
        reason = "for 'Gt', 'Lt' operators, the value must be an integer"
        invalid_values += [
            (f"values[{i}]", value, reason)
            for i, value in enumerate(values)
            if not (bool(re.fullmatch(r"[-+]?[0-9]{1,19}", value)) and -(2**63) <= int(value) < 2**63)
        ]
    for index, value in enumerate(values):
        wrong = validation.label_value(value)
        if wrong:
            invalid_values.append((f"values[{index}][{key}]", value, "; ".join(wrong)))
    messages = [
        f"{location}: Invalid value: {api_errors.quoted(value)}: {reason}" for location, value, reason in invalid_values
    ]
    if messages:
        raise _bad_request(f"{_PREFIX}{messages[0] if len(messages) == 1 else '[' + ', '.join(messages) + ']'}")


_TERM = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.?)|([,=])", re.DOTALL)


def parse_fields(text: str) -> FieldSelector:
    """Parse a field selector. Raises a 400 for the first invalid term in sorted order."""
    _counted(check_terms, text)
    requirements: list[FieldRequirement] = []
    for part in sorted(re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL)):
        match = _TERM.fullmatch(part)
        if match is None:
            raise _bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        key, mark, value = match[1], match[2], _ESCAPED.sub(_unescaped, match[3])
        if key or value:
            requirements.append(FieldRequirement(key, value, mark == "!="))
    return FieldSelector(tuple(requirements))


def _unescaped(match: re.Match[str]) -> str:
    if match[2]:
        raise _bad_request(f"invalid field selector: unescaped character in value: {ord(match[2])}")
    if match[1] not in ("\\", ",", "=") or not match[1]:
        raise _bad_request(f"invalid field selector: invalid escape sequence: {match[0]}")
    return match[1]
