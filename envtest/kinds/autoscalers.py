"""HorizontalPodAutoscalers: kept as ``autoscaling/v2``, also shown as v1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envtest.kinds.arrange import arranger
from envtest.kinds.autoscaler_rules import validate_autoscaler, validate_autoscaler_status
from envtest.kinds.autoscaler_versions import OLD, to_new, to_old, without_notes
from envtest.kinds.base import TableStrategy
from envtest.kinds.defaults import horizontal_pod_autoscaler
from envtest.kinds.pod_defaults import put
from envtest.kinds.typed import TypedModel
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class AutoscalerStrategy(TableStrategy):
    """Nothing is known of the metrics at first."""

    def __init__(self, row: Any, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def initial_status(self, obj: JsonObject) -> JsonObject:  # noqa: ARG002 - the shape of the hook
        """No replicas are wished for yet."""
        return {"desiredReplicas": 0, "currentMetrics": None}

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Annotations that only the other version has do not stay."""
        super().prepare_for_create(context, obj)
        _clean(obj)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Annotations that only the other version has do not stay."""
        super().prepare_for_update(context, obj, old)
        _clean(obj)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:  # noqa: ARG002 - the shape of the hook
        """See the rules; a form that is shown to old clients is checked in the new one."""
        return list(validate_autoscaler(to_new(obj) if obj.get("apiVersion") == OLD else obj))

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:  # noqa: ARG002
        """See the rules."""
        return list(validate_autoscaler_status(obj, old))


def _clean(obj: JsonObject) -> None:
    if obj.get("apiVersion") != OLD:
        obj["metadata"] = without_notes(obj)["metadata"]


class OldAutoscalerModel(TypedModel):
    """The first version: one target for CPU, everything else in annotations."""

    def default(self, obj: JsonObject, *, nulls: bool = False) -> JsonObject:  # noqa: ARG002 - decoding left no nulls
        """See `Model`."""
        put(obj.setdefault("spec", {}), minReplicas=1)
        return obj

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """See `Model`."""
        made = to_new(obj)
        horizontal_pod_autoscaler(made)
        return made

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """See `Model`."""
        return dict(arranger(self.name)(to_old(obj)))
