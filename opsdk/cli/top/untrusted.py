"""Reads values of debug pages that may have any form. Pure.

A page shows names and error messages that users and servers chose. So every text loses its control characters and its
length before anything else sees it, and a value of a wrong type counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, TypeVar, get_args

import msgspec

S = TypeVar("S", bound=msgspec.Struct)

MAX_ROWS = 500
"""Rows of a page that are read."""
_MAX_TEXT = 2000
# Texts in a list of a row, such as the frames of a stack, and characters of each.
_MAX_ITEMS = 50
_MAX_ITEM = 300
_MAX_NUMBER = 1e15
_REPLACEMENT = "\ufffd"


def clean(value: object, limit: int = _MAX_TEXT) -> str:
    r"""Return a text in one line that a terminal may show; empty for anything but a string.

    >>> clean("a\x1b[31mb\nc\u202e") == "a\ufffd[31mb c\ufffd"
    True
    """
    if not isinstance(value, str):
        return ""
    text = value[:limit]
    if not text.isprintable():
        # Control and format characters begin escape sequences and change the direction of a line. White space is kept.
        unprintable = {char for char in set(text) if not char.isprintable()}
        text = text.translate({ord(char): " " if char.isspace() else _REPLACEMENT for char in unprintable})
    return f"{text}…" if len(value) > limit else text


def number(value: object) -> float | None:
    """Return a finite number, at most 1e15; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return None
    # An integer of a page may be too large for a float.
    return float(max(-_MAX_NUMBER, min(_MAX_NUMBER, value)))


def mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """Iterate over the objects of a list, at most 500; over nothing if it is no list."""
    for row in islice(value, MAX_ROWS) if isinstance(value, list) else ():
        if isinstance(row, dict):
            yield row


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def counts(value: object) -> dict[str, int]:
    """Return the numbers of an object by clean names, at most 50."""
    pairs = islice(mapping(value).items(), _MAX_ITEMS)
    return {clean(name, 100): int(amount) for name, raw in pairs if (amount := number(raw)) is not None}


def read(kind: type[S], row: Mapping[str, Any], **values: object) -> S:
    """Return a struct with the fields of a row that have the type of its own; the others have their defaults.

    Args:
        kind: a struct whose fields are texts, numbers, booleans, or tuples of texts, all with defaults.
        row: the row of a page.
        values: fields that the row does not have by these names.
    """
    fields = {name: _value(type_, row.get(name)) for name, type_ in _types(kind)}
    present = {name: value for name, value in fields.items() if value is not None}
    return kind(**{**present, **values})


@cache  # evaluating the annotations of a class takes 0.7 ms
def _types(kind: type[msgspec.Struct]) -> tuple[tuple[str, object], ...]:
    return tuple((field.name, field.type) for field in msgspec.structs.fields(kind))


def _value(type_: object, value: object) -> object:
    """Return a value of a field's type; None for one of another type."""
    if type_ is str:
        return clean(value) if isinstance(value, str) else None
    if type_ is bool:
        return value if isinstance(value, bool) else None
    if type_ is int:
        amount = number(value)
        return None if amount is None else int(amount)
    if type_ is float or float in get_args(type_):
        return number(value)
    if type_ == tuple[str, ...]:
        return tuple(clean(text, _MAX_ITEM) for text in islice(value, _MAX_ITEMS)) if isinstance(value, list) else None
    return None
