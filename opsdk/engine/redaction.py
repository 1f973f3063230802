"""Replaces the values of Secrets by digests. Pure.

Equal values of one snapshot have equal digests, so that a changed value is still seen as a change. The key is random
and forgotten: a digest of a short password cannot be found by trying.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from opsdk.structured_merge.value import JsonObject

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
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
    result = {**obj}
    for field in ("data", "stringData"):
        if isinstance(values := obj.get(field), dict):
            result[field] = {name: _digest(value, key, encoded=field == "data") for name, value in values.items()}
    annotations = obj["metadata"].get("annotations") or {}
    if _LAST_APPLIED in annotations:
        digest = _digest(annotations[_LAST_APPLIED], key, encoded=False)
        result["metadata"] = {**obj["metadata"], "annotations": {**annotations, _LAST_APPLIED: digest}}
    return result


def _digest(value: object, key: bytes, *, encoded: bool) -> str:
    digest = f"digest:{hmac.new(key, str(value).encode(), hashlib.sha256).hexdigest()}"
    return base64.b64encode(digest.encode()).decode() if encoded else digest
