"""Changes that others than the operator made in a cluster, as values, and the file that holds them. Pure.

The file has one JSON document a line, so that `jq` reads it and a diff shows what changed: a header, then the changes
in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.engine.tree_changes import TreeChange
from opsdk.errors import OpsdkError
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject

__all__ = [
    "ForeignAction",
    "ForeignChange",
    "HistoryError",
    "PlayedChange",
    "read_history",
    "read_history_file",
    "simulated_controllers",
    "write_history",
]

FORMAT: Final = 1
"""The version of the file format that this version writes. It reads this one and older ones."""
_NAME: Final = "opsdk.dev/history"
_CONTROLLERS: Final = {
    "CronJob": ("cronjob",),
    "DaemonSet": ("daemonset",),
    "Deployment": ("deployment",),
    "Job": ("job",),
    "Node": ("node-lifecycle", "taint-eviction"),
    "PersistentVolume": ("persistentvolume-binder",),
    "PersistentVolumeClaim": ("persistentvolume-binder",),
    "Pod": ("kubelet", "pod-garbage-collector"),
    "PodDisruptionBudget": ("disruption",),
    "ReplicaSet": ("replicaset",),
    "ReplicationController": ("replicationcontroller",),
    "ResourceQuota": ("resourcequota",),
    "StatefulSet": ("statefulset",),
}
"""The simulated controllers that write the status of a kind, or create its dependents."""


class HistoryError(OpsdkError):
    """A file with changes of others cannot be read: another format, or it was changed by hand."""


class ForeignAction(StrEnum):
    """What another client did to an object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class ForeignChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A change that another client made.

    Attributes:
        seconds: when the operator saw it, from the beginning of the run.
        action: what happened to the object.
        api_version: of the object.
        kind: of the object.
        namespace: of the object; empty for a cluster-scoped one.
        name: of the object.
        manager: the field manager that made it; empty if it is not known.
        generation: of the object afterwards; 0 if it has none.
        before: of an update, the fields that it changed or removed.
        after: of an update, the fields that it changed or added; of a creation, the object.
    """

    seconds: float
    action: ForeignAction
    api_version: str
    kind: str
    namespace: str = ""
    name: str
    manager: str = ""
    generation: int = 0
    before: JsonObject = {}
    after: JsonObject = {}

    @property
    def subject(self) -> str:
        """Kind, namespace and name."""
        return f"{self.kind} {ObjectKey(self.namespace, self.name)}"

    @property
    def fields(self) -> TreeChange:
        """The fields that an update touches."""
        return TreeChange(self.before, self.after)


class PlayedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of another client in a run.

    Attributes:
        change: as it was recorded.
        writes: what the operator wrote before it, since the change before.
        failing: the reconciles that failed last, before it, each with its object and the error.
        skipped: why it was not made; empty if it was.
    """

    change: ForeignChange
    writes: Sequence[str] = ()
    failing: Sequence[str] = ()
    skipped: str = ""


def simulated_controllers(history: Iterable[ForeignChange]) -> str:
    """Return the simulated controllers of a run with a history: all but those whose work the history has.

    >>> change = ForeignChange(seconds=1, action=ForeignAction.UPDATE, api_version="apps/v1", kind="Deployment",
    ...     name="web", after={"status": {"readyReplicas": 1}})
    >>> simulated_controllers([change])
    'cluster,-deployment'
    """
    kinds = set[str]()
    for change in history:
        if change.action is ForeignAction.UPDATE and ("status" in change.before or "status" in change.after):
            kinds.add(change.kind)
        if change.action is ForeignAction.CREATE:
            owners = (change.after.get("metadata") or {}).get("ownerReferences") or ()
            kinds.update(str(owner.get("kind")) for owner in owners)
    names = {name for kind in kinds for name in _CONTROLLERS.get(kind, ())}
    return ",".join(["cluster", *(f"-{name}" for name in sorted(names))])


# ------------------------------------------------------------------ the file
class _Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    format: str = ""
    format_version: int = 0


def write_history(history: Sequence[ForeignChange]) -> bytes:
    """Return the bytes of a file with changes. Equal changes have equal bytes."""
    values = (_Header(format=_NAME, format_version=FORMAT), *history)
    return b"".join(msgspec.json.encode(value) + b"\n" for value in values)


def read_history(data: bytes) -> Sequence[ForeignChange]:
    """Return the changes in the bytes of a file.

    Raises:
        HistoryError: it has another format, a later version of it, or a change without a field that it needs.
    """
    lines = data.splitlines()
    try:
        header = msgspec.json.decode(lines[0] if lines else b"", type=_Header)
    except JSON_ERRORS:
        header = _Header()
    if header.format != _NAME:
        raise HistoryError("this is no history of opsdk: write one with opsdk replay --cut")
    if header.format_version > FORMAT:
        raise HistoryError(
            f"the history has format {header.format_version}, and this opsdk reads up to {FORMAT}: "
            "install a newer opsdk"
        )
    return list(_changes(lines[1:]))


def _changes(lines: Sequence[bytes]) -> Iterator[ForeignChange]:
    for number, line in enumerate(lines, 2):
        try:
            change = msgspec.json.decode(line, type=ForeignChange)
        except JSON_ERRORS as error:
            raise HistoryError(f"line {number} of the history is no change: {error}; cut the test again") from error
        if change.action is ForeignAction.CREATE and not isinstance(change.after.get("metadata"), dict):
            raise HistoryError(f"line {number} of the history creates an object without metadata: cut the test again")
        yield change


def read_history_file(path: Path) -> Sequence[ForeignChange]:
    """Return the changes of a file. Raises `HistoryError`."""
    try:
        return read_history(path.read_bytes())
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {error}") from error
