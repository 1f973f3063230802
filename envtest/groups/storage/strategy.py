"""Kinds of the group storage.k8s.io.

Upstream: pkg/registry/storage (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from envtest.groups.common.strategy import KindRules, StrategyFactory, ruled
from envtest.groups.storage import validation
from envtest.groups.storage.warnings import class_warnings
from opsdk.apimachinery.validation import path_segment
from opsdk.apiserver.registry.context import Context
from opsdk.structured_merge.value import JsonObject

_COUNTED: Final = (
    "tokenRequests", "requiresRepublish", "seLinuxMount", "nodeAllocatableUpdatePeriodSeconds",
    "serviceAccountTokenInSecrets",
)  # fmt: skip


def count_driver(context: Context, obj: JsonObject, old: JsonObject | None) -> None:
    """Raise the generation if a mutable field of a CSIDriver changes."""
    if old is None:
        return
    now, before = obj.get("spec") or {}, old.get("spec") or {}
    if any(now.get(key) != before.get(key) for key in _COUNTED):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


STRATEGIES: Mapping[str, StrategyFactory] = {
    "storage.k8s.io/storageclasses": ruled(
        KindRules(new=validation.validate_class, changed=validation.validate_class_update, warnings=class_warnings)
    ),
    "storage.k8s.io/csistoragecapacities": ruled(
        KindRules(new=validation.validate_capacity, changed=validation.validate_capacity_update)
    ),
    "storage.k8s.io/volumeattributesclasses": ruled(
        KindRules(new=validation.validate_attributes, changed=validation.validate_attributes_update)
    ),
    "storage.k8s.io/csidrivers": ruled(
        KindRules(
            new=validation.validate_driver,
            changed=validation.validate_driver_update,
            prepare=count_driver,
            name=path_segment,
        )
    ),
    "storage.k8s.io/csinodes": ruled(
        KindRules(new=validation.validate_driver_node, changed=validation.validate_driver_node_update)
    ),
    "storage.k8s.io/volumeattachments": ruled(
        KindRules(
            new=validation.validate_attachment,
            changed=validation.validate_attachment_update,
            initial_status={"attached": False},
        )
    ),
}
"""By ``group/resource``."""
