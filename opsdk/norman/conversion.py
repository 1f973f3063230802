"""The value of a field: conversion to its type, and the checks of the field.

Upstream: github.com/rancher/norman/types/convert/convert.go, parse/builder/builder.go
Deviates: dates must be RFC 3339 (norman stores any text and has the code InvalidDateFormat for handlers); lengths count
characters, norman counts bytes; numbers beyond 64 bits are rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Annotated

import msgspec

from opsdk.apimachinery import validation
from opsdk.norman.codes import ErrorCode
from opsdk.norman.schema_parts import Field
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonValue

MAX_DEPTH = 100
"""Levels of nested values in an object; deeper ones are refused in a body, and not shown."""

_INT64 = 1 << 63
_Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]


def to_text(value: JsonValue) -> str:
    """Return a value as text: the first one of a list (form data), ``true`` and ``false`` as in JSON.

    >>> to_text(" a "), to_text(True), to_text(["b", "c"]), to_text(None), to_text(3)
    (' a ', 'true', 'b', '', '3')
    """
    value = _first(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _to_boolean(value: JsonValue) -> bool:
    """Return a boolean, or whether a string is true, t, yes or y in any letter case."""
    value = _first(value)
    return value if isinstance(value, bool) else to_text(value).strip().lower() in ("true", "t", "yes", "y")


def to_int(value: JsonValue) -> int:
    """Return an integer of 64 bits; fractions are cut off. Raises `ValueError`.

    >>> to_int("12"), to_int(2.9), to_int(["3"])
    (12, 2, 3)
    """
    value = _first(value)
    if isinstance(value, float) and math.isfinite(value):
        value = int(value)
    if isinstance(value, str):
        text = value.strip()
        if not text.lstrip("+-").isascii() or not text.lstrip("+-").isdigit():
            raise ValueError(f"{value!r} is not a number")
        value = int(text) if len(text) < 21 else _INT64
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a number")  # noqa: TRY004 - the caller reports all bad values alike
    if not -_INT64 <= value < _INT64:
        raise ValueError("the number exceeds 64 bits")
    return value


def _to_float(value: JsonValue) -> float:
    """Return a finite number. Raises `ValueError`."""
    value = _first(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")  # noqa: TRY004 - the caller reports all bad values alike
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def to_milliseconds(value: JsonValue) -> int | None:
    """Return the milliseconds since 1970 of an RFC 3339 timestamp, or None if it is not one.

    >>> to_milliseconds("2026-01-02T03:04:05Z")
    1767323045000
    """
    try:
        timestamp = msgspec.convert(to_text(value), type=_Timestamp)
    except msgspec.ValidationError:
        return None
    return round(timestamp.timestamp() * 1000)


def convert_input(expression: TypeExpression, value: JsonValue) -> JsonValue:
    """Return the value of a body for a simple type. Raises `NormanError` InvalidFormat or InvalidDateFormat."""
    if value is None or expression.name == "json":
        return value
    if (convert := _CONVERSIONS.get(expression.name)) is not None:
        try:
            return convert(value)
        except ValueError as error:
            raise ErrorCode.INVALID_FORMAT.error(str(error)) from error
    if isinstance(value, dict):
        raise ErrorCode.INVALID_FORMAT.error(f"an object is not a value of the type {expression}")
    text = to_text(value).strip()
    if expression.name == "date":
        if text and to_milliseconds(text) is None:
            raise ErrorCode.INVALID_DATE_FORMAT.error(f"{text!r} is not RFC 3339, such as 2026-01-02T03:04:05Z")
        return text or None
    check = _DNS_CHECKS.get(expression.name) if text else None
    if check is not None and (errors := check(text)):
        raise ErrorCode.INVALID_FORMAT.error(f"invalid value {text}: {','.join(errors)}")
    return text


def convert_output(expression: TypeExpression, value: JsonValue) -> JsonValue:
    """Return the value of a store for a simple type. One that does not fit its type stays as it is."""
    if value is None or expression.name == "json":
        return value
    if (convert := _CONVERSIONS.get(expression.name)) is not None:
        try:
            return convert(value)
        except ValueError:
            return value
    if expression.name == "string":
        return to_text(value)  # white space stays
    return to_text(value).strip() or (None if expression.name == "date" else "")


def check_value(name: str, field: Field, value: JsonValue) -> None:
    """Check a converted value against the rules of its field. Raises `NormanError` with the code and `name`."""
    if value is None and field.default is not None:
        value = field.default
    if value in (None, "") and not field.nullable and field.default is None:
        raise ErrorCode.NOT_NULLABLE.error(field_name=name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_limits(name, field, value)
    if value is not None and not isinstance(value, dict | list):
        _check_text(name, field, to_text(value))


def _check_limits(name: str, field: Field, value: float) -> None:
    if field.min is not None and value < field.min:
        raise ErrorCode.MIN_LIMIT_EXCEEDED.error(f"at least {field.min}", field_name=name)
    if field.max is not None and value > field.max:
        raise ErrorCode.MAX_LIMIT_EXCEEDED.error(f"at most {field.max}", field_name=name)


def _check_text(name: str, field: Field, text: str) -> None:
    if field.min_length is not None and len(text) < field.min_length:
        raise ErrorCode.MIN_LENGTH_EXCEEDED.error(f"at least {field.min_length} characters", field_name=name)
    if field.max_length is not None and len(text) > field.max_length:
        raise ErrorCode.MAX_LENGTH_EXCEEDED.error(f"at most {field.max_length} characters", field_name=name)
    if field.options and (text or not field.nullable) and text not in field.options:
        raise ErrorCode.INVALID_OPTION.error(f"one of {', '.join(field.options)}", field_name=name)
    if field.valid_chars and not set(text) <= set(field.valid_chars):
        raise ErrorCode.INVALID_CHARACTERS.error(f"only characters of {field.valid_chars!r}", field_name=name)
    if field.invalid_chars and set(text) & set(field.invalid_chars):
        raise ErrorCode.INVALID_CHARACTERS.error(f"no characters of {field.invalid_chars!r}", field_name=name)


def is_empty(value: JsonValue) -> bool:
    """Whether a value is null, or an empty string, list or object."""
    return value is None or value in ("", [], {})


def _first(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return value[0] if value else None
    return value


def _int_or_text(value: JsonValue) -> int | str:
    try:
        return to_int(value)
    except ValueError:
        return to_text(value).strip()


_CONVERSIONS: dict[str, Callable[[JsonValue], JsonValue]] = {
    "boolean": _to_boolean,
    "byte": to_int,
    "float": _to_float,
    "int": to_int,
    "intOrString": _int_or_text,
}

_DNS_CHECKS = {
    "dnsLabel": validation.dns_label,
    "dnsLabelRestricted": validation.dns_1035_label,
    "hostname": validation.dns_subdomain,
}
