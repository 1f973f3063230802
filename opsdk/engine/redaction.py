"""Replaces the values of Secrets: by digests in a snapshot, by a word in a plan. Pure.

Equal values of one snapshot have equal digests, so that a changed value is still seen as a change. The key is random
and forgotten: a digest of a short password cannot be found by trying.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from opsdk.engine.differences import Difference
from opsdk.structured_merge.value import JsonObject, JsonValue

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation of ``kubectl apply`` has the whole object, and so its values."""

_HIDDEN: Final = "(hidden)"
_HIDDEN_CHANGE: Final = "(hidden, another value)"


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


def without_secret_values(difference: Difference) -> Difference:
    """Return the difference of a field of a Secret without values; the names of the keys stay.

    >>> print(without_secret_values(Difference("data.password", None, "aHVudA==")))
    data.password: absent -> '(hidden)'
    >>> print(without_secret_values(Difference("data", {"a": "MQ=="}, {"a": "Mg==", "b": "MQ=="})))
    data: {'a': '(hidden)'} -> {'a': '(hidden, another value)', 'b': '(hidden)'}
    """
    path, old, new = difference.path, difference.old, difference.new
    if path.partition(".")[0] in ("data", "stringData") or path.endswith(_LAST_APPLIED):
        return Difference(path, _hidden(old, None), _hidden(new, old))
    if path in ("metadata", "metadata.annotations"):
        return Difference(path, _without_last_applied(old), _without_last_applied(new))
    return difference


def _hidden(value: JsonValue, old: JsonValue) -> JsonValue:
    """Return a value, or the values of an object, as words that say whether they differ from the old ones."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {
            name: _hidden(item, old.get(name) if isinstance(old, Mapping) else None) for name, item in value.items()
        }
    return _HIDDEN if old is None or old == value else _HIDDEN_CHANGE


def _without_last_applied(value: JsonValue) -> JsonValue:
    if not isinstance(value, Mapping):
        return value
    return {name: _HIDDEN if name == _LAST_APPLIED else _without_last_applied(item) for name, item in value.items()}


def _digest(value: object, key: bytes, *, encoded: bool) -> str:
    digest = f"digest:{hmac.new(key, str(value).encode(), hashlib.sha256).hexdigest()}"
    return base64.b64encode(digest.encode()).decode() if encoded else digest
