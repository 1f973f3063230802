"""Errors of invalid fields, and the response that lists them."""

from __future__ import annotations

import pytest

from opsdk.apiserver import api_errors
from opsdk.apiserver.field_errors import (
    OMITTED,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from opsdk.errors import InvalidError
from opsdk.structured_merge.paths import FieldPath

X = FieldPath("spec", "x")


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (required(X), "FieldValueRequired", "Required value"),
        (required(X, "is needed"), "FieldValueRequired", "Required value: is needed"),
        (invalid(X, "v", "why"), "FieldValueInvalid", 'Invalid value: "v": why'),
        (invalid(X, 0, "why"), "FieldValueInvalid", "Invalid value: 0: why"),
        (invalid(X, {"b": 1, "a": [None]}, "why"), "FieldValueInvalid", 'Invalid value: {"a":[null],"b":1}: why'),
        (invalid(X, None, "why"), "FieldValueInvalid", "Invalid value: null: why"),
        (invalid(X, OMITTED, "why"), "FieldValueInvalid", "Invalid value: why"),
        (type_invalid(X, "integer", "why"), "FieldValueTypeInvalid", 'Invalid value: "integer": why'),
        (
            not_supported(X, "z", ["a", "b"]),
            "FieldValueNotSupported",
            'Unsupported value: "z": supported values: "a", "b"',
        ),
        (not_found(X, "z"), "FieldValueNotFound", 'Not found: "z"'),
        (duplicate(X, "v"), "FieldValueDuplicate", 'Duplicate value: "v"'),
        (forbidden(X, "why"), "FieldValueForbidden", "Forbidden: why"),
        (too_long(X, 5), "FieldValueTooLong", "Too long: may not be more than 5 bytes"),
        (too_many(X, 3, 2), "FieldValueTooMany", "Too many: 3: must have at most 2 items"),
    ],
)
def test_each_kind_of_error(error: FieldError, reason: str, text: str) -> None:
    """Each kind of field error has the server's reason, message and field."""
    assert str(error) == f"spec.x: {text}"
    assert (error.cause.reason, error.cause.message, error.cause.field) == (reason, text, "spec.x")


def invalid_object(kind: str, group: str, name: str, *errors: FieldError) -> InvalidError:
    """The error of an object with errors in fields."""
    return api_errors.invalid(kind, group, name, [error.cause for error in errors])


def test_one_error_stands_bare() -> None:
    """A single error has no brackets; details name the kind."""
    error = invalid_object("Deployment", "apps", "a", required(X))
    assert error.message == 'Deployment.apps "a" is invalid: spec.x: Required value'
    assert (error.code, error.reason) == (422, "Invalid")
    assert (error.details.kind, error.details.group, error.details.name) == ("Deployment", "apps", "a")


def test_the_same_text_is_said_once() -> None:
    """The message has each text once; the causes have every error."""
    error = invalid_object("ConfigMap", "", "a", required(X), required(X), required("y"))
    assert error.message == 'ConfigMap "a" is invalid: [spec.x: Required value, y: Required value]'
    assert len(error.details.causes) == 3


def test_errors_of_no_object() -> None:
    """A patch whose result is not an object is invalid, without kind and name."""
    assert invalid_object("", "", "", invalid("patch", "p", "why")).message == (
        ' "" is invalid: patch: Invalid value: "p": why'
    )
