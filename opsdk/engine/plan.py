"""A plan: what an operator would write, why, and what follows from it. Values, and their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum, StrEnum

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.engine.differences import Difference
from opsdk.engine.foreign_changes import PlayedChange
from opsdk.engine.snapshot import Unseen

__all__ = [
    "ChangeAction",
    "Consequence",
    "ConsequenceKind",
    "Plan",
    "PlannedChange",
    "PlannedObject",
    "Severity",
]


class ChangeAction(StrEnum):
    """What happens to an object until the end of a plan."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    """It is deleted and created again."""
    DELETE = "delete"


class Severity(IntEnum):
    """How much a reader should look at a consequence."""

    NOTE = 0
    WARNING = 1
    DANGER = 2
    """Data is lost, service is interrupted, or the operator cannot do its work."""


class ConsequenceKind(StrEnum):
    """What follows from the writes of a plan."""

    PODS_RESTART = "pods-restart"
    """Pods are deleted and created again."""
    PODS_REMOVED = "pods-removed"
    """Pods end, and no new ones take their places."""
    REPLACED = "replaced"
    """An object is deleted and created again, because a field is immutable or the operator does so."""
    DATA_DELETED = "data-deleted"
    """A volume, a claim, a namespace, a definition or a custom object is deleted."""
    WORKLOAD_DELETED = "workload-deleted"
    """A workload is deleted and not created again."""
    SERVICE_WITHOUT_PODS = "service-without-pods"
    """A Service loses all of its endpoints."""
    SERVICE_DELETED = "service-deleted"
    """A Service that answers is deleted, or gets another name."""
    BACKEND_LOST = "backend-lost"
    """An Ingress, a route of the Gateway API, a webhook or an API names a Service that no longer answers."""
    SECRET_CHANGED = "secret-changed"  # noqa: S105 - not a password
    """Values of a Secret that exists are replaced."""
    FIELD_PRUNED = "field-pruned"
    """The new definition does not have a field that objects use."""
    CONVERSION_LOSES_DATA = "conversion-loses-data"
    """A field of an object is lost between two versions of its kind, or the object cannot be converted."""
    FIELD_REMOVED = "field-removed"
    """The operator no longer sets a field."""
    FIELD_TAKEN_OVER = "field-taken-over"
    """Another field manager owned a field that the operator sets now."""
    LEFT_BEHIND = "left-behind"
    """An object of the operator that its new version neither writes nor deletes, although the owner stays."""
    FINALIZER_HANGS = "finalizer-hangs"
    """A deletion waits for a finalizer that nothing removes."""
    FIGHT = "fight"
    """Two writers change a field in turns."""
    LOOP = "loop"
    """Writes repeat without end."""
    CHANGE_REVERTED = "change-reverted"
    """A change of the user does not last: a field goes back, or a deleted object is created again."""
    REFUSED = "refused"
    """The server refuses a request of the operator, or a change of the user."""
    RECONCILE_FAILS = "reconcile-fails"
    """A reconcile still fails at the end: what it would write is not in the plan."""
    OPERATOR_FAILED = "operator-failed"
    """The operator ends by itself."""
    NO_FIXPOINT = "no-fixpoint"
    """The operator still writes at the horizon."""


class Consequence(msgspec.Struct, frozen=True):
    """One consequence of a plan.

    Attributes:
        kind: of the consequence.
        severity: how dangerous it is.
        subject: the object, such as ``StatefulSet shop/db``.
        message: what happens, in words.
    """

    kind: ConsequenceKind
    severity: Severity
    subject: str
    message: str


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """The net change of one object.

    Attributes:
        action: what happens to it.
        kind: of the object.
        api_version: of the object.
        namespace: of the object; empty for a cluster-scoped one.
        name: of the object.
        differences: of its fields, from the state before to that at the end.
        writes: number of writes.
        manager: the field manager of the last write.
        reason: why it is written, where the operator knows it.
        effects: what the built-in controllers do with it and its dependents, such as ``Pod: 2 created, 2 deleted``.
        generate_name: of the object; its name ends at random then.
    """

    action: ChangeAction
    kind: str
    api_version: str
    namespace: str
    name: str
    differences: Sequence[Difference] = ()
    writes: int = 1
    manager: str = ""
    reason: str = ""
    effects: Sequence[str] = ()
    generate_name: str = ""

    @property
    def subject(self) -> str:
        """Kind, namespace and name."""
        return f"{self.kind} {ObjectKey(self.namespace, self.name)}"


class PlannedObject(msgspec.Struct, frozen=True, kw_only=True):
    """What the reconciles of one object change.

    Attributes:
        controller: its name; empty for the installation, for the user's changes, and for writes outside of reconciles.
        subject: the reconciled object, such as ``Website default/site``; else a title.
        causes: why it was reconciled, the first ones.
        unread: objects that its reconciles looked at, and that were not read in the cluster. What depends on their
            values is not known.
        changes: in the order of their first writes.
    """

    controller: str
    subject: str
    causes: Sequence[str] = ()
    unread: Sequence[str] = ()
    changes: Sequence[PlannedChange] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator would write, why, and what follows from it.

    Attributes:
        operator: its name.
        taken_at: when the snapshot was taken.
        server_version: of the cluster.
        seconds: virtual time until the end.
        objects: the reconciled objects with their changes.
        consequences: the most dangerous ones first.
        unseen: what the snapshot lacks: the plan cannot promise what depends on it.
        blind: those of `unseen` that the operator reads or writes: they can hide a write.
        unknown: objects that the operator or the user wrote in the run, and whose kinds were not read in the cluster.
            They may exist there, so what happens to them is not known.
        connections: targets outside of the fork that the operator tried to reach, and could not.
        collected: objects that the built-in controllers delete and the operator does not write, such as dependents.
        played: what others changed while the operator ran, from a recording.
        against: the version that the plan is compared with; empty for a plan of its own. The plan has only what this
            version does and that one does not.
        omitted: what the other version changes, and this one does not.
    """

    operator: str
    taken_at: str
    server_version: str
    seconds: float = 0.0
    objects: Sequence[PlannedObject] = ()
    consequences: Sequence[Consequence] = ()
    unseen: Sequence[Unseen] = ()
    blind: Sequence[Unseen] = ()
    unknown: Sequence[str] = ()
    connections: Sequence[str] = ()
    collected: Sequence[str] = ()
    played: Sequence[PlayedChange] = ()
    against: str = ""
    omitted: Sequence[PlannedObject] = ()

    @property
    def changes(self) -> Iterator[PlannedChange]:
        """All changes."""
        for planned in self.objects:
            yield from planned.changes

    def count(self, action: ChangeAction) -> int:
        """Return the number of changes with an action."""
        return sum(change.action is action for change in self.changes)

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes, and nothing follows."""
        unchanged = not self.objects and not self.omitted
        return unchanged and all(each.severity is Severity.NOTE for each in self.consequences)

    @property
    def is_dangerous(self) -> bool:
        """Whether a consequence is dangerous."""
        return any(each.severity is Severity.DANGER for each in self.consequences)
