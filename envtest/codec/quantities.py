"""Canonical form of quantities. Pure.

Upstream: k8s.io/apimachinery/pkg/api/resource/quantity.go (v1.36)
"""

from __future__ import annotations

import re
from functools import lru_cache

from opsdk.errors import DecodeError

_FORM = re.compile(r"([+-]?)(\d*+)(?:\.(\d*+))?+([eEinumkKMGTP]*+[+-]?+\d*+)")
_EXPONENT = re.compile(r"[eE]([+-]?\d{1,19})")
_BINARY = {f"{letter}i": power * 10 for power, letter in enumerate("KMGTPE", start=1)}
_POWERS = {
    suffix: power * 3 for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), start=-3)
}
_SUFFIXES = {power: suffix for suffix, power in _POWERS.items()}
_FINEST = -9
_MOST = (1 << 63) - 1
_DECIMAL_DIGITS, _BINARY_DIGITS = 18, 14
"""The number of digits that always fit into an int64."""
_MOST_DIGITS = 1000
"""Digits that the arithmetic of `opsdk.apimachinery.quantity` holds. Deviates: upstream has no limit."""
_NUMBER = "unable to parse numeric part of quantity"
_SUFFIX = "unable to parse quantity's suffix"
_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(maxsize=4096)  # objects of one cluster have few distinct quantities
def canonical(text: str) -> str:
    """Return the shortest integer with the largest suffix of the same family; raises `DecodeError`.

    Text that is canonical already is returned unchanged.

    >>> canonical("0.5"), canonical("1024Mi"), canonical("1000m"), canonical("1.5Gi"), canonical("+100")
    ('500m', '1Gi', '1', '1536Mi', '+100')
    """
    match = _FORM.fullmatch(text) if text else None
    if match is None:
        raise DecodeError(_WRONG)
    sign, whole, part, suffix = match.groups(default="")
    if len(whole) + len(part) > _MOST_DIGITS:
        raise DecodeError(_NUMBER)
    number = whole.lstrip("0") or "0"
    power = 0 if suffix in _BINARY else _power_of_ten(suffix)
    if _fits_int64(number, part, suffix, power):
        if suffix in _BINARY:
            shortest = int(number) % 8 != 0
        else:
            digits = number + part
            shortest = (power - len(part)) % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
        if shortest:
            return text
    elif not whole and not part:
        raise DecodeError(_NUMBER)
    value = int(number + part)
    digits = _binary(value, suffix, len(part)) if suffix in _BINARY else _decimal(value, power - len(part), suffix)
    return f"-{digits}" if sign == "-" and value else digits


def _power_of_ten(suffix: str) -> int:
    """Return the power of ten of a decimal suffix. Raises `DecodeError`."""
    if suffix in _POWERS:
        return _POWERS[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not -(1 << 31) < int(match[1]) <= _MOST_DIGITS:
        raise DecodeError(_SUFFIX)
    return int(match[1])


def _fits_int64(number: str, part: str, suffix: str, power: int) -> bool:
    """Whether the number fits into an int64 with a power of ten."""
    if suffix in _BINARY:
        return not part and len(number) + _BINARY[suffix] * 3 // 10 <= _BINARY_DIGITS
    return len(number) + len(part) <= _DECIMAL_DIGITS and power - len(part) >= _FINEST


def _binary(value: int, suffix: str, places: int) -> str:
    """Format a binary quantity. Fractions and values below 1024 get decimal suffixes."""
    whole, rest = divmod(value << _BINARY[suffix], 10**places)
    if (whole, rest) > (_MOST, 0):
        return str(_MOST)
    if rest or whole < 1024:
        return _decimal(value << _BINARY[suffix], -places, "")
    bits = 0
    while not whole % 1024:
        whole, bits = whole >> 10, bits + 10
    return f"{whole}{next((name for name, exponent in _BINARY.items() if exponent == bits), '')}"


def _decimal(value: int, power: int, suffix: str) -> str:
    """Format a decimal quantity. Exponents are multiples of three, at least -9; smaller fractions are rounded up."""
    if not value:
        return "0"
    if power < _FINEST:
        # Upstream rounds a number with more decimal places than digits up to 1n.
        value, power = -(-value // 10 ** min(_FINEST - power, len(str(value)))), _FINEST
    value, power = value * 10 ** (power % 3), power - power % 3
    while not value % 1000:
        value, power = value // 1000, power + 3
    if suffix not in _POWERS:
        return f"{value}e{power}" if power else str(value)
    return f"{value}{_SUFFIXES.get(power, '')}"
