"""Kinds of the group resource.k8s.io.

Upstream: pkg/registry/resource (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from envtest.groups.common.strategy import KindRules, StrategyFactory, ruled
from envtest.groups.resource import validation
from opsdk.apiserver.registry.context import Context
from opsdk.structured_merge.value import JsonObject


def stamp_taints(context: Context, obj: JsonObject, old: JsonObject | None) -> None:
    """Set ``timeAdded`` of new device taints."""
    for device in (obj.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", context.timestamp())


def stamp_rule(context: Context, obj: JsonObject, old: JsonObject | None) -> None:
    """Set ``timeAdded`` of a rule's taint: once, and again when the effect changes and the client keeps the time."""
    taint = (obj.get("spec") or {}).get("taint") or {}
    before = ((old or {}).get("spec") or {}).get("taint") or {}
    is_kept = taint.get("timeAdded") == before.get("timeAdded") and taint.get("effect") != before.get("effect")
    if taint and (taint.get("timeAdded") is None or (old is not None and is_kept)):
        taint["timeAdded"] = context.timestamp()


def _spec_field(key: str, obj: JsonObject) -> str:
    return str((obj.get("spec") or {}).get(key, ""))


STRATEGIES: Mapping[str, StrategyFactory] = {
    "resource.k8s.io/deviceclasses": ruled(KindRules(new=validation.validate_device_class)),
    "resource.k8s.io/devicetaintrules": ruled(KindRules(new=validation.validate_taint_rule, prepare=stamp_rule)),
    "resource.k8s.io/resourceclaims": ruled(
        KindRules(
            new=validation.validate_device_claim,
            changed=validation.validate_device_claim_update,
            status=validation.validate_claim_status,
        )
    ),
    "resource.k8s.io/resourceclaimtemplates": ruled(
        KindRules(new=validation.validate_claim_template, changed=validation.validate_claim_template_update)
    ),
    "resource.k8s.io/resourceslices": ruled(
        KindRules(
            new=validation.validate_slice,
            changed=validation.validate_slice_update,
            prepare=stamp_taints,
            selectable={
                key: partial(_spec_field, key.removeprefix("spec.")) for key in ("spec.nodeName", "spec.driver")
            },
            wrong_field="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
        )
    ),
}
"""By ``group/resource``."""
