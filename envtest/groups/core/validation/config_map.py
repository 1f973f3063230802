"""Validation of the data of config maps and secrets.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence

from envtest.groups.common import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

MAX_SIZE = 1024 * 1024
"""Maximum bytes of data in a ConfigMap or Secret."""


def validate_config_map(obj: JsonObject) -> Iterator[Cause]:
    """Validate keys and total size."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    yield from validate_keys("data", data, binary)
    yield from validate_keys("binaryData", binary, {})
    size = sum(map(len, map(str.encode, data.values()))) + decoded_size(binary)
    if size > MAX_SIZE:
        yield api_errors.too_long("[]", MAX_SIZE)


def validate_keys(field: str, data: Mapping[str, object], others: Mapping[str, object]) -> Iterator[Cause]:
    """Validate the keys of data; a key must not be in `others`."""
    for key in sorted(data):
        for text in validation.config_key_problems(key):
            yield api_errors.invalid_value(f"{field}[{key}]", key, text)
        if key in others:
            yield api_errors.invalid_value(f"{field}[{key}]", key, "duplicate of key present in binaryData")


def decoded_size(data: Mapping[str, str | None]) -> int:
    """Return the size of base64 data; a null is empty."""
    return sum(len(base64.b64decode(v)) for v in data.values() if v)


def validate_immutable(obj: JsonObject, old: JsonObject, fields: Sequence[str]) -> Iterator[Cause]:
    """Validate that an immutable object keeps these fields."""
    if not old.get("immutable"):
        return
    text = "field is immutable when `immutable` is set"
    if not obj.get("immutable"):
        yield api_errors.not_allowed("immutable", text)
    for field in fields:
        if (obj.get(field) or {}) != (old.get(field) or {}):
            yield api_errors.not_allowed(field, text)
