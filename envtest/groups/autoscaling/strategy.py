"""HorizontalPodAutoscalers, stored as ``autoscaling/v2``.

Upstream: pkg/registry/autoscaling (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.groups.autoscaling.conversion import OLD, to_new, without_notes
from envtest.groups.autoscaling.validation import validate_autoscaler, validate_autoscaler_status
from envtest.groups.common.strategy import GeneratedStrategy, StrategyFactory
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue


class AutoscalerStrategy(GeneratedStrategy):
    """The strategy of HorizontalPodAutoscalers."""

    def __init__(self, row: JsonValue, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def initial_status(self, obj: JsonObject) -> JsonObject:
        """Return a status with 0 desired replicas."""
        return {"desiredReplicas": 0, "currentMetrics": None}

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Drop the annotations that hold fields of the other version."""
        super().prepare_for_create(context, obj)
        _drop_conversion_annotations(obj)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Drop the annotations that hold fields of the other version."""
        super().prepare_for_update(context, obj, old)
        _drop_conversion_annotations(obj)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate the object in the v2 form, whichever version the client sent."""
        return list(validate_autoscaler(to_new(obj) if obj.get("apiVersion") == OLD else obj))

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        return list(validate_autoscaler_status(obj, old))


def _drop_conversion_annotations(obj: JsonObject) -> None:
    if obj.get("apiVersion") != OLD:
        obj["metadata"] = without_notes(obj)["metadata"]


STRATEGIES: Mapping[str, StrategyFactory] = {
    "autoscaling/horizontalpodautoscalers": AutoscalerStrategy,
}
"""By ``group/resource``."""
