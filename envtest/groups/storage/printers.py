"""Columns of the group storage.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envtest.groups.common.printing import (
    NOTHING,
    UNSET,
    KindPrinter,
    age,
    kind_printers,
    meta_of,
    name_of,
    spec_of,
    status_of,
)
from opsdk.structured_merge.value import JsonObject, JsonValue


def _is_default(obj: JsonObject, prefixes: Iterable[str]) -> bool:
    notes = meta_of(obj).get("annotations") or {}
    return any(notes.get(f"{prefix}.kubernetes.io/is-default-class") == "true" for prefix in prefixes)


def _storage_class(obj: JsonObject, now: float) -> list[JsonValue]:
    default = " (default)" if _is_default(obj, ("storageclass", "storageclass.beta")) else ""
    return [
        name_of(obj) + default,
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _attributes_class(obj: JsonObject, now: float) -> list[JsonValue]:
    default = " (default)" if _is_default(obj, ("storageclass", "storageclass.beta")) else ""
    return [name_of(obj) + default, obj.get("driverName", ""), age(obj, now)]


def _attachment(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    volume = (spec.get("source") or {}).get("persistentVolumeName", "")
    attached = bool(status_of(obj).get("attached"))
    return [name_of(obj), spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached, age(obj, now)]


def _driver(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    requests = spec.get("tokenRequests")
    return [
        name_of(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        UNSET if requests is None else ",".join(r.get("audience", "") for r in requests),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NOTHING,
        age(obj, now),
    ]


def _capacity(obj: JsonObject, now: float) -> list[JsonValue]:
    return [name_of(obj), obj.get("storageClassName", ""), obj.get("capacity", UNSET)]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "storage.k8s.io/storageclasses": _storage_class,
        "storage.k8s.io/volumeattributesclasses": _attributes_class,
        "storage.k8s.io/volumeattachments": _attachment,
        "storage.k8s.io/csidrivers": _driver,
        "storage.k8s.io/csinodes": lambda obj, now: [
            name_of(obj),
            len(spec_of(obj).get("drivers") or ()),
            age(obj, now),
        ],
        "storage.k8s.io/csistoragecapacities": _capacity,
    }
)
"""By ``group/resource``."""
