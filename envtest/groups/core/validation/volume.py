"""Validation of volumes of pods.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envtest.groups.common import validation
from envtest.groups.core.validation import volume_sources
from envtest.groups.core.validation.container import VOLUME_FIELDS, validate_field_ref, validate_resource_ref
from envtest.groups.core.validation.persistent_volume_claim import validate_claim_spec
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.validation import dns_subdomain
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry import metadata
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_ORDER: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_PULL: Final = ("Always", "IfNotPresent", "Never")
_CONFLICT: Final = "conflicting duplicate paths"
_CLAIM_METADATA: Final = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip


def validate_volumes(
    volumes: Sequence[JsonObject], path: str, pod: str = ""
) -> tuple[dict[str, JsonObject], list[Cause]]:
    """Validate volumes and return the valid ones by name; `pod` is the pod's name, empty for a template."""
    good: dict[str, JsonObject] = {}
    causes: list[Cause] = []
    claim_names = {f"{pod}-{v.get('name', '')}" for v in volumes if pod and v.get("ephemeral") is not None}
    for index, volume in enumerate(volumes):
        item_path, name = f"{path}[{index}]", volume.get("name", "")
        problems = [*_source(volume, item_path, pod)]
        if not name:
            problems.append(api_errors.required(f"{item_path}.name"))
        else:
            problems.extend(validation.label(name, f"{item_path}.name"))
        if name in good:
            problems.append(api_errors.duplicate(f"{item_path}.name", name))
        if problems:
            causes.extend(problems)
        else:
            good[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if claim in claim_names:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            causes.append(api_errors.invalid_value(f"{item_path}.persistentVolumeClaim.claimName", claim, text))
    return good, causes


def _source(volume: JsonObject, path: str, pod: str) -> Iterator[Cause]:
    """Yield what is wrong with the source of a volume: exactly one."""
    yield from volume_sources.exactly_one(volume, _ORDER, _CHECKS, path)
    name = volume.get("name", "")
    first = next((key for key in _ORDER if volume.get(key) is not None), "")
    portal = (volume.get("iscsi") or {}).get("targetPortal", "")
    if first == "iscsi" and volume["iscsi"].get("initiatorName") is not None and len(f"{name}:{portal}") > 64:
        text = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is"
            " specified."
        )
        yield api_errors.invalid_value(f"{path}.name", name, text)
    if first == "ephemeral" and pod and name:
        claim = f"{pod}-{name}"
        for reason in dns_subdomain(claim):
            yield api_errors.invalid_value(f"{path}.name", name, f"PVC name {api_errors.quoted(claim)}: {reason}")


# ------------------------------------------------------------------ files
def _mode(value: int | None, field: str) -> Iterator[Cause]:
    if value is not None and not 0 <= value <= 0o777:
        yield api_errors.invalid_value(field, value, _MODE)


def _items(items: Sequence[JsonObject], path: str) -> Iterator[Cause]:
    for index, item in enumerate(items):
        yield from _item(item, f"{path}[{index}]")


def _item(item: JsonObject, path: str) -> Iterator[Cause]:
    yield from validation.required(item.get("key"), f"{path}.key")
    yield from validation.required(item.get("path"), f"{path}.path")
    yield from validation.local_non_reserved_path(item.get("path", ""), f"{path}.path")
    yield from _mode(item.get("mode"), f"{path}.mode")


def _secret(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from validation.required(source.get("secretName"), f"{path}.secretName")
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    yield from _items(source.get("items") or (), f"{path}.items")


def _config_map(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from validation.required(source.get("name"), f"{path}.name")
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    yield from _items(source.get("items") or (), f"{path}.items")


def _downward(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        # As upstream, the paths of these errors omit the index.
        yield from _file(item, path)


def _file(item: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a file of the downward API."""
    yield from validation.required(item.get("path"), f"{path}.path")
    yield from validation.local_non_reserved_path(item.get("path", ""), f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from validate_field_ref(field, f"{path}.fieldRef", VOLUME_FIELDS)
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield api_errors.invalid_value(path, "resource", text)
    elif resource is not None:
        yield from validate_resource_ref(resource, f"{path}.resourceFieldRef", in_volume=True)
    else:
        yield api_errors.required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(item.get("mode"), f"{path}.mode")


# ------------------------------------------------------------------ projected volumes
class _Paths:
    """The paths of a projected volume; each must be unique."""

    def __init__(self, volume: str) -> None:
        self._volume = volume
        self._seen: set[str] = set()

    def add(self, path: str, path_value: str) -> Iterator[Cause]:
        """Add a path; `path_value` is the value that the message shows if the path is a duplicate."""
        if path and path in self._seen:
            yield api_errors.invalid_value(self._volume, path_value, _CONFLICT)
        self._seen.add(path)


def _projected(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    taken = _Paths(path)
    for index, part in enumerate(source.get("sources") or ()):
        item_path = f"{path}.sources[{index}]"
        for key, check in _PROJECTIONS.items():
            if part.get(key) is not None:
                yield from check(part[key], f"{item_path}.{key}", taken)
        if sum(part.get(key) is not None for key in _PROJECTIONS) > 1:
            yield api_errors.not_allowed(item_path, "may not specify more than 1 volume type per source")


def _projected_keys(source: JsonObject, path: str, taken: _Paths) -> Iterator[Cause]:
    name = source.get("name", "")
    yield from validation.required(name, f"{path}.name")
    for index, item in enumerate(source.get("items") or ()):
        yield from _item(item, f"{path}.items[{index}]")
        yield from taken.add(item.get("path", ""), name)


def _projected_downward(source: JsonObject, path: str, taken: _Paths) -> Iterator[Cause]:
    for item in source.get("items") or ():
        yield from _file(item, path)
        yield from taken.add(item.get("path", ""), item.get("path", ""))


def _projected_token(source: JsonObject, path: str, taken: _Paths) -> Iterator[Cause]:
    seconds, where = source.get("expirationSeconds", 3600), f"{path}.expirationSeconds"
    if seconds < 600:
        yield api_errors.invalid_value(where, seconds, "may not specify a duration less than 10 minutes")
    if seconds > 1 << 32:
        yield api_errors.invalid_value(where, seconds, "may not specify a duration larger than 2^32 seconds")
    if not source.get("path"):
        yield api_errors.required(f"{path}.path")
    else:
        yield from validation.local_non_reserved_path(source["path"], f"{path}.path")
        yield from taken.add(source["path"], source["path"])


_PROJECTIONS: Final = {
    "secret": _projected_keys,
    "configMap": _projected_keys,
    "downwardAPI": _projected_downward,
    "serviceAccountToken": _projected_token,
}


# ------------------------------------------------------------------ other sources
def _ephemeral(source: JsonObject, path: str) -> Iterator[Cause]:
    template, template_path = source.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    if template is None:
        yield api_errors.required(template_path)
        return
    meta = template.get("metadata") or {}
    yield from metadata.annotation_causes(meta.get("annotations") or {}, f"{template_path}.metadata.annotations")
    yield from metadata.labels(meta.get("labels") or {}, f"{template_path}.metadata.labels")
    for key in _CLAIM_METADATA:
        if meta.get(key):
            yield api_errors.not_allowed(f"{template_path}.metadata.{key}", "cannot be set for an ephemeral volume")
    yield from validate_claim_spec(template.get("spec") or {}, f"{template_path}.spec")


def _empty(source: JsonObject, path: str) -> Iterator[Cause]:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity(str(limit)) < Quantity("0"):
        yield api_errors.not_allowed(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _csi(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from volume_sources.driver_name(source.get("driver", ""), f"{path}.driver")
    yield from volume_sources.secret_ref(source.get("nodePublishSecretRef"), f"{path}.nodePublishSecretRef")


def _image(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from validation.one_of(source.get("pullPolicy"), _PULL, f"{path}.pullPolicy")


_CHECKS: Final[Mapping[str, volume_sources.Check]] = {
    **volume_sources.SHARED,
    "emptyDir": _empty,
    "gitRepo": volume_sources.git_repo,
    "secret": _secret,
    "persistentVolumeClaim": volume_sources.required_keys("claimName"),
    "downwardAPI": _downward,
    "configMap": _config_map,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
