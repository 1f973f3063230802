"""Canonical texts of quantities, times and bytes, as the server writes them back.

Upstream: k8s.io/apimachinery/pkg/api/resource/quantity.go, k8s.io/apimachinery/pkg/apis/meta/v1/time.go (v1.36)
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from opsdk.apimachinery.time import MicroTime

_QUANTITY: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:([KMGTPE])i|([numkMGTPE]?)|[eE]([+-]?\d{1,9}))")
_BINARY: Final = {letter: 10 * power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL: Final = {suffix: 3 * power for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)}
_SUFFIXES: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_NANO: Final = -9
_INT64: Final = 2**63 - 1
_WORD_DIGITS: Final = 18
"""Number of decimal digits that always fits into 64 bits."""
_MAX_LENGTH: Final = 1000
"""Python refuses to convert much longer numbers; they are compared as strings."""
_BINARY_WORD_DIGITS: Final = 14
"""The same for binary suffixes: digits of the number, plus three for each factor of 1024."""


@lru_cache(maxsize=4096)
def canonical_quantity(text: str) -> str | None:
    """Return a quantity as the server writes it; None if it is not a quantity.

    A string that has the canonical scale already stays as it is, even with a plus sign or trailing zeros.

    >>> [canonical_quantity(text) for text in ("0.5", "1024Mi", "1000m", "1.5Gi", "+100", "x")]
    ['500m', '1Gi', '1', '1536Mi', '+100', None]
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, fraction = match[1], (match[2] or "").lstrip("0") or "0", match[3] or ""
    if match[4]:
        bits = _BINARY[match[4]]
        fits = not fraction and len(whole) + bits * 3 // 10 <= _BINARY_WORD_DIGITS
        if fits and int(whole) % 8:
            return text
        digits = _binary_text(int(whole + fraction), bits, len(fraction))
    else:
        power = _DECIMAL[match[5]] if match[6] is None else int(match[6])
        places, number = power - len(fraction), whole + fraction
        fits = len(number) <= _WORD_DIGITS and places >= _NANO
        if fits and places % 3 == 0 and not number.endswith("000") and not number.startswith("0"):
            return text
        digits = _decimal_text(int(number), places, exponent=match[6] is not None)
    return f"-{digits}" if sign == "-" and digits != "0" else digits


def _binary_text(number: int, bits: int, places: int) -> str:
    value, rest = divmod(number << bits, 10**places)
    if value > _INT64 or (value == _INT64 and rest):
        return str(_INT64)
    if rest or value < 1024:  # upstream writes these with decimal suffixes
        return _decimal_text(number << bits, -places, exponent=False)
    shift = 0
    while value % 1024 == 0:
        value, shift = value // 1024, shift + 10
    return f"{value}{next((f'{letter}i' for letter, power in _BINARY.items() if power == shift), '')}"


def _decimal_text(number: int, power: int, *, exponent: bool) -> str:
    if not number:
        return "0"
    if power < _NANO:  # rounded up; a divisor with more digits than the number gives one
        number, power = -(-number // 10 ** min(_NANO - power, len(str(number)))), _NANO
    number, power = number * 10 ** (power % 3), power - power % 3
    while number % 1000 == 0:
        number, power = number // 1000, power + 3
    if exponent:
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_SUFFIXES.get(power, '')}"


def canonical_time(text: str) -> str | None:
    """Return a time in UTC with whole seconds; None if it is not an RFC 3339 time.

    >>> canonical_time("2024-01-02T03:04:05.9+01:00")
    '2024-01-02T02:04:05Z'
    """
    timestamp = _parse_time(text)
    return None if timestamp is None else timestamp.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def canonical_micro_time(text: str) -> str | None:
    """Return a time in UTC with six decimals; None if it is not an RFC 3339 time.

    >>> canonical_micro_time("2024-01-02T03:04:05.000001+00:00")
    '2024-01-02T03:04:05.000001Z'
    """
    timestamp = _parse_time(text)
    return None if timestamp is None else MicroTime.of(timestamp).wire()


def _parse_time(text: str) -> datetime | None:
    try:
        timestamp = datetime.fromisoformat(text)
        return None if timestamp.tzinfo is None else timestamp.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def canonical_base64(text: str) -> str | None:
    r"""Return base64 without line ends; None if the server rejects it.

    >>> canonical_base64("YW\nJj"), canonical_base64("!")
    ('YWJj', None)
    """
    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(data).decode()
