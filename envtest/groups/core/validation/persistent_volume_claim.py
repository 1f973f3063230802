"""Validation of persistent volume claims.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.codec.internal_form import CLAIM_SPEC, difference
from envtest.groups.common import validation
from envtest.groups.common.label_selectors import check_label_selector
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.validation import qualified_name
from opsdk.apiserver import api_errors
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_ACCESS: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_MODES: Final = ("Block", "Filesystem")
_ALONE: Final = "ReadWriteOncePod"
_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_RESIZES: Final = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible",
    "NodeResizePending",
)  # fmt: skip


def validate_access(modes: Sequence[str], path: str) -> Iterator[Cause]:
    """Validate the access modes."""
    for mode in modes:
        if mode not in _ACCESS:
            yield api_errors.unsupported(path, mode, _ACCESS)
    if _ALONE in modes and len(modes) > 1:
        yield api_errors.not_allowed(path, "may not use ReadWriteOncePod with other access modes")


def validate_mode(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the volume mode."""
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _MODES:
        yield api_errors.unsupported(f"{path}.volumeMode", mode, _MODES)


def validate_claim(obj: JsonObject) -> Iterator[Cause]:
    """Validate a new claim."""
    yield from validate_claim_spec(obj.get("spec") or {}, "spec")


def validate_claim_spec(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the spec of a claim."""
    if not spec.get("accessModes"):
        yield api_errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    if spec.get("selector") is not None:
        yield from check_label_selector(spec["selector"], f"{path}.selector")
    yield from validate_access(spec.get("accessModes") or (), f"{path}.accessModes")
    size = _requested(spec)
    if size is None:
        yield api_errors.required(f"{path}.resources[storage]")
    else:
        yield from validation.positive_quantity(size, f"{path}.resources[storage]")
    if spec.get("storageClassName"):
        yield from validation.subdomain(spec["storageClassName"], f"{path}.storageClassName")
    yield from validate_mode(spec, path)
    for key in ("dataSource", "dataSourceRef"):
        if spec.get(key) is not None:
            yield from _source(spec[key], f"{path}.{key}")
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is not None:
        references = (
            {key: reference.get(key) or "" for key in ("apiGroup", "kind", "name")} for reference in (old, new)
        )
        if next(references) != next(references):
            yield api_errors.invalid_value(path, {}, "must match dataSourceRef")
    if spec.get("volumeAttributesClassName"):
        yield from validation.subdomain(spec["volumeAttributesClassName"], f"{path}.volumeAttributesClassName")


def _requested(spec: JsonObject) -> str | None:
    storage: str | None = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return storage


def _source(source: JsonObject, path: str) -> Iterator[Cause]:
    yield from validation.required(source.get("name"), f"{path}.name")
    yield from validation.required(source.get("kind"), f"{path}.kind")
    if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield api_errors.invalid_value(path, source.get("kind", ""), text)
    if source.get("apiGroup"):
        yield from validation.subdomain(source["apiGroup"], f"{path}.apiGroup")


def validate_claim_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: a bound claim may grow or change its attributes class."""
    yield from validate_claim(obj)
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    notes, noted = (o["metadata"].get("annotations") or {} for o in (obj, old))
    if notes.get(_ANNOTATION, "") != noted.get(_ANNOTATION, "") and not _upgraded(obj, old):
        where = f"metadata.annotations.{_ANNOTATION}"
        yield api_errors.invalid_value(where, notes.get(_ANNOTATION, ""), "field is immutable")
    # Copies of both specs with equal mutable fields.
    new_spec: JsonObject = copy_tree(obj.get("spec") or {})
    old_spec: JsonObject = copy_tree(old.get("spec") or {})
    if not old_spec.get("volumeName") and new_spec.get("volumeName"):
        old_spec["volumeName"] = new_spec["volumeName"]
    noted = _ANNOTATION in (old["metadata"].get("annotations") or {})
    if _upgraded(obj, old) or (old_spec.get("storageClassName") is None and not noted):
        new_spec.pop("storageClassName", None)
    if (old.get("status") or {}).get("phase") == "Bound":
        # Mutable fields of a bound claim.
        size = _requested(old_spec)
        requests = (new_spec.get("resources") or {}).get("requests")
        if requests and size is not None:
            requests["storage"] = size
        if new_spec.get("volumeAttributesClassName") is not None:
            new_spec["volumeAttributesClassName"] = old_spec.get("volumeAttributesClassName")
    now, was = (_without_empty_fields(new_spec), _without_empty_fields(old_spec))
    if now != was:
        yield api_errors.not_allowed("spec", f"{_IMMUTABLE}\n{difference(CLAIM_SPEC, was, now)}")
    new_size, old_size = _requested(spec), _requested(before)
    if new_size is not None and old_size is not None and Quantity(new_size) < Quantity(old_size):
        capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
        if Quantity(new_size) <= Quantity(capacity):
            text = "field can not be less than status.capacity"
            yield api_errors.not_allowed("spec.resources.requests.storage", text)
    yield from validation.immutable_field(spec, before, "volumeMode", "volumeMode")
    yield from validate_attributes_kept(spec, before)


def validate_attributes_kept(spec: JsonObject, before: JsonObject) -> Iterator[Cause]:
    """Validate that the volume attributes class is not unset."""
    now, path = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if now or before.get("volumeAttributesClassName") in (None, now):
        return
    word = "nil" if now is None else "an empty string"
    yield api_errors.not_allowed(path, f"update from non-nil value to {word} is forbidden")


def validate_claim_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate the status of a claim."""
    status = obj.get("status") or {}
    for name, amount in sorted((status.get("capacity") or {}).items()):
        yield from validation.non_negative_quantity(amount, f"status.capacity[{name}]")
    for name, word in sorted((status.get("allocatedResourceStatuses") or {}).items()):
        yield from _resource(name, "status.allocatedResourceStatus")
        if word not in _RESIZES:
            yield api_errors.unsupported("status.allocatedResourceStatus", name, _RESIZES)
    for name, amount in sorted((status.get("allocatedResources") or {}).items()):
        yield from _resource(name, "status.allocatedResources")
        yield from validation.non_negative_quantity(amount, f"status.allocatedResources[{name}]")


def _resource(name: str, path: str) -> Iterator[Cause]:
    wrong = qualified_name(name)
    yield from validation.each(wrong, name, path)
    owner, slash, _ = name.partition("/")
    if not wrong and name != "storage" and (not slash or owner.endswith("kubernetes.io")):
        yield api_errors.invalid_value(path, name, "not a valid resource name")


def _upgraded(obj: JsonObject, old: JsonObject) -> bool:
    """Whether the class moved from the annotation to the field."""
    notes, noted = (o["metadata"].get("annotations") or {} for o in (obj, old))
    now, before = ((o.get("spec") or {}).get("storageClassName") for o in (obj, old))
    return _ANNOTATION in noted and _ANNOTATION not in notes and before is None and now == noted[_ANNOTATION]


def _without_empty_fields(spec: JsonObject) -> JsonObject:
    return {k: v for k, v in spec.items() if v not in (None, [], {})}
