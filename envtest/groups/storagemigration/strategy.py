"""Kinds of the group storagemigration.k8s.io. No controller of this server migrates.

Upstream: pkg/registry/storagemigration, pkg/apis/storagemigration/validation/validation.go (v1.37)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envtest.groups.common import validation
from envtest.groups.common.strategy import KindRules, StrategyFactory, ruled
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_VERSION = "status.resourceVersion"


def _resource(obj: JsonObject) -> JsonObject:
    return (obj.get("spec") or {}).get("resource") or {}


def validate_migration(obj: JsonObject) -> Iterator[Cause]:
    """Validate a StorageVersionMigration."""
    yield from validation.required(_resource(obj).get("resource"), "spec.resource.resource", "resource is required")


def validate_migration_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the resource is immutable. Upstream's paths lack the fields above."""
    yield from validate_migration(obj)
    for key in ("group", "resource"):
        yield from validation.immutable_field(_resource(obj), _resource(old), key)


def validate_migration_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate a status update: the resource version is a number that stays, and an outcome stays."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    version = status.get("resourceVersion", "")
    if version and not version.isdecimal():
        yield api_errors.invalid_value(_VERSION, version, "must be a non-negative integer")
    if before.get("resourceVersion") and before["resourceVersion"] != version:
        yield api_errors.invalid_value(_VERSION, version, "cannot be updated")
    true, earlier = _true(status), _true(before)
    path = "status.conditions"
    if {"Succeeded", "Failed"} <= true:
        text = "Both success and failed conditions cannot be true at the same time"
        yield api_errors.invalid_value(path, status["conditions"], text)
    for kind, word in (("Succeeded", "success"), ("Failed", "failed")):
        if {kind, "Running"} <= true:
            text = f"Running condition cannot be true when {word} condition is true"
            yield api_errors.invalid_value(path, status["conditions"], text)
        if kind in earlier - true:
            text = f"{word.capitalize()} condition cannot be set to false once it is true"
            yield api_errors.invalid_value(path, status.get("conditions"), text)


def _true(status: JsonObject) -> set[str]:
    """Return the types of the conditions that are true."""
    return {each["type"] for each in status.get("conditions") or () if each.get("status") == "True"}


STRATEGIES: Mapping[str, StrategyFactory] = {
    "storagemigration.k8s.io/storageversionmigrations": ruled(
        KindRules(new=validate_migration, changed=validate_migration_update, status=validate_migration_status)
    ),
}
"""By ``group/resource``."""
