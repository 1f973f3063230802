"""What the finders of consequences look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.tree_names import kind_in
from opsdk.engine.net_changes import NetChange, OwnerGraph
from opsdk.engine.plan import ChangeAction
from opsdk.engine.run import RunOutcome
from opsdk.engine.snapshot_kinds import UnreadKinds
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.conversion import Converter


class Evidence(msgspec.Struct, kw_only=True, dict=True):
    """A run, seen as a whole.

    Attributes:
        operator: its name: the field managers of its controllers begin with it.
        finalizers: that the operator handles.
        converters: of its kinds.
        outcome: of the run.
        ownership: of the objects before and after.
        unread: what of the cluster the snapshot does not have.
    """

    operator: str
    finalizers: frozenset[str]
    converters: Mapping[GroupKind, Converter]
    outcome: RunOutcome
    ownership: OwnerGraph
    unread: UnreadKinds

    @cached_property
    def by_uid(self) -> Mapping[str, NetChange]:
        """The changes by the uid of the object before them."""
        return {
            str(change.before["metadata"].get("uid", "")): change
            for change in self.outcome.changes.values()
            if change.before
        }

    @cached_property
    def by_kind(self) -> Mapping[str, Sequence[JsonObject]]:
        """The objects before the run by their kind: each deletion looks for definitions."""
        objects: dict[str, list[JsonObject]] = {}
        for obj in self.outcome.begin.objects:
            objects.setdefault(obj["kind"], []).append(obj)
        return objects

    @cached_property
    def touched(self) -> frozenset[str]:
        """Kind, namespace and name of the objects that a reconcile read or wrote."""
        return frozenset(f"{kind_in(gvk)} {key}" for each in self.outcome.looked_at.values() for gvk, key in each)

    def unread_by(self, controller: str, subject: str) -> Sequence[str]:
        """Return what the reconciles of an object looked at, and what was not read in the cluster."""
        looked_at = self.outcome.looked_at.get((controller, subject), ())
        return sorted(f"{kind_in(gvk)} {key}" for gvk, key in looked_at if self.unread.is_unread(gvk, key))

    def change_of(self, obj: JsonObject) -> NetChange | None:
        """Return the change of an object that existed before the run; None if it did not change."""
        return self.by_uid.get(str(obj["metadata"].get("uid", "")))

    def at_end(self, obj: JsonObject) -> JsonObject | None:
        """Return an object of before as it is at the end of the run; None if it was deleted."""
        change = self.change_of(obj)
        return obj if change is None else change.after

    def before(self, kind: str) -> Iterator[JsonObject]:
        """Yield the objects of a kind before the run."""
        return iter(self.by_kind.get(kind, ()))

    def after(self, kind: str) -> Iterator[JsonObject]:
        """Yield the objects of a kind at the end of the run."""
        for obj in self.before(kind):
            if (current := self.at_end(obj)) is not None:
                yield current
        for change in self.outcome.changes.values():
            if change.before is None and change.after is not None and change.after.get("kind") == kind:
                yield change.after

    def of_kind(self, kind: str) -> Iterator[NetChange]:
        """Yield the changes of objects of a kind."""
        return (change for change in self.outcome.changes.values() if change.latest.get("kind") == kind)

    def is_deleted(self, obj: JsonObject) -> bool:
        """Whether an object of before is not there at the end."""
        change = self.change_of(obj)
        return change is not None and change.action is ChangeAction.DELETE

    def is_deleted_by_others(self, change: NetChange) -> bool:
        """Whether a history has the deletion of an object, or of one that it belongs to."""
        changes = (self.change_of(owner) for owner in self.ownership.ancestors(change.latest))
        return change.deleted_by_others or any(each is not None and each.deleted_by_others for each in changes)

    def workload_of(self, pod: JsonObject) -> JsonObject:
        """Return the outermost built-in workload of a Pod, such as its Deployment.

        Without one, it is what controls the Pod, such as a custom resource; without that, the Pod.
        """
        owners = list(self.ownership.ancestors(pod))
        built_in = [owner for owner in owners if owner.get("kind") in WORKLOADS]
        return (built_in[-1:] or owners[:1] or [pod])[0]


WORKLOADS = frozenset(
    {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"}
)
"""The built-in kinds that make Pods."""
