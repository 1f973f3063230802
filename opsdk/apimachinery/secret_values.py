"""Replaces the values of Secrets by digests. Pure.

Equal values have equal digests under one key, so that a changed value is still seen as a change. The key is random and
forgotten: a digest of a short password cannot be found by trying.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from opsdk.structured_merge.value import JsonObject

__all__ = ["LAST_APPLIED", "digest", "is_secret", "redacted", "with_patch", "without_values"]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation of ``kubectl apply`` has the whole object, and so its values."""


def is_secret(obj: JsonObject) -> bool:
    """Whether an object is a Secret."""
    return obj.get("kind") == "Secret" and obj.get("apiVersion") == "v1"


def redacted(obj: JsonObject, key: bytes) -> JsonObject:
    """Return an object without values of Secrets; another object is returned as it is.

    >>> secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "data": {"password": "aHVudA=="}}
    >>> redacted(secret, b"key")["data"] == redacted(secret, b"key")["data"] != secret["data"]
    True
    """
    if not is_secret(obj):
        return obj
    return without_values(obj, lambda value, encoded: digest(value, key, encoded=encoded))


def without_values(secret: JsonObject, hide: Callable[[object, bool], str]) -> JsonObject:
    """Return a Secret, or a patch of one, without its values.

    Args:
        secret: the object or the patch.
        hide: returns what stands for a value; the second argument says whether it is in base64.
    """
    result = {**secret}
    for field in ("data", "stringData"):
        if isinstance(values := secret.get(field), dict):
            result[field] = {
                name: None if value is None else hide(value, field == "data") for name, value in values.items()
            }
    metadata = secret.get("metadata")
    annotations = (metadata.get("annotations") if isinstance(metadata, dict) else None) or {}
    if isinstance(metadata, dict) and LAST_APPLIED in annotations:
        last_applied = hide(annotations[LAST_APPLIED], False)
        result["metadata"] = {**metadata, "annotations": {**annotations, LAST_APPLIED: last_applied}}
    return result


def with_patch(response: JsonObject, change: Callable[[Any], Any]) -> JsonObject:
    """Return the response of a webhook with another JSON patch, which it has in base64.

    Args:
        response: of an AdmissionReview.
        change: returns another list of operations.
    """
    patch = response.get("patch")
    if not isinstance(patch, str):
        return response
    try:
        operations = msgspec.json.decode(base64.b64decode(patch, validate=True))
    except (ValueError, msgspec.DecodeError):
        operations = None
    changed = b"" if operations is None else msgspec.json.encode(change(operations))
    return {**response, "patch": base64.b64encode(changed).decode()}


def digest(value: object, key: bytes, *, encoded: bool) -> str:
    """Return what stands for a value. That of a value in base64 is the digest of the decoded value, in base64.

    An empty text stays: programs treat a missing value and an empty one alike.

    Args:
        value: to hide.
        key: of the digests.
        encoded: in base64, as the fields of ``data`` are.
    """
    if value == "":
        return ""
    plain = str(value).encode()
    if encoded:
        with suppress(ValueError):
            plain = base64.b64decode(plain, validate=True)
    text = f"digest:{hmac.new(key, plain, hashlib.sha256).hexdigest()}"
    return base64.b64encode(text.encode()).decode() if encoded else text
