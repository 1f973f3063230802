"""Field errors and the 422 response that lists them.

Upstream: k8s.io/apimachinery/pkg/util/validation/field/errors.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

from opsdk.errors import Cause
from opsdk.structured_merge.go_format import go_json, go_quote, go_scalar
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonValue

NO_PATH: Final = "<nil>"
"""The path in messages of an error without a path."""

OMITTED: Final = object()
"""Omits the value from the message, e.g. for a whole object."""


class AsShown(str):
    """A value that messages print without quotes."""

    __slots__ = ()


class FieldErrorType(Enum):
    """The type of a field error; the value is the reason in Status causes."""

    REQUIRED = "FieldValueRequired"
    """Must be set, and is not."""
    INVALID = "FieldValueInvalid"
    """Has a value that it must not have."""
    TYPE_INVALID = "FieldValueTypeInvalid"
    """Has a value of the wrong type."""
    NOT_SUPPORTED = "FieldValueNotSupported"
    """Is not one of the allowed values."""
    NOT_FOUND = "FieldValueNotFound"
    """Refers to a missing object."""
    DUPLICATE = "FieldValueDuplicate"
    """Must be unique, and is not."""
    FORBIDDEN = "FieldValueForbidden"
    """Must not be set here."""
    TOO_LONG = "FieldValueTooLong"
    """Is longer than allowed."""
    TOO_MANY = "FieldValueTooMany"
    """Has more elements than allowed."""
    INTERNAL = "InternalError"
    """Could not be checked."""


_LABELS: Final = {
    FieldErrorType.REQUIRED: "Required value",
    FieldErrorType.INVALID: "Invalid value",
    FieldErrorType.TYPE_INVALID: "Invalid value",
    FieldErrorType.NOT_SUPPORTED: "Unsupported value",
    FieldErrorType.NOT_FOUND: "Not found",
    FieldErrorType.DUPLICATE: "Duplicate value",
    FieldErrorType.FORBIDDEN: "Forbidden",
    FieldErrorType.TOO_LONG: "Too long",
    FieldErrorType.TOO_MANY: "Too many",
    FieldErrorType.INTERNAL: "Internal error",
}

_WITHOUT_VALUE: Final = frozenset(
    {FieldErrorType.REQUIRED, FieldErrorType.FORBIDDEN, FieldErrorType.TOO_LONG, FieldErrorType.INTERNAL}
)


class FieldError(msgspec.Struct, frozen=True):
    """One invalid field.

    >>> print(FieldError(FieldErrorType.INVALID, "spec.replicas", -1, "must not be negative"))
    spec.replicas: Invalid value: -1: must not be negative

    Attributes:
        type: the kind of error.
        field: the path; `NO_PATH` without one.
        value: the offending value; `OMITTED` leaves it out of the message.
        detail: the reason, and what is valid.
    """

    type: FieldErrorType
    field: str
    value: JsonValue = None
    detail: str = ""

    @property
    def body(self) -> str:
        """The message without the field."""
        parts = [_LABELS[self.type]]
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            match self.value:
                case None:
                    parts.append("null")
                case AsShown():
                    parts.append(str(self.value))
                case str():
                    parts.append(go_quote(self.value))
                case dict() | list():
                    parts.append(go_json(self.value))
                case _:
                    parts.append(go_scalar(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"

    @property
    def cause(self) -> Cause:
        """The entry for ``details.causes`` of a Status."""
        return Cause(reason=self.type.value, message=self.body, field=self.field)


Path = FieldPath | str


def plural(count: int) -> str:
    """Return the plural ending for a count."""
    return "" if count == 1 else "s"


def internal(field: Path, detail: str) -> FieldError:
    """Return the error of a field that could not be checked."""
    return FieldError(FieldErrorType.INTERNAL, str(field), None, detail)


def required(field: Path, detail: str = "") -> FieldError:
    """Return the error of a missing field."""
    return FieldError(FieldErrorType.REQUIRED, str(field), "", detail)


def invalid(field: Path, value: JsonValue, detail: str) -> FieldError:
    """Return the error of an invalid value."""
    return FieldError(FieldErrorType.INVALID, str(field), value, detail)


def type_invalid(field: Path, value: JsonValue, detail: str) -> FieldError:
    """Return the error of a value of a wrong type."""
    return FieldError(FieldErrorType.TYPE_INVALID, str(field), value, detail)


def not_supported(field: Path, value: JsonValue, supported: Iterable[str]) -> FieldError:
    """Return the error of a value that is not in `supported`."""
    listed = ", ".join(map(go_quote, supported))
    return FieldError(FieldErrorType.NOT_SUPPORTED, str(field), value, f"supported values: {listed}" if listed else "")


def not_found(field: Path, value: JsonValue) -> FieldError:
    """Return the error of a field that refers to a missing object."""
    return FieldError(FieldErrorType.NOT_FOUND, str(field), value)


def duplicate(field: Path, value: JsonValue) -> FieldError:
    """Return the error of a value that occurs before."""
    return FieldError(FieldErrorType.DUPLICATE, str(field), value)


def forbidden(field: Path, detail: str) -> FieldError:
    """Return the error of a field that must not be set."""
    return FieldError(FieldErrorType.FORBIDDEN, str(field), "", detail)


def too_long(field: Path, limit: int) -> FieldError:
    """Return the error of a value with more than `limit` bytes."""
    detail = f"may not be more than {limit} byte{plural(limit)}" if limit >= 0 else "value is too long"
    return FieldError(FieldErrorType.TOO_LONG, str(field), "", detail)


def too_many(field: Path, count: int, limit: int) -> FieldError:
    """Return the error of a list with more than `limit` elements."""
    detail = f"must have at most {limit} item{plural(limit)}" if limit >= 0 else "has too many items"
    return FieldError(FieldErrorType.TOO_MANY, str(field), count, detail)
