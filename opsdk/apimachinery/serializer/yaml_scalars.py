"""Values of scalars without quotes, as goyaml resolves them: times stay strings, `y` and `off` are booleans. Pure.

Upstream: sigs.k8s.io/yaml/goyaml.v2/resolve.go, strconv.ParseInt, strconv.ParseFloat
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.structured_merge.go_format import go_float, whole_numbers
from opsdk.structured_merge.value import JsonValue


class Merge:
    """The key ``<<``."""


MERGE: Final = Merge()
_SHORT: Final = 32
"""Characters of a plain scalar whose value is remembered."""


def plain_value(text: str) -> JsonValue:
    """Return the value of a scalar without quotes and tag. Raises `SyntaxProblemError` if JSON has no such value."""
    return _remembered(text) if len(text) <= _SHORT else _resolved(text)


def resolve(text: str) -> tuple[str, JsonValue]:
    """Return the name of the tag of a plain scalar, and its value; an infinite number is a float."""
    if (word := _WORDS.get(text)) is not None:
        return word
    if text[0] not in _FIRSTS:
        return "str", text
    # goyaml takes underscores out of every number, unless it starts with a dot.
    digits = text if text[0] == "." else text.replace("_", "")
    number = _integer(digits)
    if number is not None:
        return "int", number
    if _FLOAT.fullmatch(digits) and not math.isinf(number := float(digits)):
        return "float", number
    return "str", text


def json_number(number: JsonValue) -> JsonValue:
    """Return the JSON of a number; whole floats are integers. Raises `SyntaxProblemError` if it is not finite."""
    if not isinstance(number, float):
        return number
    if not math.isfinite(number):
        raise SyntaxProblemError(f"json: unsupported value: {go_float(number)}")
    return whole_numbers(number)


def _resolved(text: str) -> JsonValue:
    name, value = resolve(text)
    return json_number(value) if name in ("int", "float") else value


@lru_cache(maxsize=1024)
def _remembered(text: str) -> JsonValue:
    """Return the value of a short plain scalar. Documents repeat keys and values."""
    return _resolved(text)


def _integer(digits: str) -> int | float | None:
    """Return an int64, or a uint64 as a float; None if the digits are not an integer of 64 bits."""
    if len(digits) < 19 and digits.isascii() and digits.isdecimal() and (digits[0] != "0" or len(digits) == 1):
        return int(digits)
    # 67 digits hold 64 bits and a prefix. Python refuses to convert thousands of decimal digits.
    if len(digits) > 67:
        return None
    if (match := _INT.fullmatch(digits)) is None:
        signed = _SIGNED_BINARY.fullmatch(digits)
        return None if signed is None else int(signed[1], 2)
    binary, octal, hexadecimal, leading_zero, decimal = match.groups()
    for magnitude, base in ((binary, 2), (octal, 8), (hexadecimal, 16), (leading_zero, 8), (decimal, 10)):
        if magnitude is not None:
            number = int(magnitude, base) * (-1 if digits[0] == "-" else 1)
            if -(1 << 63) <= number < 1 << 63:
                return number
            return float(number) if number < 1 << 64 and digits[0] not in "+-" else None
    return None


_FIRSTS: Final = frozenset("+-.0123456789")
# goyaml removes the prefix 0b before it parses the rest, so a sign may follow it.
_INT: Final = re.compile(
    r"""
      [-+]?0[bB]([01]+) | [-+]?0[oO]([0-7]+) | [-+]?0[xX]([0-9a-fA-F]+) | [-+]?0([0-7]+) | [-+]?(0|[1-9][0-9]*)
    """,
    re.VERBOSE,
)
_SIGNED_BINARY: Final = re.compile(r"0b([-+][01]+)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def _spellings(*words: str) -> list[str]:
    return [form for word in words for form in dict.fromkeys((word, word.capitalize(), word.upper()))]


_WORDS: Final[dict[str, tuple[str, JsonValue]]] = {
    "": ("null", None),
    "~": ("null", None),
    "<<": ("merge", MERGE),
    **dict.fromkeys(_spellings("null"), ("null", None)),
    **dict.fromkeys(_spellings("y", "yes", "true", "on"), ("bool", True)),
    **dict.fromkeys(_spellings("n", "no", "false", "off"), ("bool", False)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("float", math.nan)),
    **dict.fromkeys((f"{sign}.{word}" for sign in ("", "+") for word in _spellings("inf")), ("float", math.inf)),
    **dict.fromkeys((f"-.{word}" for word in _spellings("inf")), ("float", -math.inf)),
}
