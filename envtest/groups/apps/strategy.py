"""Deployments, replica sets, stateful sets, daemon sets, controller revisions.

Upstream: pkg/registry/apps (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.apps.validation import (
    validate_controller_revision,
    validate_controller_revision_update,
    validate_daemon_set,
    validate_deployment,
    validate_replica_set,
    validate_stateful_set,
    validate_stateful_set_update,
)
from envtest.groups.common.strategy import GeneratedStrategy, StrategyFactory
from envtest.groups.core.strategy.workload import WorkloadStrategy
from opsdk.apimachinery import validation
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""Annotation with the number of template changes of a DaemonSet: a field of extensions/v1beta1."""


class DeploymentStrategy(WorkloadStrategy):
    """The strategy of Deployments; changed annotations raise the generation too."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.status_keeps = ("ownerReferences", "labels")

    def validate_spec(self, spec: JsonObject) -> Iterator[Cause]:
        return validate_deployment(spec)

    def generation_changed(self, obj: JsonObject, old: JsonObject) -> bool:
        """Return whether the spec or the annotations changed."""
        if super().generation_changed(obj, old):
            return True
        annotations = (o["metadata"].get("annotations") or {} for o in (obj, old))
        return next(annotations) != next(annotations)


class ReplicaSetStrategy(WorkloadStrategy):
    """The strategy of ReplicaSets."""

    shown_counts = ("replicas",)

    def validate_spec(self, spec: JsonObject) -> Iterator[Cause]:
        return validate_replica_set(spec)


class DaemonSetStrategy(WorkloadStrategy):
    """The strategy of DaemonSets; an annotation counts the template's generations."""

    shown_counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")

    def validate_spec(self, spec: JsonObject) -> Iterator[Cause]:
        return validate_daemon_set(spec)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Set the template generation to 1."""
        super().prepare_for_create(context, obj)
        _annotate(obj, "1")

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Raise the template generation if the template changed; clients cannot set it."""
        super().prepare_for_update(context, obj, old)
        count = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
        if obj["spec"].get("template") != old["spec"].get("template"):
            count = str(int(count) + 1)
        _annotate(obj, count)


def _annotate(obj: JsonObject, count: str) -> None:
    meta = obj["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), TEMPLATE_GENERATION: count}


def _rolling(obj: JsonObject) -> JsonObject:
    rolling_update: JsonObject = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return rolling_update


class StatefulSetStrategy(WorkloadStrategy):
    """The strategy of StatefulSets; ``maxUnavailable`` is dropped because its feature gate is off."""

    shown_counts = ("replicas", "availableReplicas")

    def validate_spec(self, spec: JsonObject) -> Iterator[Cause]:
        return validate_stateful_set(spec)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Drop ``maxUnavailable``."""
        super().prepare_for_create(context, obj)
        _rolling(obj).pop("maxUnavailable", None)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Drop ``maxUnavailable``, unless the old object has it."""
        super().prepare_for_update(context, obj, old)
        if _rolling(old).get("maxUnavailable") is None:
            _rolling(obj).pop("maxUnavailable", None)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        return list(validate_stateful_set_update(obj, old))

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Check that the name is a DNS label, because pod host names begin with it."""
        return validation.dns_label(name, prefix=prefix)


class ControllerRevisionStrategy(GeneratedStrategy):
    """The strategy of ControllerRevisions; the data is immutable."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        return list(validate_controller_revision(obj))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        return list(validate_controller_revision_update(obj, old))


STRATEGIES: Mapping[str, StrategyFactory] = {
    "apps/deployments": DeploymentStrategy,
    "apps/replicasets": ReplicaSetStrategy,
    "apps/daemonsets": DaemonSetStrategy,
    "apps/controllerrevisions": ControllerRevisionStrategy,
    "apps/statefulsets": StatefulSetStrategy,
}
"""By ``group/resource``."""
