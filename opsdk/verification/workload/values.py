"""A value of a field, and what the verification expects of it."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from opsdk.structured_merge.value import JsonValue

ABSENT: Final = msgspec.UNSET
"""The value of a field that is not set. JSON output leaves it out."""


class ValueClass(Enum):
    """What a value is to the operator and to the server."""

    VALID = "Valid"
    """The server admits it, and it does no harm."""
    BOUNDARY = "Boundary"
    """The server admits it, and it is at the edge of what the schema allows."""
    BEYOND = "Beyond"
    """The server refuses it."""
    MISOPERATION = "Misoperation"
    """The server admits it, and it does harm: the operator must refuse it or recover from it."""


class FieldValue(msgspec.Struct, frozen=True):
    """A value for one field.

    Attributes:
        value: JSON, or `ABSENT`.
        value_class: what the verification expects.
        reason: the purpose of the value in a few words; unique among the values of a field.
    """

    value: JsonValue
    value_class: ValueClass
    reason: str


def valid(value: JsonValue, reason: str) -> FieldValue:
    """Return a value that does no harm."""
    return FieldValue(value, ValueClass.VALID, reason)


def boundary(value: JsonValue, reason: str) -> FieldValue:
    """Return a value at the edge of what the schema allows."""
    return FieldValue(value, ValueClass.BOUNDARY, reason)


def beyond(value: JsonValue, reason: str) -> FieldValue:
    """Return a value that the server refuses."""
    return FieldValue(value, ValueClass.BEYOND, reason)


def misoperation(value: JsonValue, reason: str) -> FieldValue:
    """Return a value that the server admits and that does harm."""
    return FieldValue(value, ValueClass.MISOPERATION, reason)
