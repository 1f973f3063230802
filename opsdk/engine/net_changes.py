"""From the writes of a run to the net change of each object. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.children.desired import without_trace
from opsdk.engine.differences import Difference, differences
from opsdk.engine.masking import SERVER_SET, without_metadata
from opsdk.engine.plan import ChangeAction
from opsdk.engine.recording import RunPhase, WriteSource
from opsdk.engine.writes import Entry
from opsdk.structured_merge.value import JsonObject

_IGNORED_RESOURCES: Final = frozenset({
    ("", "events"),
    ("events.k8s.io", "events"),
    ("coordination.k8s.io", "leases"),
    ("networking.k8s.io", "ipaddresses"),
})  # fmt: skip
_DEFINITION: Final = "CustomResourceDefinition"
_MAX_REVISIONS: Final = 100


class NetChange(msgspec.Struct, kw_only=True):
    """All writes of one object in a run.

    Attributes:
        key: of the storage.
        before: the object before the first write; None if it was created.
        after: the object after the last write; None if it was deleted.
        phase: of the first write.
        revisions: of the own writes, the first hundred.
        source: the reconcile of the first own write that has one.
        manager: of the last write that is not one of the built-in controllers.
        own: number of writes of the operator and the user.
        own_paths: the fields that the operator and the user changed in updates.
        replaced: it was deleted and created again.
        others: number of writes of a history. The first own write begins with what they left.
        deleted_by_others: a write of a history deleted it.
    """

    key: str
    before: JsonObject | None
    after: JsonObject | None
    phase: RunPhase
    source: WriteSource | None = None
    manager: str = ""
    own: int = 0
    own_paths: set[str] = msgspec.field(default_factory=set)
    replaced: bool = False
    others: int = 0
    deleted_by_others: bool = False
    revisions: list[int] = msgspec.field(default_factory=list)

    def add(self, entry: Entry, paths: Iterable[str], *, own: bool) -> None:
        """Add a write of the object: of the operator and the user, or of the built-in controllers.

        Args:
            entry: the write.
            paths: the fields that it changed; none if it created or deleted the object.
            own: it is a write of the operator or the user.
        """
        if self.before is not None and entry.after is not None:
            self.replaced = self.replaced or _uid(entry.after) != _uid(self.before)
        self.after = entry.after
        if not own:
            return
        if self.others and not self.own:
            self.before = entry.before
        self.own += 1
        self.manager = entry.writer.program
        if len(self.revisions) < _MAX_REVISIONS:
            self.revisions.append(entry.revision)
        self.own_paths.update(paths)

    def add_of_others(self, entry: Entry) -> None:
        """Add a write of a history."""
        self.add(entry, (), own=False)
        self.others += 1
        self.deleted_by_others |= entry.after is None or "deletionTimestamp" in entry.after["metadata"]

    @property
    def latest(self) -> JsonObject:
        """The object at the end, or before its deletion."""
        obj = self.after or self.before
        assert obj is not None
        return obj

    @property
    def subject(self) -> str:
        """Kind, namespace and name."""
        return subject_of_tree(self.latest)

    @property
    def action(self) -> ChangeAction:
        """What happened to it."""
        if self.before is None:
            return ChangeAction.CREATE
        if self.after is None:
            return ChangeAction.DELETE
        return ChangeAction.REPLACE if self.replaced else ChangeAction.UPDATE

    @property
    def differences(self) -> Sequence[Difference]:
        """The fields that differ between its beginning and its end, without what the server and its controllers set.

        Of an object that is new or replaced, the status is what the operator wrote into it.
        """
        all_differences = differences(without_server_set(self.before), without_server_set(self.after))
        if self.action is ChangeAction.UPDATE:
            return [each for each in all_differences if _is_below(each.path, self.own_paths)]
        return [each for each in all_differences if each.path != "status" or _is_below("status", self.own_paths)]


def is_ignored(entry: Entry) -> bool:
    """Whether a write is not a part of a plan: Events and leases change all the time, the server keeps addresses."""
    ref = entry.ref
    return (ref.group, ref.resource) in _IGNORED_RESOURCES


def _uid(obj: JsonObject) -> object:
    return obj["metadata"].get("uid")


def _is_below(path: str, paths: Collection[str]) -> bool:
    """Whether a field, one above it or one below it is among some paths: a write may add or remove a whole object."""
    return path in paths or any(each.startswith((f"{path}.", f"{path}[")) or _starts(path, each) for each in paths)


def _starts(path: str, above: str) -> bool:
    return path.startswith((f"{above}.", f"{above}["))


def without_server_set(obj: JsonObject | None) -> JsonObject | None:
    """Return an object without what the server and a fork set."""
    if obj is None:
        return None
    obj = without_trace(obj)  # the operator writes it in the cluster, and not in a plan
    if obj["kind"] == _DEFINITION:
        # The fork's server calls the conversion in this process: its address says nothing about the cluster.
        obj = {**obj, "spec": {name: value for name, value in obj["spec"].items() if name != "conversion"}}
    return without_metadata(obj, SERVER_SET)


class OwnerGraph:
    """Which object an object descends from, by the controlling owner references.

    Args:
        objects: of the snapshot.
        changes: of the run; their objects may be new.
    """

    def __init__(self, objects: Iterable[JsonObject], changes: Iterable[NetChange]) -> None:
        self._owners: dict[str, str] = {}
        self._objects: dict[str, JsonObject] = {}
        for obj in objects:
            self._add(obj)
        for change in changes:
            for state in (change.before, change.after):
                if state is not None:
                    self._add(state)

    def _add(self, obj: JsonObject) -> None:
        metadata = obj["metadata"]
        uid = str(metadata.get("uid", ""))
        self._objects[uid] = obj
        for owner in metadata.get("ownerReferences") or ():
            if owner.get("controller"):
                self._owners[uid] = str(owner.get("uid"))

    def is_rooted(self, obj: JsonObject) -> bool:
        """Whether the graph has the controlling owner of an object, its owner, and so on."""
        uid, visited = str(obj["metadata"].get("uid", "")), set[str]()
        while (uid := self._owners.get(uid, "")) and uid not in visited:
            visited.add(uid)
            if uid not in self._objects:
                return False
        return True

    def ancestors(self, obj: JsonObject) -> Iterator[JsonObject]:
        """Yield the controlling owner, its owner, and so on."""
        uid, visited = str(obj["metadata"].get("uid", "")), set[str]()
        while (uid := self._owners.get(uid, "")) and uid not in visited:
            visited.add(uid)
            if (owner := self._objects.get(uid)) is not None:
                yield owner


def effects(
    changes: Mapping[str, NetChange], ownership: OwnerGraph, keys: Mapping[str, str]
) -> Mapping[str, Sequence[str]]:
    """Return, by key of a change, what the built-in controllers made of it, as ``Pod: 2 created, 2 deleted``.

    Args:
        changes: of the run.
        ownership: of all objects.
        keys: the storage keys of the planned changes by the uid of their objects.
    """
    counts: dict[str, Counter[tuple[str, str]]] = {}
    for change in changes.values():
        if change.own:
            continue
        for owner in ownership.ancestors(change.latest):
            key = keys.get(str(owner["metadata"].get("uid", "")))
            if key is not None:
                counts.setdefault(key, Counter())[change.latest.get("kind", ""), _PAST[change.action]] += 1
                break
    return {key: _texts(counter) for key, counter in counts.items()}


_PAST: Final = {
    ChangeAction.CREATE: "created",
    ChangeAction.UPDATE: "updated",
    ChangeAction.REPLACE: "replaced",
    ChangeAction.DELETE: "deleted",
}


def _texts(counter: Counter[tuple[str, str]]) -> Sequence[str]:
    kinds = sorted({kind for kind, _ in counter})
    return [
        f"{kind}: " + ", ".join(f"{counter[kind, past]} {past}" for past in _PAST.values() if counter[kind, past])
        for kind in kinds
    ]
