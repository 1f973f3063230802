"""A server of one kind whose whole state is a value: objects, resource versions, history, compaction and one restore.

Resource versions grow by 100. After a restore they grow by 1, so that a version never returns, and each is in the order
of the time that it was made in.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from opsdk.apimachinery.gvk import ObjectKey

NAMESPACE = "ns"
STEP = 100


class Commit(NamedTuple):
    """One change of an object.

    Attributes:
        revision: its resource version.
        type: of its watch event.
        name: of the object.
        uid: of the object: the resource version of its creation.
        before: the resource version of the state that it replaced; 0 for a creation.
        own: the client under test made it.
    """

    revision: int
    type: str
    name: str
    uid: int
    before: int
    own: bool

    @property
    def data(self) -> bytes:
        """The object as JSON."""
        metadata = {
            "name": self.name,
            "namespace": NAMESPACE,
            "uid": str(self.uid),
            "resourceVersion": str(self.revision),
        }
        return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def key_of(name: str) -> ObjectKey:
    """Return the key of an object."""
    return ObjectKey(NAMESPACE, name)


def order_of(revision: int) -> tuple[bool, int]:
    """Return what puts resource versions in the order of time."""
    return revision % STEP != 0, revision


class RevisionServer:
    """Objects `a` and `b`, or none.

    Attributes:
        revision: the newest resource version.
        objects: the last commit of each object that exists.
        history: the commits that led to the objects.
        compacted: a watch from an earlier version expires.
        deleted: the resource version of the last deletion of each name.
        restored: the server went back.
        commits: all commits of all times, by their resource version.
    """

    def __init__(self) -> None:
        self.revision = STEP
        self.objects: dict[str, Commit] = {}
        self.history: list[Commit] = []
        self.compacted = 0
        self.deleted: dict[str, int] = {}
        self.restored = False
        self.commits: dict[int, Commit] = {}
        self.snapshots: list[tuple[int, dict[str, Commit]]] = [(STEP, {})]

    def put(self, name: str, *, own: bool = False) -> Commit:
        """Create or update an object."""
        old = self.objects.get(name)
        kind = "ADDED" if old is None else "MODIFIED"
        return self._commit(name, kind, old, own=own)

    def delete(self, name: str, *, own: bool = False) -> Commit:
        """Delete an object."""
        return self._commit(name, "DELETED", self.objects[name], own=own)

    def _commit(self, name: str, kind: str, old: Commit | None, *, own: bool) -> Commit:
        self.revision += 1 if self.restored else STEP
        uid, before = (self.revision, 0) if old is None else (old.uid, old.revision)
        commit = Commit(self.revision, kind, name, uid, before, own)
        self.history.append(commit)
        self.commits[self.revision] = commit
        if kind == "DELETED":
            del self.objects[name]
            self.deleted[name] = self.revision
        else:
            self.objects[name] = commit
        self.snapshots = [*self.snapshots[-2:], (self.revision, dict(self.objects))]
        return commit

    def events_after(self, revision: int) -> list[Commit]:
        """Return the commits that a watch has to send next."""
        return [commit for commit in self.history if commit.revision > revision]

    def compact(self) -> None:
        """Forget the history. A watch that is open sends the rest of it."""
        self.compacted = self.revision

    def restore(self, back: int) -> None:
        """Go back by some commits."""
        self.revision, objects = self.snapshots[-1 - back]
        self.objects = dict(objects)
        self.history = [commit for commit in self.history if commit.revision <= self.revision]
        self.deleted = {name: revision for name, revision in self.deleted.items() if revision <= self.revision}
        self.compacted = min(self.compacted, self.revision)
        self.restored = True
        self.snapshots = []
