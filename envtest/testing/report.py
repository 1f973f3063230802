"""A text report of the server's state for a failed test."""

from __future__ import annotations

from collections.abc import Iterable

from opsdk.apimachinery.serializer.yaml_writer import write_documents
from opsdk.apiserver.endpoints.audit import AuditEvent
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import LocalStorage
from opsdk.structured_merge.value import JsonObject

_MOST = 20
"""Maximum objects in a report."""


def requests(log: Iterable[AuditEvent], count: int) -> str:
    """Return the last `count` requests, one on a line."""
    entries = list(log)[-count:] if count > 0 else []
    return (
        "\n".join(
            f"{r.request_received_timestamp:%H:%M:%S.%f} {r.code} {r.effective.name}: {r.verb} {r.uri}" for r in entries
        )
        or "none"
    )


def objects(storage: LocalStorage, namespace: str) -> str:
    """Return the objects of a namespace as YAML, without metadata that the server maintains."""
    if not isinstance(storage, MemoryStorage):
        return "not known"
    lines = [
        shown(value)
        for bucket, held in sorted(storage.snapshot().buckets.items())
        for key, value in sorted(held.objects.items())
        if key.startswith(f"{bucket}/{namespace}/") and value["metadata"].get("namespace") == namespace
    ]
    text = write_documents(lines[:_MOST], sort_keys=False)
    more = f"... and {len(lines) - _MOST} more\n" if len(lines) > _MOST else ""
    return (text + more) or "none"


def shown(obj: JsonObject) -> JsonObject:
    """Return an object without managedFields."""
    meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {
        **{k: obj[k] for k in ("apiVersion", "kind") if k in obj},
        "metadata": meta,
        **{k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")},
    }
