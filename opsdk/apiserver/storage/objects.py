"""Keys and objects of every storage: buckets, resource versions, equality. Pure."""

from __future__ import annotations

from opsdk.structured_merge.value import JsonObject


def bucket_of(key: str) -> str:
    """Return the first two parts of a key, or of a prefix such as ``group/``."""
    end = key.find("/", key.find("/") + 1)
    return key if end < 0 else key[:end]


def with_revision(value: JsonObject, revision: int) -> JsonObject:
    """Return a copy with ``metadata.resourceVersion`` set to `revision`; the rest is shared."""
    old = value.get("metadata") or {}
    if "resourceVersion" in old:
        return {**value, "metadata": {**old, "resourceVersion": str(revision)}}
    meta: JsonObject = {}
    for key, part in old.items():
        meta[key] = part
        if key == "uid":
            # The position of resourceVersion in JSON.
            meta["resourceVersion"] = str(revision)
    meta.setdefault("resourceVersion", str(revision))
    return {**value, "metadata": meta}


def same_but_revision(a: JsonObject, b: JsonObject) -> bool:
    """Report whether two objects differ at most in their resourceVersion."""
    if a is b:
        return True
    meta_b = b.get("metadata") or {}
    probe = {**b, "metadata": {**meta_b, "resourceVersion": (a.get("metadata") or {}).get("resourceVersion", "")}}
    return a == probe and _same_types(a, probe)


def _same_types(a: object, b: object) -> bool:
    """Compare types too, because in Python 1, 1.0 and True are equal."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_same_types(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return all(_same_types(x, y) for x, y in zip(a, b, strict=True))
    return isinstance(a, bool) == isinstance(b, bool)
