# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Deployments, replica sets, stateful sets, daemon sets, and the old replication controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from envtest.kinds import rules
from envtest.kinds import workload_rules as checks
from envtest.kinds.base import TableStrategy
from envtest.kinds.kind_warnings import workload_warnings
from envtest.tables.load import Row
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.serializer.raw import raw_text
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""Counts changes of a daemon set's template, where an old API kept the count."""

_CHECKS: dict[str, Callable[[JsonObject], Iterator[Cause]]] = {
    "deployments": checks.validate_deployment,
    "replicasets": checks.validate_replica_set,
    "replicationcontrollers": checks.validate_replication_controller,
    "statefulsets": checks.validate_stateful_set,
    "daemonsets": checks.validate_daemon_set,
}


class WorkloadStrategy(TableStrategy):
    """A selector and a template that fit each other.

    Attributes:
        immutable_selector: whether the selector stays once it is set.
    """

    immutable_selector = True

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        if row.info.resource == "deployments":
            self.status_keeps = ("ownerReferences", "labels")
        if row.info.resource == "replicationcontrollers":
            self.selectable = {"status.replicas": lambda obj: str((obj.get("status") or {}).get("replicas", 0))}

    def initial_status(self, obj: JsonObject) -> JsonObject:
        """Some counts are always shown."""
        match self.info.resource:
            case "replicasets" | "replicationcontrollers":
                return {"replicas": 0}
            case "statefulsets":
                return {"replicas": 0, "availableReplicas": 0}
            case "daemonsets":
                keys = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
                return dict.fromkeys(keys, 0)
            case _:
                return {}

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Numbers, selector, template."""
        return list(_CHECKS[self.info.resource](obj.get("spec") or {}))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The selector stays."""
        found = list(self.validate(context, obj))
        now, before = obj["spec"].get("selector"), old["spec"].get("selector")
        if self.immutable_selector and now != before:
            found.append(api_errors.invalid_value("spec.selector", now, "field is immutable"))
        return found

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Counts."""
        return list(checks.validate_counts(self.info.resource, obj.get("status") or {}, old.get("status") or {}))

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Of its name and its template."""
        return list(workload_warnings(obj, old, resource=self.info.resource))

    def generation_changed(self, obj: JsonObject, old: JsonObject) -> bool:
        """Deployments count their annotations too."""
        if super().generation_changed(obj, old):
            return True
        annotations = (o["metadata"].get("annotations") or {} for o in (obj, old))
        return self.info.resource == "deployments" and next(annotations) != next(annotations)


class DaemonSetStrategy(WorkloadStrategy):
    """Changes of the template are counted in an annotation."""

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """The first one."""
        super().prepare_for_create(context, obj)
        _annotate(obj, "1")

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """One more, or as before; clients do not count."""
        super().prepare_for_update(context, obj, old)
        count = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
        if obj["spec"].get("template") != old["spec"].get("template"):
            count = str(int(count) + 1)
        _annotate(obj, count)


def _annotate(obj: JsonObject, count: str) -> None:
    meta = obj["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), TEMPLATE_GENERATION: count}


_SET_FIELDS = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def _rolling(obj: JsonObject) -> JsonObject:
    found: JsonObject = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return found


class StatefulSetStrategy(WorkloadStrategy):
    """Most of the spec stays; how many pods may be away at once is said by a feature that is off."""

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """See the class."""
        super().prepare_for_create(context, obj)
        _rolling(obj).pop("maxUnavailable", None)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """See the class."""
        super().prepare_for_update(context, obj, old)
        if _rolling(old).get("maxUnavailable") is None:
            _rolling(obj).pop("maxUnavailable", None)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """See the class."""
        found = list(self.validate(context, obj))
        now = {k: v for k, v in obj["spec"].items() if k not in _SET_FIELDS}
        before = {k: v for k, v in old["spec"].items() if k not in _SET_FIELDS}
        if now != before:
            listed = ", ".join(f"'{f}'" for f in _SET_FIELDS[:-1])
            text = f"updates to statefulset spec for fields other than {listed} and '{_SET_FIELDS[-1]}' are forbidden"
            found.append(api_errors.not_allowed("spec", text))
        return found

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Its pods' host names begin with it."""
        return validation.dns_label(name, prefix=prefix)


class ReplicationControllerStrategy(WorkloadStrategy):
    """The selector may change."""

    immutable_selector = False


class RevisionStrategy(TableStrategy):
    """Controller revisions: a number and data that stays."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """See the class."""
        found = list(rules.needed(obj.get("data"), "data", "data is mandatory"))
        return [*found, *rules.not_negative(obj.get("revision"), "revision")]

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """See the class."""
        found = list(self.validate(context, obj))
        if raw_text(obj.get("data")) != raw_text(old.get("data")):
            found.append(api_errors.invalid_value("data", obj.get("data"), "field is immutable"))
        return found
