"""Columns of volumes, claims and what makes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envtest.kinds.printing import (
    NOTHING,
    UNSET,
    Cells,
    age,
    meta_of,
    name_of,
    spec_of,
    status_of,
)
from opsdk.structured_merge.value import JsonObject

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def _modes(modes: Iterable[str] | None) -> str:
    found = set(modes or ())
    return ",".join(short for long, short in _MODES.items() if long in found)


def _class(obj: JsonObject) -> str:
    notes = meta_of(obj).get("annotations") or {}
    return str(notes.get(_OLD_CLASS) or spec_of(obj).get("storageClassName") or "")


def _phase(obj: JsonObject) -> str:
    return "Terminating" if meta_of(obj).get("deletionTimestamp") else str(status_of(obj).get("phase", ""))


def _maybe(value: Any) -> Any:
    return UNSET if value is None else value


def _claim(obj: JsonObject, now: float) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    volume = spec.get("volumeName") or ""
    return [
        name_of(obj),
        _phase(obj),
        volume,
        (status.get("capacity") or {}).get("storage", "0") if volume else "",
        _modes(status.get("accessModes")) if volume else "",
        _class(obj),
        _maybe(spec.get("volumeAttributesClassName")),
        age(obj, now),
        _maybe(spec.get("volumeMode")),
    ]


def _volume(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        _class(obj),
        _maybe(spec.get("volumeAttributesClassName")),
        status_of(obj).get("reason", ""),
        age(obj, now),
        _maybe(spec.get("volumeMode")),
    ]


def _is_default(obj: JsonObject, prefixes: Iterable[str]) -> bool:
    notes = meta_of(obj).get("annotations") or {}
    return any(notes.get(f"{prefix}.kubernetes.io/is-default-class") == "true" for prefix in prefixes)


def _storage_class(obj: JsonObject, now: float) -> list[Any]:
    default = " (default)" if _is_default(obj, ("storageclass", "storageclass.beta")) else ""
    return [
        name_of(obj) + default,
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _attributes_class(obj: JsonObject, now: float) -> list[Any]:
    default = " (default)" if _is_default(obj, ("storageclass", "storageclass.beta")) else ""
    return [name_of(obj) + default, obj.get("driverName", ""), age(obj, now)]


def _attachment(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    volume = (spec.get("source") or {}).get("persistentVolumeName", "")
    attached = bool(status_of(obj).get("attached"))
    return [name_of(obj), spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached, age(obj, now)]


def _driver(obj: JsonObject, now: float) -> list[Any]:
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


def _driver_node(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), len(spec_of(obj).get("drivers") or ()), age(obj, now)]


def _capacity(obj: JsonObject, now: float) -> list[Any]:  # noqa: ARG001 - the shape of Cells
    return [name_of(obj), obj.get("storageClassName", ""), obj.get("capacity", UNSET)]


_STORAGE = "storage.k8s.io"

CELLS: dict[str, Cells] = {
    "/persistentvolumeclaims": _claim,
    "/persistentvolumes": _volume,
    f"{_STORAGE}/storageclasses": _storage_class,
    f"{_STORAGE}/volumeattributesclasses": _attributes_class,
    f"{_STORAGE}/volumeattachments": _attachment,
    f"{_STORAGE}/csidrivers": _driver,
    f"{_STORAGE}/csinodes": _driver_node,
    f"{_STORAGE}/csistoragecapacities": _capacity,
}
"""By ``group/resource``."""
