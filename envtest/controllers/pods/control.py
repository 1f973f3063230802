"""The base of controllers that own pods: adoption, release, and execution of a plan.

Upstream: pkg/controller/controller_ref_manager.go (v1.36)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from envtest.controllers.controller import ObjectController
from envtest.controllers.objects import controlled_by, controller_of, deleting, is_active, owner_reference
from envtest.controllers.writes import PODS, CreateWrite, DeleteWrite, PatchWrite, PendingEvent, Write, Writes
from envtest.groups.common.label_selectors import selects
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject


@dataclass(frozen=True, slots=True)
class PodPlan:
    """The writes of one sync, and the seconds until the next one."""

    writes: Writes
    requeue_after: float | None = None


# ------------------------------------------------------------------ core
def claim(
    owner: JsonObject, pods: Sequence[JsonObject], orphans: Sequence[JsonObject], *, finalizer: str = ""
) -> tuple[list[JsonObject], list[Write]]:
    """Return the owner's pods, and the writes that adopt matching pods and release others.

    Adoption adds `finalizer` to a pod, and release removes it.
    """
    selector = selector_of(owner)
    owned: list[JsonObject] = []
    writes: list[Write] = []
    for pod in pods:
        if not controlled_by(pod, owner):
            continue
        if selects(selector, pod["metadata"].get("labels") or {}):
            owned.append(pod)
        elif not deleting(owner):
            uid = owner["metadata"]["uid"]
            references = [o for o in pod["metadata"]["ownerReferences"] if o.get("uid") != uid]
            writes.append(_owners_patch(pod, references, [f for f in _finalizers(pod) if f != finalizer]))
    if deleting(owner):
        return owned, []
    for pod in orphans:
        if is_active(pod) and selects(selector, pod["metadata"].get("labels") or {}):
            owned.append(pod)
            owners = [*(pod["metadata"].get("ownerReferences") or ()), owner_reference(owner)]
            held = [finalizer] if finalizer and finalizer not in _finalizers(pod) else []
            writes.append(_owners_patch(pod, owners, [*_finalizers(pod), *held]))
    return owned, writes


def _finalizers(pod: JsonObject) -> list[str]:
    return list(pod["metadata"].get("finalizers") or ())


def _owners_patch(pod: JsonObject, owners: list[JsonObject], finalizers: list[str]) -> PatchWrite:
    meta = {"ownerReferences": owners or None, "resourceVersion": pod["metadata"]["resourceVersion"]}
    if finalizers != _finalizers(pod):
        meta["finalizers"] = finalizers or None
    return PatchWrite(PODS, pod, {"metadata": meta})


def selector_of(owner: JsonObject) -> JsonObject:
    """Return the selector of a workload; a ReplicationController has a plain map of labels."""
    selector: JsonObject = owner["spec"].get("selector") or {}
    return {"matchLabels": selector} if owner.get("kind") == "ReplicationController" else selector


def make_pod(pod: JsonObject, owner: JsonObject) -> CreateWrite:
    """Return the creation of a pod, with its Events."""
    done = PendingEvent(owner, "SuccessfulCreate", "Created pod: {name}")
    return CreateWrite(
        PODS,
        pod,
        success_event=done,
        failure_event=PendingEvent(owner, "FailedCreate", "Error creating: {error}", warning=True),
    )


def remove_pod(pod: JsonObject, owner: JsonObject) -> DeleteWrite:
    """Return the deletion of a pod, with its Events."""
    done = PendingEvent(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
    failure = PendingEvent(owner, "FailedDelete", "Error deleting: {error}", warning=True)
    return DeleteWrite(PODS, pod, success_event=done, failure_event=failure)


# ------------------------------------------------------------------ shell
class PodOwnerController(ObjectController):
    """Syncs an owner when it, one of its pods, or a pod that it may adopt changes.

    Attributes:
        resource: the kind of the owners.
    """

    @abstractmethod
    async def step(
        self, owner: JsonObject, pods: Sequence[JsonObject], orphans: Sequence[JsonObject], failed: str
    ) -> float | None:
        """Run one sync; `orphans` are pods without a controller, `failed` is the error of the last pod creation.

        Returns the value that `sync` returns.
        """

    def add_event_handlers(self) -> None:
        """Watch owners and pods."""
        super().add_event_handlers()
        self.informers.add_event_handler(PODS, self._pod)

    def _pod(self, change: StorageChange) -> None:
        self.add_controller(change, self.resource)
        if change.current is not None and controller_of(change.current) is None:
            labels, namespace = change.current["metadata"].get("labels") or {}, change.current["metadata"]["namespace"]
            for owner in self.informers.in_namespace(self.resource, namespace) if labels else ():
                if selects(selector_of(owner), labels):
                    self.queue.add(self.resource.key(namespace, owner["metadata"]["name"]))

    async def sync(self, obj: JsonObject) -> float | None:
        """See `ObjectController`; after a refused pod, a second sync writes the error into the status."""
        try:
            return await self._step(obj, "")
        except ApiError as error:
            current = self.current(obj) if error is self.reported_error else None
            if current is not None:
                await self._step(current, error.message)
            raise

    async def _step(self, owner: JsonObject, failed: str) -> float | None:
        meta = owner["metadata"]
        pods = self.informers.dependents(meta["uid"], PODS.prefix)
        return await self.step(owner, pods, self.informers.orphans(PODS, meta["namespace"]), failed)


class PlanningController(PodOwnerController):
    """A controller whose sync is a pure function."""

    @abstractmethod
    def plan(
        self, owner: JsonObject, pods: Sequence[JsonObject], orphans: Sequence[JsonObject], failed: str
    ) -> PodPlan:
        """Return the writes of one sync; see `step`."""

    async def step(
        self, owner: JsonObject, pods: Sequence[JsonObject], orphans: Sequence[JsonObject], failed: str
    ) -> float | None:
        result = self.plan(owner, pods, orphans, failed)
        await self.write(result.writes)
        return result.requeue_after
