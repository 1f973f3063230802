"""Pods: validation, quality of service, graceful deletion.

Upstream: pkg/registry/core/pod/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.pod_spec import drop_disabled
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.pod_preparation import merge_label_keys, sync_profiles
from envtest.groups.core.qos import qos_class
from envtest.groups.core.validation.pod import validate_new_pod, validate_own_pod, validate_pod_spec
from envtest.groups.core.validation.pod_annotations import validate_annotations_update, validate_pod_annotations
from envtest.groups.core.validation.pod_resize import refused, resized, validate_resize
from envtest.groups.core.validation.pod_status import validate_pod_status
from envtest.groups.core.validation.pod_update import validate_ephemeral_update, validate_pod_update
from envtest.groups.core.warnings import name_warnings, pod_warnings
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import DeleteRequestOptions
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue


def _field_getter(*path: str) -> JsonValue:
    def read(obj: JsonObject) -> str:
        value: JsonValue = obj
        for part in path:
            value = (value or {}).get(part)
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    return read


_NOTES = "metadata.annotations"


class PodStrategy(GeneratedStrategy):
    """Validates pods, sets their QoS class, and deletes them gracefully."""

    graceful = True

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {
            "spec.nodeName": _field_getter("spec", "nodeName"),
            "spec.host": _field_getter("spec", "nodeName"),
            "spec.restartPolicy": _field_getter("spec", "restartPolicy"),
            "spec.schedulerName": _field_getter("spec", "schedulerName"),
            "spec.serviceAccountName": _field_getter("spec", "serviceAccountName"),
            "spec.hostNetwork": lambda obj: str(bool((obj.get("spec") or {}).get("hostNetwork"))).lower(),
            "status.phase": _field_getter("status", "phase"),
            "status.podIP": _field_getter("status", "podIP"),
            "status.podIPs": _field_getter("status", "podIP"),
            "status.nominatedNodeName": _field_getter("status", "nominatedNodeName"),
        }

    def initial_status(self, obj: JsonObject) -> JsonObject:
        """Return a status with the phase Pending and the QoS class."""
        return {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Reset the status, prepare the spec and set the condition SchedulingGated."""
        super().prepare_for_create(context, obj)
        drop_disabled(obj["spec"])
        merge_label_keys(obj)
        for text in sync_profiles(obj):
            context.warn(text)
        if obj["spec"].get("schedulingGates"):
            gated = {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": context.timestamp(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
            obj["status"]["conditions"] = [gated]

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore the status and drop the fields of disabled feature gates."""
        super().prepare_for_update(context, obj, old)
        drop_disabled(obj["spec"], old["spec"])

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate the spec."""
        return [*self._check(obj), *validate_new_pod(obj.get("spec") or {})]

    @staticmethod
    def _check(obj: JsonObject) -> list[Cause]:
        spec, meta = obj.get("spec") or {}, obj["metadata"]
        notes = validate_pod_annotations(meta.get("annotations") or {}, spec, _NOTES)
        return [*notes, *validate_pod_spec(spec, "spec", meta.get("name", "")), *validate_own_pod(spec)]

    @staticmethod
    def _check_notes(obj: JsonObject, old: JsonObject) -> list[Cause]:
        """Validate the annotations, and that the immutable ones do not change."""
        now, before = (o["metadata"].get("annotations") or {} for o in (obj, old))
        again = validate_pod_annotations(now, obj.get("spec") or {}, _NOTES)
        return [*validate_annotations_update(now, before, _NOTES), *again]

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: only images, deadlines, tolerations and scheduling gates are mutable."""
        changes = validate_pod_update(obj["spec"], old["spec"])
        return [*self._check(obj), *self._check_notes(obj, old), *changes]

    def prepare_status(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore the old QoS class if the update has none."""
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        if not status.get("qosClass") and before.get("qosClass"):
            status["qosClass"] = before["qosClass"]

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate addresses, conditions and terminated containers."""
        return [*self._check_notes(obj, old), *validate_pod_status(obj, old)]

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Warn about the name and the spec of a new pod."""
        if old is not None:
            return ()
        return [*name_warnings(obj["metadata"].get("name", ""), pod=True), *pod_warnings(obj)]

    def grace(self, obj: JsonObject, options: DeleteRequestOptions) -> int:
        """Return the requested grace period, else the pod's; 0 if no kubelet would confirm the deletion."""
        spec = obj.get("spec") or {}
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        seconds = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 30)
        return max(int(seconds), 0) if seconds >= 0 else 1


class _PartStrategy(PodStrategy):
    """Updates one part of the spec and restores everything else."""

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Copy the part into the old object."""
        spec = {**old["spec"], **self.part(obj["spec"], old["spec"])}
        meta = {k: v for k, v in obj["metadata"].items() if k in ("resourceVersion", "managedFields")}
        fresh = {k: v for k, v in old.items() if k not in ("metadata", "spec")}
        obj.update(fresh, metadata={**old["metadata"], **meta}, spec={k: v for k, v in spec.items() if v is not None})

    def part(self, spec: JsonObject, old: JsonObject) -> JsonObject:
        """Return the part that the update may change."""
        return {}


class EphemeralStrategy(_PartStrategy):
    """Updates of ``pods/ephemeralcontainers``."""

    def part(self, spec: JsonObject, old: JsonObject) -> JsonObject:
        """Return the ephemeral containers."""
        return {"ephemeralContainers": spec.get("ephemeralContainers")}

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the spec; existing ephemeral containers are immutable."""
        return [*self._check(obj), *validate_ephemeral_update(obj, old)]


class ResizeStrategy(_PartStrategy):
    """Updates of ``pods/resize``."""

    def part(self, spec: JsonObject, old: JsonObject) -> JsonObject:
        """Return the container resources."""
        return resized(spec, old)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the spec; only resources change."""
        reason = refused(old)
        if reason:
            return [api_errors.not_allowed("[]", reason)]
        return [*self._check(obj), *validate_resize(obj, old)]
