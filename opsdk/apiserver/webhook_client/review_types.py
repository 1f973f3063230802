"""Checks kind, version and field types of webhook responses. Pure.

Upstream: k8s.io/apiserver/pkg/util/webhook/validation.go (v1.36).
"""

from __future__ import annotations

from opsdk.apimachinery.serializer.documents import json_kind
from opsdk.structured_merge.value import JsonObject, JsonValue

_SCHEME = "k8s.io/apiserver/pkg/util/webhook/client.go:71"
"""The source position of the scheme in Go's messages."""
_VERSIONS = ("v1", "v1beta1")


class ReviewError(Exception):
    """The response is not the expected review; the message is the server's."""


def check_review(review: JsonObject, group: str, version: str, kind: str) -> None:
    """Check a review's group, version and kind; empty ones are accepted."""
    api_version, name = review.get("apiVersion") or "", review.get("kind") or ""
    if not name or not api_version:
        if api_version and api_version != f"{group}/{version}":
            _refuse(api_version, kind, version, kind)
        return
    if api_version == "v1" and name == "Status":
        _refuse(api_version, name, version, kind)
    if name != kind or api_version not in [f"{group}/{version_name}" for version_name in _VERSIONS]:
        raise ReviewError(f'no kind "{name}" is registered for version "{api_version}" in scheme "{_SCHEME}"')
    if api_version != f"{group}/{version}":
        _refuse(api_version, name, version, kind)


def _refuse(actual: str, name: str, version: str, kind: str) -> None:
    got = actual.rpartition("/")[2]
    raise ReviewError(f"converting ({got}.{name}) to ({version}.{kind}): unknown conversion")


def check_field(value: JsonValue, expected: type, field: str, name: str) -> None:
    """Check a value against Go's type `name`; null is valid for each type."""
    if value is not None and not isinstance(value, expected):
        raise ReviewError(f"json: cannot unmarshal {json_kind(value)} into Go struct field {field} of type {name}")
