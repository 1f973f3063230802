"""Validation of in-place pod resize.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from envtest.groups.core.qos import qos_class
from envtest.groups.core.validation.pod_annotations import MIRROR
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue

_LISTS: Final = ("containers", "initContainers")
_ORDER: Final = "may not be renamed or reordered on resize"
_CHANGEABLE: Final = ("cpu", "memory")


def resized(spec: JsonObject, old: JsonObject) -> JsonObject:
    """Return the old containers with the resources of the new spec."""
    result: JsonObject = {}
    for key in _LISTS:
        before = {c.get("name"): c for c in old.get(key) or ()}
        if spec.get(key):
            result[key] = [_merged(container, before.get(container.get("name"))) for container in spec[key]]
    if old.get("resources") is not None or spec.get("resources") is not None:
        result["resources"] = spec.get("resources")
    return result


def _merged(container: JsonObject, old: JsonObject | None) -> JsonObject:
    return container if old is None else {**old, "resources": container.get("resources") or {}}


def refused(old: JsonObject) -> str:
    """Return why a pod cannot be resized; empty if it can."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return "static pods cannot be resized"
    if ((old["spec"].get("os") or {}).get("name")) == "windows":
        return "windows pods cannot be resized"
    return ""


def validate_resize(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate a resize: only cpu and memory change; the QoS class stays."""
    spec, before, status = obj["spec"], old["spec"], old.get("status") or {}
    if (status.get("qosClass") or qos_class(before)) != qos_class(spec):
        text = "Pod QOS Class may not change as a result of resizing"
        yield api_errors.invalid_value("spec", status.get("qosClass", ""), text)
    if not _supported(status):
        yield api_errors.not_allowed("spec", "Pod running on node without support for resize")
    wrong = list(_ordered(spec, before))
    yield from wrong
    if not wrong:
        # Requests may shrink, but not be removed.
        for kind in ("requests", "limits"):
            if any(name not in _amounts(spec, kind) for name in _amounts(before, kind)):
                where = f"spec.resources.{kind}"
                yield api_errors.not_allowed(where, f"pod-level resource {kind} cannot be removed")
        for key in _LISTS:
            for index, was in enumerate(before.get(key) or ()):
                for kind in ("requests", "limits"):
                    now = _amounts(spec[key][index], kind)
                    if any(name not in now for name in _amounts(was, kind)):
                        where = f"spec.{key}[{index}].resources.{kind}"
                        yield api_errors.not_allowed(where, f"resource {kind} cannot be removed")
        yield from _others(spec, before)


def _supported(status: JsonObject) -> bool:
    for container in status.get("containerStatuses") or ():
        if (container.get("state") or {}).get("running") is not None:
            return container.get("resources") is not None
    return True


def _ordered(spec: JsonObject, old: JsonObject) -> Iterator[Cause]:
    for key in _LISTS:
        now, before = spec.get(key) or [], old.get(key) or []
        if len(now) != len(before):
            yield api_errors.not_allowed(f"spec.{key}", f"{key} may not be added or removed on resize")
            continue
        for index, (new, was) in enumerate(zip(now, before, strict=True)):
            if new.get("name") != was.get("name"):
                yield api_errors.not_allowed(f"spec.{key}[{index}].name", f"{key} {_ORDER}")


def _amounts(container: JsonObject, kind: str) -> Mapping[str, JsonValue]:
    quantities: Mapping[str, JsonValue] = (container.get("resources") or {}).get(kind) or {}
    return quantities


def _others(spec: JsonObject, old: JsonObject) -> Iterator[Cause]:
    for key in _LISTS:
        for new, was in zip(spec.get(key) or (), old.get(key) or (), strict=True):
            if _immutable_resources(new) != _immutable_resources(was):
                which = " for sidecar containers" if was.get("restartPolicy") == "Always" else ""
                yield api_errors.not_allowed("spec", f"only cpu and memory resources{which} are mutable")


def _immutable_resources(container: JsonObject) -> JsonObject:
    """Return the immutable resources of a container."""
    resources = container.get("resources") or {}
    resources_rest: JsonObject = {k: v for k, v in resources.items() if k not in ("requests", "limits")}
    for kind in ("requests", "limits"):
        resources_rest[kind] = {n: a for n, a in _amounts(container, kind).items() if n not in _CHANGEABLE}
    return resources_rest
