"""Validation of persistent volumes.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final

from envtest.codec.internal_form import CORE, VOLUME_SOURCE, difference, shown
from envtest.groups.common import validation
from envtest.groups.core.validation import volume_sources
from envtest.groups.core.validation.affinity import validate_node_selector
from envtest.groups.core.validation.persistent_volume_claim import (
    validate_access,
    validate_attributes_kept,
    validate_mode,
)
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_NO_SOURCE: Final = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
        "storageClassName", "volumeAttributesClassName", "volumeMode",
    }
)  # fmt: skip
"""Fields of a volume's spec that are not volume sources."""
_ORDER: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
    "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
_CSI_SECRETS: Final = (
    "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef",
)  # fmt: skip


def validate_persistent_volume(obj: JsonObject) -> Iterator[Cause]:
    """Validate a new volume."""
    spec: JsonObject = obj.get("spec") or {}
    if not spec.get("accessModes"):
        yield api_errors.required("spec.accessModes")
    yield from validate_access(spec.get("accessModes") or (), "spec.accessModes")
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield api_errors.required("spec.capacity")
    if capacity.keys() != {"storage"}:
        yield api_errors.unsupported("spec.capacity", capacity or None, ("storage",))
    for name, amount in sorted(capacity.items()):
        yield from validation.non_negative_quantity(amount, f"spec.capacity[{name}]")
        yield from validation.positive_quantity(amount, f"spec.capacity[{name}]")
    if spec.get("persistentVolumeReclaimPolicy"):
        policy = spec["persistentVolumeReclaimPolicy"]
        yield from validation.one_of(policy, _RECLAIM, "spec.persistentVolumeReclaimPolicy")
    yield from _affinity(spec.get("nodeAffinity"))
    yield from volume_sources.exactly_one(spec, _ORDER, _CHECKS, "spec")
    if spec.get("local") is not None and spec.get("nodeAffinity") is None:
        yield api_errors.required("metadata.annotations", "Local volume requires node affinity")
    recycled = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if recycled and posixpath.normpath((spec.get("hostPath") or {}).get("path") or ".") == "/":
        text = "may not be 'recycle' for a hostPath mount of '/'"
        yield api_errors.not_allowed("spec.persistentVolumeReclaimPolicy", text)
    if spec.get("storageClassName"):
        yield from validation.subdomain(spec["storageClassName"], "spec.storageClassName")
    yield from validate_mode(spec, "spec")
    yield from _attributes(spec)


def _affinity(affinity: JsonObject | None) -> Iterator[Cause]:
    if affinity is None:
        return
    if affinity.get("required") is None:
        yield api_errors.required("spec.nodeAffinity.required", "must specify required node constraints")
    else:
        yield from validate_node_selector(affinity["required"], "spec.nodeAffinity.required")


def _attributes(spec: JsonObject) -> Iterator[Cause]:
    name, path = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if name is None:
        return
    if not name:
        yield api_errors.required(path, "an empty string is disallowed")
    else:
        yield from validation.subdomain(name, path)
    if spec.get("csi") is None:
        yield api_errors.required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _local(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from validation.required(source.get("path"), f"{path}.path")
    yield from validation.path_no_backsteps(source.get("path", ""), f"{path}.path")


def _csi(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from volume_sources.driver_name(source.get("driver", ""), f"{path}.driver")
    yield from validation.required(source.get("volumeHandle"), f"{path}.volumeHandle")
    for key in _CSI_SECRETS:
        yield from volume_sources.secret_ref(source.get(key), f"{path}.{key}", namespaced=True)


def _cinder(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from validation.required(source.get("volumeID"), f"{path}.volumeID")
    yield from volume_sources.secret_ref(source.get("secretRef"), f"{path}.secretRef", namespaced=True)


def _azure_file(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from volume_sources.required_keys("secretName", "shareName")(source, path)
    if source.get("secretNamespace") == "":
        yield api_errors.required(f"{path}.secretNamespace")


_CHECKS: Final[Mapping[str, volume_sources.Check]] = {
    **volume_sources.SHARED,
    "local": _local,
    "csi": _csi,
    "cinder": _cinder,
    "azureFile": _azure_file,
}


def _sources(spec: JsonObject) -> JsonObject:
    return {key: value for key, value in spec.items() if key not in _NO_SOURCE and value is not None}


def validate_persistent_volume_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: source and volume mode are immutable."""
    yield from validate_persistent_volume(obj)
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    if _expandable(_sources(spec), _sources(before)) != _sources(before):
        change = difference(VOLUME_SOURCE, before, {**spec, **_expandable(_sources(spec), _sources(before))})
        text = f"spec.persistentvolumesource is immutable after creation\n{change}"
        yield api_errors.not_allowed("spec.persistentvolumesource", text)
    yield from validation.immutable_field(spec, before, "volumeMode", "volumeMode")
    affinity = spec.get("nodeAffinity")
    if before.get("nodeAffinity") not in (None, affinity):
        value = shown(f"{CORE}VolumeNodeAffinity", affinity)
        yield api_errors.invalid_value("nodeAffinity", value, "field is immutable")
    yield from validate_attributes_kept(spec, before)


def _expandable(now: JsonObject, before: JsonObject) -> JsonObject:
    """Return the source without an expansion secret that the update adds, because that is allowed."""
    key = "controllerExpandSecretRef"
    if now.get("csi") is None or before.get("csi") is None or before["csi"].get(key) is not None:
        return now
    return {**now, "csi": {k: v for k, v in now["csi"].items() if k != key}}
