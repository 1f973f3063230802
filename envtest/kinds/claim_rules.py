"""Persistent volumes and claims on them: what is wrong with them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, Final

from envtest.kinds import rules
from envtest.kinds.pod_rules import validate_node_selector
from envtest.kinds.selector_rules import check_label_selector
from opsdk.api.quantity import Quantity
from opsdk.apiserver import problems
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_ACCESS: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_MODES: Final = ("Block", "Filesystem")
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_ALONE: Final = "ReadWriteOncePod"
_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_SOURCES: Final = frozenset({("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")})
_NO_SOURCE: Final = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
        "storageClassName", "volumeAttributesClassName", "volumeMode",
    }
)  # fmt: skip
"""What of a volume's spec says nothing about where it is."""


def _access(modes: Sequence[str], path: str) -> Iterator[Cause]:
    for mode in modes:
        if mode not in _ACCESS:
            yield problems.unsupported(path, mode, _ACCESS)
    if _ALONE in modes and len(modes) > 1:
        yield problems.not_allowed(path, "may not use ReadWriteOncePod with other access modes")


def _positive(amount: str, path: str) -> Iterator[Cause]:
    value = Quantity(amount).value
    if value < 0:
        yield problems.invalid_value(path, amount, rules.NOT_NEGATIVE)
    if value <= 0:
        yield problems.invalid_value(path, amount, "must be greater than zero")


def _mode(spec: Tree, path: str) -> Iterator[Cause]:
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _MODES:
        yield problems.unsupported(f"{path}.volumeMode", mode, _MODES)


# ------------------------------------------------------------------ claims
def share_source(obj: Tree) -> None:
    """Where a claim's data come from stands in two places, of which the older one takes claims and snapshots only."""
    spec = obj.get("spec") or {}
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and (old.get("apiGroup") or "", old.get("kind")) not in _SOURCES:
        spec.pop("dataSource")
        old = None
    if old is not None and new is None:
        spec["dataSourceRef"] = dict(old)
    elif new is not None and old is None and not new.get("namespace"):
        spec["dataSource"] = {key: value for key, value in new.items() if key != "namespace"}


def validate_claim(obj: Tree) -> Iterator[Cause]:
    """A new claim."""
    yield from validate_claim_spec(obj.get("spec") or {}, "spec")


def validate_claim_spec(spec: Tree, path: str) -> Iterator[Cause]:
    """What is claimed."""
    if not spec.get("accessModes"):
        yield problems.required(f"{path}.accessModes", "at least 1 access mode is required")
    if spec.get("selector") is not None:
        yield from check_label_selector(spec["selector"], f"{path}.selector")
    yield from _access(spec.get("accessModes") or (), f"{path}.accessModes")
    size = _requested(spec)
    if size is None:
        yield problems.required(f"{path}.resources[storage]")
    else:
        yield from _positive(size, f"{path}.resources[storage]")
    if spec.get("storageClassName"):
        yield from rules.subdomain(spec["storageClassName"], f"{path}.storageClassName")
    yield from _mode(spec, path)
    for key in ("dataSource", "dataSourceRef"):
        if spec.get(key) is not None:
            yield from _source(spec[key], f"{path}.{key}")
    yield from _same_source(spec, path)
    if spec.get("volumeAttributesClassName"):
        yield from rules.subdomain(spec["volumeAttributesClassName"], f"{path}.volumeAttributesClassName")


def _same_source(spec: Tree, path: str) -> Iterator[Cause]:
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is not None:
        shown = ({key: found.get(key) or "" for key in ("apiGroup", "kind", "name")} for found in (old, new))
        if next(shown) != next(shown):
            yield problems.invalid_value(path, {}, "must match dataSourceRef")


def _requested(spec: Tree) -> str | None:
    found: str | None = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return found


def _source(source: Tree, path: str) -> Iterator[Cause]:
    yield from rules.needed(source.get("name"), f"{path}.name")
    yield from rules.needed(source.get("kind"), f"{path}.kind")
    if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield problems.invalid_value(path, source.get("kind", ""), text)


def validate_claim_update(obj: Tree, old: Tree) -> Iterator[Cause]:
    """Bound claims may grow, or get other attributes; a volume is named once."""
    yield from validate_claim(obj)
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    if _fixed(obj, old) != _fixed(old, old):
        yield problems.not_allowed("spec", _IMMUTABLE)
    new_size, old_size = _requested(spec), _requested(before)
    if new_size is not None and old_size is not None and Quantity(new_size) < Quantity(old_size):
        given = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
        if Quantity(new_size) <= Quantity(given):
            text = "field can not be less than status.capacity"
            yield problems.not_allowed("spec.resources.requests.storage", text)
    yield from rules.unchanged(spec, before, "volumeMode", "volumeMode")
    if before.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
        text = "update from non-nil value to nil is forbidden"
        yield problems.not_allowed("spec.volumeAttributesClassName", text)


def _fixed(obj: Tree, old: Tree) -> Tree:
    """What of a claim must stay as it was in `old`."""
    spec: Tree = {k: v for k, v in (obj.get("spec") or {}).items() if v}
    before: Tree = old.get("spec") or {}
    free = set[str]()
    if not before.get("volumeName"):
        free.add("volumeName")
    if before.get("storageClassName") is None and _ANNOTATION not in (old["metadata"].get("annotations") or {}):
        free.add("storageClassName")
    if (old.get("status") or {}).get("phase") == "Bound":
        free.add("volumeAttributesClassName")
        resources = dict(spec.get("resources") or {})
        resources["requests"] = {k: v for k, v in (resources.get("requests") or {}).items() if k != "storage"}
        spec["resources"] = resources
    return {key: value for key, value in spec.items() if key not in free}


# ------------------------------------------------------------------ volumes
def validate_volume(obj: Tree) -> Iterator[Cause]:
    """A new volume."""
    spec: Tree = obj.get("spec") or {}
    if not spec.get("accessModes"):
        yield problems.required("spec.accessModes")
    yield from _access(spec.get("accessModes") or (), "spec.accessModes")
    yield from _capacity(spec.get("capacity") or {})
    if spec.get("persistentVolumeReclaimPolicy"):
        policy = spec["persistentVolumeReclaimPolicy"]
        yield from rules.one_of(policy, _RECLAIM, "spec.persistentVolumeReclaimPolicy")
    yield from _affinity(spec.get("nodeAffinity"))
    yield from _place(spec)
    if spec.get("storageClassName"):
        yield from rules.subdomain(spec["storageClassName"], "spec.storageClassName")
    yield from _mode(spec, "spec")


def _capacity(capacity: Tree) -> Iterator[Cause]:
    if not capacity:
        yield problems.required("spec.capacity")
    if capacity.keys() != {"storage"}:
        yield problems.unsupported("spec.capacity", capacity or None, ("storage",))
    for name, amount in sorted(capacity.items()):
        yield from _positive(amount, f"spec.capacity[{name}]")


def _affinity(affinity: Tree | None) -> Iterator[Cause]:
    if affinity is None:
        return
    if affinity.get("required") is None:
        yield problems.required("spec.nodeAffinity.required", "must specify required node constraints")
    else:
        yield from validate_node_selector(affinity["required"], "spec.nodeAffinity.required")


def _place(spec: Tree) -> Iterator[Cause]:
    found = _sources(spec)
    if not found:
        yield problems.required("spec", "must specify a volume type")
    for key in list(found)[1:]:
        yield problems.not_allowed(f"spec.{key}", "may not specify more than 1 volume type")
    for key, wanted in (("hostPath", ("path",)), ("local", ("path",)), ("nfs", ("server", "path"))):
        for name in wanted if key in found else ():
            yield from rules.needed(found[key].get(name), f"spec.{key}.{name}")
    if "csi" in found:
        for name in ("driver", "volumeHandle"):
            yield from rules.needed(found["csi"].get(name), f"spec.csi.{name}")
    yield from _paths(spec, found)
    if "local" in found and spec.get("nodeAffinity") is None:
        yield problems.required("metadata.annotations", "Local volume requires node affinity")


def _paths(spec: Tree, found: Tree) -> Iterator[Cause]:
    for key in ("hostPath", "local"):
        if key in found:
            yield from rules.no_backsteps(found[key].get("path", ""), f"spec.{key}.path")
    recycled = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if recycled and "hostPath" in found and posixpath.normpath(found["hostPath"].get("path") or ".") == "/":
        text = "may not be 'recycle' for a hostPath mount of '/'"
        yield problems.not_allowed("spec.persistentVolumeReclaimPolicy", text)


def _sources(spec: Tree) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key not in _NO_SOURCE and value is not None}


def validate_volume_update(obj: Tree, old: Tree) -> Iterator[Cause]:
    """Where it is, and how it is used, stays."""
    yield from validate_volume(obj)
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    if _sources(spec) != _sources(before):
        yield problems.not_allowed(
            "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
        )
    yield from rules.unchanged(spec, before, "volumeMode", "volumeMode")
    if before.get("nodeAffinity") is not None:
        yield from rules.unchanged(spec, before, "nodeAffinity", "nodeAffinity")
    if before.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
        text = "update from non-nil value to nil is forbidden"
        yield problems.not_allowed("spec.volumeAttributesClassName", text)
