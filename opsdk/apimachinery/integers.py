"""Integers in foreign text. Pure.

Upstream: Go's strconv.ParseInt with 64 bits
"""

from __future__ import annotations

_MAX_DIGITS = 19
_LIMIT = 2**63


def parse_int(text: str) -> int | None:
    """Return the integer of ASCII digits with an optional sign; None for other text, and beyond 64 bits.

    ``int`` raises for more than 4,300 digits, and accepts blanks, underscores and digits of other scripts.

    >>> parse_int("-12"), parse_int("1_0"), parse_int("²"), parse_int("9" * 5_000), parse_int("")
    (-12, None, None, None, None)
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if len(digits) > _MAX_DIGITS or not digits.isascii() or not digits.isdigit():
        return None
    number = int(text)
    return number if -_LIMIT <= number < _LIMIT else None
