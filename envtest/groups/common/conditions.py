"""Validation of ``metav1.Condition`` lists in a status.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_STATUSES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    " characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or"
    " 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is"
    " '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
_MAX_REASON = 1024
_MAX_MESSAGE = 32 * 1024


def validate_conditions(conditions: Sequence[JsonObject], field: str) -> Iterator[Cause]:
    """Validate conditions: types are unique; status, reason and transition time are required."""
    types: dict[str, int] = {}
    for index, condition in enumerate(conditions):
        item_path, kind = f"{field}[{index}]", condition.get("type") or ""
        if kind in types:
            yield api_errors.duplicate(f"{item_path}.type", kind)
        types[kind] = index
        status = condition.get("status") or ""
        for reason in validation.qualified_name(kind):
            yield api_errors.invalid_value(f"{item_path}.type", kind, reason)
        if status not in _STATUSES:
            yield api_errors.unsupported(f"{item_path}.status", status, _STATUSES)
        generation = condition.get("observedGeneration") or 0
        if generation < 0:
            text = "must be greater than or equal to zero"
            yield api_errors.invalid_value(f"{item_path}.observedGeneration", generation, text)
        if not condition.get("lastTransitionTime"):
            yield api_errors.required(f"{item_path}.lastTransitionTime")
        yield from _reason(condition.get("reason") or "", f"{item_path}.reason")
        yield from _too_long(condition.get("message") or "", f"{item_path}.message", _MAX_MESSAGE)


def _reason(reason: str, field: str) -> Iterator[Cause]:
    if not reason:
        yield api_errors.required(field)
        return
    if not _REASON.fullmatch(reason):
        yield api_errors.invalid_value(field, reason, _REASON_TEXT)
    yield from _too_long(reason, field, _MAX_REASON)


def _too_long(text: str, field: str, most: int) -> Iterator[Cause]:
    if len(text.encode()) > most:
        yield Cause(reason="FieldValueTooLong", message=f"Too long: may not be more than {most} bytes", field=field)
