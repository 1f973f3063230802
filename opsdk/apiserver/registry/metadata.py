"""Defaulting and validation of ``metadata`` for every kind. Pure.

Upstream: k8s.io/apimachinery/pkg/api/validation/objectmeta.go (v1.36).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import lru_cache

from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_ANNOTATIONS_LIMIT = 256 * 1024
_RANDOM = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_SET = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def generated_name(prefix: str, rng: random.Random) -> str:
    """Return `prefix` and five random characters, together at most 63."""
    return prefix[:58] + "".join(rng.choice(_RANDOM) for _ in range(5))


def wipe(meta: JsonObject) -> None:
    """Remove the fields that only the server sets."""
    for key in _SERVER_SET:
        if key in meta:
            del meta[key]


def validate(strategy: Strategy, meta: JsonObject, namespace: str) -> list[Cause]:
    """Return the errors in a new object's metadata."""
    causes: list[Cause] = []
    prefix, name = meta.get("generateName", ""), meta.get("name", "")
    if prefix:
        wrong = strategy.name_rule(prefix, prefix=True)
        causes += [api_errors.invalid_value("metadata.generateName", prefix, text) for text in wrong]
    if not name:
        causes.append(api_errors.required("metadata.name", "name or generateName is required"))
    else:
        causes += [api_errors.invalid_value("metadata.name", name, text) for text in strategy.name_rule(name)]
    if strategy.namespaced and not namespace:
        causes.append(api_errors.required("metadata.namespace"))
    return [*causes, *_validate_common(strategy, meta)]


def _validate_common(strategy: Strategy, meta: JsonObject) -> list[Cause]:
    return [*_validate_shared(meta), *_validate_finalizers(strategy, meta)]


def _validate_finalizers(strategy: Strategy, meta: JsonObject) -> list[Cause]:
    finalizers: list[str] = meta.get("finalizers") or []
    if not finalizers:
        return []
    causes = list(_finalizers(finalizers))
    for index, name in enumerate(finalizers if strategy.core_metadata else ()):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(api_errors.invalid_value(f"metadata.finalizers[{index}]", name, text))
    return causes


def validate_embedded(meta: JsonObject) -> list[Cause]:
    """Return the errors in an embedded object's metadata; its name may be any path segment."""
    causes: list[Cause] = []
    for key in ("generateName", "name"):
        wrong = validation.path_segment(meta.get(key) or "", prefix=key != "name")
        causes += [api_errors.invalid_value(f"metadata.{key}", meta[key], text) for text in wrong]
    if meta.get("namespace"):
        wrong = validation.dns_label(meta["namespace"])
        causes += [api_errors.invalid_value("metadata.namespace", meta["namespace"], text) for text in wrong]
    if meta.get("generation", 0) < 0:
        text = "must be greater than or equal to 0"
        causes.append(api_errors.invalid_value("metadata.generation", meta["generation"], text))
    causes += [*_validate_shared(meta), *_finalizers(meta.get("finalizers") or [])]
    for index, entry in enumerate(meta.get("managedFields") or []):
        field = f"metadata.managedFields[{index}]"
        if (value := entry.get("operation") or "") not in ("Apply", "Update"):
            causes.append(api_errors.invalid_value(f"{field}.operation", value, "must be `Apply` or `Update`"))
        if (value := entry.get("fieldsType") or "FieldsV1") != "FieldsV1":
            causes.append(api_errors.invalid_value(f"{field}.fieldsType", value, "must be `FieldsV1`"))
    return causes


def _validate_shared(meta: JsonObject) -> list[Cause]:
    causes: list[Cause] = []
    if labels := meta.get("labels"):
        causes += _labels(labels, "metadata.labels")
    if annotations := meta.get("annotations"):
        causes += annotation_causes(annotations, "metadata.annotations")
    if owners := meta.get("ownerReferences"):
        causes += _owners(owners)
    return causes


def labels(values: Mapping[str, str], field: str) -> list[Cause]:
    """Return the errors in the labels of `field`."""
    return list(_labels(values, field))


def _labels(values: Mapping[str, str], field: str) -> Iterator[Cause]:
    for key, value in sorted(values.items()):
        if len(key) + len(value) < _CACHED_LENGTH and _is_label(key, value):
            continue
        for text in validation.qualified_name(key):
            yield api_errors.invalid_value(field, key, text)
        for text in validation.label_value(value):
            yield api_errors.invalid_value(field, value, text)


_CACHED_LENGTH = 256
"""Longer labels are not cached: they are rare and large."""


@lru_cache(maxsize=4096)
def _is_label(key: str, value: str) -> bool:
    """Report whether a label is valid; cached, because many objects have the same labels."""
    return not validation.qualified_name(key) and not validation.label_value(value)


def annotation_causes(annotations: Mapping[str, str], field: str) -> Iterator[Cause]:
    """Yield the errors in the annotations of `field`."""
    for key in sorted(annotations):
        for text in validation.qualified_name(key.lower()):
            yield api_errors.invalid_value(field, key, text)
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > _ANNOTATIONS_LIMIT:
        yield api_errors.too_long(field, _ANNOTATIONS_LIMIT)


def _owners(owners: list[JsonObject]) -> Iterator[Cause]:
    """Yield the causes of invalid owner references."""
    controllers: list[JsonObject] = []
    for owner in owners:
        field = "metadata.ownerReferences"
        version = owner.get("apiVersion") or ""
        if version.count("/") > 1 or not version.rpartition("/")[2]:
            yield api_errors.invalid_value(f"{field}.apiVersion", version, "version must not be empty")
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                yield api_errors.invalid_value(f"{field}.{key}", "", "must not be empty")
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            yield api_errors.invalid_value(field, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            controllers.append(owner)
    if len(controllers) > 1:
        first, second = (f"{o.get('kind', '')}/{o.get('name', '')}" for o in controllers[:2])
        yield api_errors.invalid_value(
            "metadata.ownerReferences",
            owners,
            f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}',
        )


def _finalizers(finalizers: list[str]) -> Iterator[Cause]:
    for name in finalizers:
        for text in validation.qualified_name(name):
            yield api_errors.invalid_value("metadata.finalizers", name, text)


def restore(meta: JsonObject, old: JsonObject) -> None:
    """Restore the metadata that an update cannot change, before comparison and validation."""
    for key in ("generation", "selfLink", "creationTimestamp"):
        meta.pop(key, None)
        if key in old:
            meta[key] = old[key]
    for key in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if not meta.get(key) and key in old:
            meta[key] = old[key]
    if "generateName" in old and not meta.get("generateName"):
        meta["generateName"] = old["generateName"]


def validate_update(strategy: Strategy, meta: JsonObject, old: JsonObject) -> list[Cause]:
    """Return the errors in an update's metadata.

    Upstream validates metadata once in general and again for each kind, and reports all errors.
    """
    causes = [
        api_errors.invalid_value(f"metadata.{key}", meta.get(key), "field is immutable")
        for key in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if meta.get(key) != old.get(key)
    ]
    if old.get("deletionTimestamp"):
        new = [f for f in meta.get("finalizers") or [] if f not in (old.get("finalizers") or [])]
        if new:
            listed = ", ".join(api_errors.quoted(f) for f in new)
            text = (
                "no new finalizers can be added if the object is being deleted, found new finalizers"
                f" []string{{{listed}}}"
            )
            causes.append(api_errors.not_allowed("metadata.finalizers", text))
    if strategy.core_metadata:
        return [*[*causes, *_validate_shared(meta) * 2] * 2, *_validate_finalizers(strategy, meta)]
    return [*causes, *_validate_shared(meta)] * 2 + _validate_common(strategy, meta)


def duplicate_owners(meta: JsonObject, *, admitted: bool) -> list[str]:
    """Drop duplicate owner references; return the warnings. `admitted` means that admission has run."""
    owners = meta.get("ownerReferences")
    if not owners:
        return []
    unique: list[JsonObject] = []
    twice: dict[str, None] = {}
    for owner in owners:
        if owner in unique:
            twice[owner.get("uid", "")] = None
        else:
            unique.append(owner)
    if not twice:
        return []
    meta["ownerReferences"] = unique
    when = " after mutating admission happens" if admitted else ""
    text = (
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and"
        " may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed:"
    )
    return [f"{text} {', '.join(twice)}"]
