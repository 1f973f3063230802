"""The strings extension, version 2.

Upstream: github.com/google/cel-go/ext/strings.go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from opsdk.cel.declarations import (
    MOST,
    TRAVERSAL,
    CallEstimate,
    Library,
    Operand,
    Range,
    Sizes,
    exactly,
    function,
    method,
    scaled,
)
from opsdk.cel.errors import CelBudgetError, CelEvaluationError
from opsdk.cel.library.costs import estimate_elements, estimate_walk, literal_int, walk, walk_elements
from opsdk.cel.library.formatting import format_string
from opsdk.cel.mismatch import mismatch
from opsdk.cel.types import DYN, INT, STRING, list_of

_TEXTS: Final = list_of(STRING)
_LARGEST: Final = 2**27
"""Longest result in characters, far beyond the cost limit."""


def _out_of_range(at: int) -> CelEvaluationError:
    return CelEvaluationError(f"index out of range: {at}")


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise _out_of_range(at)
    return text[at : at + 1]


def _index_of(text: str, part: str, at: int = 0) -> int:
    """Return the index of `part` from `at` on, or -1; an index beyond the end is clamped."""
    if at < 0:
        raise _out_of_range(at)
    return text.find(part, min(at, len(text)))


def _last_index_of(text: str, part: str, at: int | None = None) -> int:
    if at is None:
        return text.rfind(part)
    if at < 0:
        raise _out_of_range(at)
    if part and at >= len(text):
        return -1
    return text.rfind(part, 0, at + len(part))


_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    times = text.count(old) if limit < 0 else min(limit, text.count(old))
    if len(text) + times * len(new) > _LARGEST:
        raise CelBudgetError("operation cancelled: actual cost limit exceeded")
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if 0 < limit < len(text):
        return [*text[: limit - 1], text[limit - 1 :]]
    return list(text)


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if end is not None and start > end:
        raise CelEvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for bound in (start, stop):
        if not 0 <= bound <= len(text):
            raise _out_of_range(bound)
    return text[start:stop]


_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode white space; `str.strip` also strips ASCII separators."""


def _join(texts: Sequence[str], *separators: str) -> str:
    if not all(isinstance(text, str) for text in texts):
        raise mismatch("join", [texts, *separators])
    separator = "".join(separators)
    if sum(map(len, texts)) + len(separator) * len(texts) > _LARGEST:
        raise CelBudgetError("operation cancelled: actual cost limit exceeded")
    return separator.join(texts)


_QUOTES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def quote(text: str) -> str:
    """Return a string literal."""
    return '"' + "".join(_QUOTES.get(char, char) for char in text) + '"'


# ------------------------------------------------------------------ estimates
def _estimate_replace(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    """Estimate: the longest result replaces the shortest matches by the longest strings, and the reverse."""
    text, old, new = map(sizes.size, operands[:3])
    if old.least == 0:
        most = min(min(text.most + 1, MOST) * new.most + text.most, MOST)
    elif new.most <= old.least:
        most = text.most
    else:
        most = min(math.ceil(text.most / old.least) * new.most, MOST)
    if old.most == 0:
        least = min(min(text.least + 1, MOST) * new.least + text.least, MOST)
    elif old.most <= new.least:
        least = text.least
    else:
        least = min(math.ceil(text.least / old.most) * new.least, MOST)
    return CallEstimate(text.scaled(2 * TRAVERSAL), Range(least, most))


def _estimate_split(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    text = sizes.size(operands[0])
    most = literal_int(operands[2], text.most) if len(operands) > 2 else text.most
    return CallEstimate(text.scaled(2 * TRAVERSAL), Range(0, most))


def _estimate_join(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    count = sizes.size(operands[0])
    element = sizes.element(operands[0])
    total = count * sizes.size(element) if element is not None else exactly(0)
    if len(operands) > 1:
        total += sizes.size(operands[1]) * Range(max(count.least - 1, 0), max(count.most - 1, 0))
    return CallEstimate(total.scaled(TRAVERSAL), total)


def _estimate_format(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(sizes.size(operands[0]).scaled(TRAVERSAL))


def _estimate_quote(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    text = sizes.size(operands[0])
    return CallEstimate(text.scaled(TRAVERSAL), Range(text.least + 2, min(text.most * 2 + 2, MOST)))


_READ: Final = {"cost": walk(0), "estimate": estimate_walk(keeps_size=True)}
_SEARCH: Final = {"cost": walk_elements, "estimate": estimate_elements}
_REPLACE: Final = {"cost": walk(0, times=2), "estimate": _estimate_replace}
_SPLIT: Final = {"cost": walk(0, times=2), "estimate": _estimate_split}
_JOIN: Final = {"cost": lambda _, result: scaled(len(result), 2 * TRAVERSAL), "estimate": _estimate_join}
_FORMAT: Final = {"cost": walk(0), "estimate": _estimate_format}
_THREE: Final = (STRING, STRING, STRING)

STRINGS_LIBRARY: Final = Library(
    functions={
        "charAt": [method("string_char_at_int", (STRING, INT), STRING, _char_at)],
        "indexOf": [
            method("string_index_of_string", (STRING, STRING), INT, _index_of, **_SEARCH),
            method("string_index_of_string_int", (STRING, STRING, INT), INT, _index_of, **_SEARCH),
        ],
        "lastIndexOf": [
            method("string_last_index_of_string", (STRING, STRING), INT, _last_index_of, **_SEARCH),
            method("string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of, **_SEARCH),
        ],
        "lowerAscii": [method("string_lower_ascii", (STRING,), STRING, lambda text: text.translate(_LOWER), **_READ)],
        "upperAscii": [method("string_upper_ascii", (STRING,), STRING, lambda text: text.translate(_UPPER), **_READ)],
        "replace": [
            method("string_replace_string_string", _THREE, STRING, _replace, **_REPLACE),
            method("string_replace_string_string_int", (*_THREE, INT), STRING, _replace, **_REPLACE),
        ],
        "split": [
            method("string_split_string", (STRING, STRING), _TEXTS, _split, **_SPLIT),
            method("string_split_string_int", (STRING, STRING, INT), _TEXTS, _split, **_SPLIT),
        ],
        "substring": [
            method("string_substring_int", (STRING, INT), STRING, _substring, **_READ),
            method("string_substring_int_int", (STRING, INT, INT), STRING, _substring, **_READ),
        ],
        "trim": [method("string_trim", (STRING,), STRING, lambda text: text.strip(_SPACES), **_READ)],
        "join": [
            method("list_join", (_TEXTS,), STRING, _join, **_JOIN),
            method("list_join_string", (_TEXTS, STRING), STRING, _join, **_JOIN),
        ],
        "format": [
            method("string_format", (STRING, list_of(DYN)), STRING, format_string, **_FORMAT),
        ],
        "strings.quote": [function("strings_quote", (STRING,), STRING, quote, cost=walk(0), estimate=_estimate_quote)],
    }
)
"""The strings extension."""
STRINGS_VERSION_2: Final = Library(
    functions={name: STRINGS_LIBRARY.functions[name] for name in ("format", "strings.quote")}
)
"""What version 2 of the strings extension has beyond version 0."""
