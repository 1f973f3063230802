"""A small world for pure cores: it carries out their writes on plain objects, without a server or a clock."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from envtest.controllers.objects import stamp
from envtest.controllers.writes import (
    PODS,
    CreateWrite,
    DeleteWrite,
    PatchWrite,
    PendingEvent,
    Resource,
    UpdateWrite,
    Write,
)
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.structured_merge.value import JsonObject


class World:
    """Objects by where they are kept; deleted pods wait for `end`, as on a node, where `graceful`."""

    def __init__(self, *, graceful: bool = True) -> None:
        self.objects: dict[str, JsonObject] = {}
        self.notes: list[PendingEvent] = []
        self.now = datetime(2024, 1, 1, tzinfo=UTC)
        self.graceful = graceful
        self._numbers = itertools.count(1)

    # ------------------------------------------------------------ what cores ask for
    def apply(self, write: Write | PendingEvent) -> None:
        """Carry out one write."""
        if isinstance(write, PendingEvent):
            self.notes.append(write)
            return
        if write.success_event is not None:
            self.notes.append(write.success_event)
        match write:
            case CreateWrite(resource=resource, obj=obj):
                self.add(resource, obj)
            case UpdateWrite(resource=resource, obj=obj, subresource=sub):
                held = self._at(resource, obj)
                assert held["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]
                if sub == "status":
                    self._put(resource, {**held, "metadata": obj["metadata"], "status": copy_tree(obj["status"])})
                else:
                    grown = obj["metadata"].get("generation", 1) + (held.get("spec") != obj.get("spec"))
                    changed = {**copy_tree(obj), "status": held.get("status", {})}
                    changed["metadata"]["generation"] = grown
                    self._put(resource, changed)
            case PatchWrite(resource=resource, obj=obj, patch=patch):
                if self._key(resource, obj) in self.objects:
                    self._patch(resource, self._at(resource, obj), patch)
            case DeleteWrite(resource=resource, obj=obj):
                self.delete(resource, obj)

    def run(self, writes: Iterable[Write | PendingEvent]) -> None:
        """Carry out all of them."""
        for write in writes:
            self.apply(write)

    # ------------------------------------------------------------ what others do
    def add(self, resource: Resource, obj: JsonObject) -> JsonObject:
        """Create."""
        number = next(self._numbers)
        tree = copy_tree(obj)
        meta = tree["metadata"]
        meta.setdefault("name", f"{meta.pop('generateName', 'x-')}{number:05}")
        meta.setdefault("namespace", "default")
        meta.update(uid=f"uid-{number}", creationTimestamp=stamp(self.now), generation=1)
        assert self._key(resource, tree) not in self.objects, "it is there already"
        if resource == PODS:
            tree.setdefault("status", {"phase": "Pending"})
        self._put(resource, tree)
        return tree

    def delete(self, resource: Resource, obj: JsonObject) -> None:
        """Delete: pods that run end in their own time."""
        held = self.objects.get(self._key(resource, obj))
        if held is None or held["metadata"]["uid"] != obj["metadata"]["uid"]:
            return
        waits = resource == PODS and self.graceful and held["spec"].get("nodeName")
        if waits or held["metadata"].get("finalizers"):
            meta = {"deletionTimestamp": stamp(self.now), **held["metadata"]}
            self._put(resource, {**held, "metadata": meta})
        else:
            del self.objects[self._key(resource, held)]

    def end(self, pod: JsonObject, phase: str) -> None:
        """A pod ends, or goes for good if it was deleted."""
        status = {**pod["status"], "phase": phase, "conditions": []}
        ended = {**pod, "status": status, "spec": {k: v for k, v in pod["spec"].items() if k != "nodeName"}}
        self._put(PODS, ended)
        if ended["metadata"].get("deletionTimestamp") and not ended["metadata"].get("finalizers"):
            del self.objects[self._key(PODS, ended)]

    def ready(self, pod: JsonObject) -> None:
        """A pod runs and is ready."""
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.now)}]
        running = {**pod["status"], "phase": "Running", "conditions": conditions}
        self._put(PODS, {**pod, "status": running, "spec": {**pod["spec"], "nodeName": "node-1"}})

    def change(self, resource: Resource, obj: JsonObject, **spec: Any) -> None:
        """A user changes a spec."""
        meta = {**obj["metadata"], "generation": obj["metadata"].get("generation", 1) + 1}
        self._put(resource, {**obj, "metadata": meta, "spec": {**obj["spec"], **spec}})

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += timedelta(seconds=seconds)

    # ------------------------------------------------------------ reading
    def all(self, resource: Resource) -> list[JsonObject]:
        """Every object of a kind."""
        return [o for k, o in self.objects.items() if k.startswith(resource.prefix)]

    def owned(self, resource: Resource, owner: JsonObject) -> list[JsonObject]:
        """Those that name an owner."""
        uid = owner["metadata"]["uid"]
        return [o for o in self.all(resource) if uid in _owners(o)]

    def loose(self, resource: Resource) -> list[JsonObject]:
        """Those without one."""
        return [o for o in self.all(resource) if not list(_owners(o))]

    def one(self, resource: Resource, name: str) -> JsonObject:
        """The object of a name."""
        return self.objects[resource.key("default", name)]

    # ------------------------------------------------------------ inside
    def _key(self, resource: Resource, obj: JsonObject) -> str:
        return resource.key(obj["metadata"].get("namespace", "default"), obj["metadata"]["name"])

    def _at(self, resource: Resource, obj: JsonObject) -> JsonObject:
        return self.objects[self._key(resource, obj)]

    def _put(self, resource: Resource, obj: JsonObject) -> None:
        meta = {**obj["metadata"], "resourceVersion": str(next(self._numbers))}
        self.objects[self._key(resource, obj)] = {**obj, "metadata": meta}

    def _patch(self, resource: Resource, held: JsonObject, patch: JsonObject) -> None:
        meta = dict(held["metadata"])
        for key, value in patch.get("metadata", {}).items():
            if key == "$deleteFromPrimitiveList/finalizers":
                meta["finalizers"] = [f for f in meta.get("finalizers", []) if f not in value]
            elif value is None:
                meta.pop(key, None)
            elif key not in ("uid", "resourceVersion"):
                meta[key] = value
        rest = {k: v for k, v in patch.items() if k != "metadata"}
        changed = {**held, **rest, "metadata": meta}
        self._put(resource, changed)
        gone = not meta.get("finalizers") and meta.get("deletionTimestamp") and not changed["spec"].get("nodeName")
        if gone:
            del self.objects[self._key(resource, changed)]


def _owners(obj: JsonObject) -> Iterator[str]:
    for ref in obj["metadata"].get("ownerReferences") or ():
        yield ref["uid"]
