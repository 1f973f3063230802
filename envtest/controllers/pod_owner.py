"""What controllers that make pods share: whose pod is whose, and the shell around a plan."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from envtest.controllers.loops import Controller
from envtest.controllers.mirror import Event
from envtest.controllers.objects import controlled_by, controller_of, deleting, is_active, owner_reference
from envtest.controllers.writes import PODS, Patch, Resource, Write
from envtest.kinds.workload_rules import selects
from opsdk.apiserver.storage.ports import Tree


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, and in how many seconds to look again."""

    writes: Sequence[Write]
    again: float | None = None


# ------------------------------------------------------------------ core
def claim(owner: Tree, pods: Sequence[Tree], loose: Sequence[Tree]) -> tuple[list[Tree], list[Write]]:
    """The pods that count as the owner's, and the writes that take others in or let strangers go."""
    selector = owner["spec"].get("selector") or {}
    mine: list[Tree] = []
    writes: list[Write] = []
    for pod in pods:
        if not controlled_by(pod, owner):
            continue
        if selects(selector, pod["metadata"].get("labels") or {}):
            mine.append(pod)
        elif not deleting(pod):
            uid = owner["metadata"]["uid"]
            kept = [o for o in pod["metadata"]["ownerReferences"] if o.get("uid") != uid]
            writes.append(_owners(pod, kept))
    if deleting(owner):
        return mine, []
    for pod in loose:
        if is_active(pod) and selects(selector, pod["metadata"].get("labels") or {}):
            mine.append(pod)
            writes.append(_owners(pod, [owner_reference(owner)]))
    return mine, writes


def _owners(pod: Tree, owners: list[Tree]) -> Patch:
    meta = {"ownerReferences": owners or None, "resourceVersion": pod["metadata"]["resourceVersion"]}
    return Patch(PODS, pod, {"metadata": meta})


# ------------------------------------------------------------------ shell
class PodOwnerController(Controller):
    """Looks at an owner whenever it or one of its pods changes, or a pod comes that it could take in.

    Attributes:
        resource: the kind of the owners.
    """

    resource: Resource

    @abstractmethod
    def plan(self, owner: Tree, pods: Sequence[Tree], loose: Sequence[Tree]) -> Plan:
        """One step; `pods` name the owner, `loose` ones name nobody."""

    def wire(self) -> None:
        """Owners and pods."""
        self.hub.on(self.resource, self.add)
        self.hub.on(PODS, self._pod)

    def _pod(self, event: Event) -> None:
        for obj in (event.old, event.new):
            owner = None if obj is None else controller_of(obj)
            if obj is not None and owner is not None and owner.get("kind") == self.resource.kind:
                self.queue.add(self.resource.key(obj["metadata"]["namespace"], owner["name"]))
        if event.new is not None and not event.new["metadata"].get("ownerReferences"):
            self._stray(event.new)

    def _stray(self, pod: Tree) -> None:
        labels, namespace = pod["metadata"].get("labels") or {}, pod["metadata"]["namespace"]
        for owner in self.hub.in_namespace(self.resource, namespace) if labels else ():
            if selects(owner["spec"].get("selector") or {}, labels):
                self.queue.add(self.resource.key(namespace, owner["metadata"]["name"]))

    async def reconcile(self, key: str) -> float | None:
        """See `Controller`."""
        owner = self.hub.get(key)
        if owner is None:
            return None
        meta = owner["metadata"]
        pods = self.hub.dependents(meta["uid"], PODS.prefix)
        made = self.plan(owner, pods, self.hub.loose(PODS, meta["namespace"]))
        await self.write(made.writes)
        return made.again
