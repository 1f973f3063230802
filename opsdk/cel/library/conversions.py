"""Conversions between CEL types and strings.

Upstream: github.com/google/cel-go/common/types.
"""

from __future__ import annotations

import math
import re
from typing import Final

from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.times import (
    checked_timestamp,
    parse_duration,
    read_moment,
    read_offset,
    show_duration,
    show_timestamp,
)
from opsdk.cel.types import Type, Value
from opsdk.cel.values import Duration, Timestamp, UInt, type_of


def _failed(value: Value, type_name: str) -> CelEvaluationError:
    return CelEvaluationError(f"type conversion error from '{type_of(value).runtime_name}' to '{type_name}'")


_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def to_bool(text: str) -> bool:
    """Parse a boolean in one of Go's spellings."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _failed(text, "bool")


_INT: Final = re.compile(r"[+-]?[0-9]+")


def to_int(text: str) -> int:
    """Parse a decimal int64."""
    if _INT.fullmatch(text) and len(text) <= 4096:
        value = int(text)
        if -(2**63) <= value < 2**63:
            return value
    raise _failed(text, "int")


def to_uint(text: str) -> UInt:
    """Parse a decimal uint64."""
    if text.isascii() and text.isdigit() and len(text) <= 4096 and int(text) < 2**64:
        return UInt(int(text))
    raise _failed(text, "uint")


_DOUBLE: Final = re.compile(r"(?i)[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)")


def to_double(text: str) -> float:
    """Parse a double."""
    if not _DOUBLE.fullmatch(text):
        raise _failed(text, "double")
    value = float(text)
    if math.isinf(value) and "inf" not in text.lower():
        raise _failed(text, "double")
    return value


def double_to_int(value: float) -> int:
    """Convert to int; the fraction is dropped."""
    if not math.isfinite(value) or not -(2**63) < value < 2**63:
        raise CelEvaluationError("integer overflow")
    return int(value)


def double_to_uint(value: float) -> UInt:
    """Convert to uint; the fraction is dropped."""
    if not math.isfinite(value) or not 0 <= value < 2**64:
        raise CelEvaluationError("unsigned integer overflow")
    return UInt(int(value))


def to_duration(text: str) -> Duration:
    """Parse a duration."""
    duration = parse_duration(text)
    if duration is None:
        raise _failed(text, "google.protobuf.Duration")
    return duration


def to_timestamp(text: str) -> Timestamp:
    """Parse a timestamp."""
    timestamp = read_moment(text)
    if timestamp is None:
        raise _failed(text, "google.protobuf.Timestamp")
    return checked_timestamp(timestamp, read_offset(text))


def to_string(value: Value) -> str:
    """Convert a value to a string.

    >>> to_string(1e21), to_string(Duration(1500000000)), to_string(True)
    ('1e+21', '1.5s', 'true')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return show_double(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise CelEvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case Duration():
            return show_duration(value)
        case Timestamp():
            return show_timestamp(value)
        case Type():
            return value.name
    return str(value)


_SCIENTIFIC_FROM: Final = 6
"""The exponent from which Go prints the shortest form with an exponent."""


def show_double(value: float) -> str:
    """Format a double as Go's ``%g`` does.

    >>> show_double(2.0), show_double(1234567.0), show_double(0.00001)
    ('2', '1.234567e+06', '1e-05')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    # The shortest digits that represent the number, and the exponent of the first digit.
    mantissa, _, power = f"{abs(value)!r}".partition("e")
    whole, _, decimals = mantissa.partition(".")
    significant = f"{whole}{decimals}".lstrip("0")
    exponent = len(significant) - len(decimals) - 1 + int(power or 0)
    digits = significant.rstrip("0") or "0"
    sign = "-" if value < 0 else ""
    if exponent < -4 or exponent >= _SCIENTIFIC_FROM:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if len(digits) <= exponent + 1:
        return sign + digits.ljust(exponent + 1, "0")
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
