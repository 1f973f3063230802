"""Garbage collector: foreground, background and orphan deletion of dependents.

Upstream: pkg/controller/garbagecollector (v1.36)
"""

from __future__ import annotations

from contextlib import suppress

from envtest.controllers.controller import SimulatedController
from envtest.controllers.objects import deleting, owner_uids, stamp
from envtest.controllers.owner_references import (
    FOREGROUND,
    ORPHAN,
    OwnerState,
    Verdict,
    attempt_to_delete_verdict,
    blocking,
    has_finalizer,
    propagation_policy,
    state_of_owner,
    unblocked,
    without_finalizer,
    without_owner,
)
from envtest.controllers.writes import EVENTS, CreateWrite, DeleteWrite, PatchWrite, Resource
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import AlreadyExistsError, NotFoundError
from opsdk.structured_merge.value import JsonObject


class GarbageCollector(SimulatedController):
    """``garbage-collector``: keys of objects of every kind."""

    name = "garbage-collector"

    def add_event_handlers(self) -> None:
        """Watch every kind."""
        self.informers.add_event_handler_for_all(self._event)
        self._reported_owners: dict[str, set[str]] = {}
        """The uids of invalid owners that an Event reports, by the uid of the dependent."""

    def _event(self, change: StorageChange) -> None:
        """Queue the object, its dependents or its owners, as the change requires."""
        old, new = change.previous, change.current
        if change.key.startswith(EVENTS.prefix):
            return  # Events expire
        if new is None:
            for key in self.informers.dependent_keys(change.latest["metadata"]["uid"]):
                self.queue.add(key)
            self._enqueue_owners(change.latest)
            self._reported_owners.pop(change.latest["metadata"]["uid"], None)
            return
        if old is not None and _same(old, new):
            return
        if owner_uids(new) or (deleting(new) and new["metadata"].get("finalizers")):
            self.queue.add(change.key)
        if old is not None and old["metadata"].get("ownerReferences") != new["metadata"].get("ownerReferences"):
            self._enqueue_owners(old)

    def _enqueue_owners(self, obj: JsonObject) -> None:
        """Enqueue the owners of a removed object: foreground deletion may have waited for it."""
        for ref in obj["metadata"].get("ownerReferences") or ():
            resource = self.informers.resource_of(ref.get("apiVersion", ""), ref.get("kind", ""))
            if resource is None:
                continue
            key = resource.key(obj["metadata"].get("namespace", ""), ref.get("name", ""))
            owner = self.informers.get(key)
            if owner is not None and deleting(owner):
                self.queue.add(key)

    # -------------------------------------------------------------- one object
    async def reconcile(self, key: str) -> float | None:
        obj, resource = self.informers.get(key), self.informers.resource_at(key)
        if obj is None or resource is None:
            return None
        if deleting(obj):
            if has_finalizer(obj, ORPHAN):
                await self._orphan(resource, obj)
            elif has_finalizer(obj, FOREGROUND):
                await self._wait_for_dependents(resource, obj)
            return None
        has_dependents = bool(self.informers.dependent_keys(obj["metadata"]["uid"]))
        judgement = attempt_to_delete_verdict(
            obj, lambda ref: self._attempt_to_delete(ref, obj), has_dependents=has_dependents
        )
        match judgement.verdict:
            case Verdict.KEEP:
                await self._report_invalid_owner(resource, obj)
            case Verdict.PRUNE:
                await self._patch(resource, obj, {"ownerReferences": list(judgement.solid_references)})
            case Verdict.COLLECT_FOREGROUND:
                # Owners in a circle would wait for each other forever: the object that closes it is unblocked.
                dependents = self.informers.dependents(obj["metadata"]["uid"])
                freed = unblocked(obj)
                if freed is not None and any(deleting(d) and has_finalizer(d, FOREGROUND) for d in dependents):
                    await self.context.api.write(PatchWrite(resource, obj, {"metadata": {"ownerReferences": freed}}))
                await self._delete(resource, obj, "Foreground")
            case Verdict.COLLECT:
                await self._delete(resource, obj, propagation_policy(obj))
        return None

    def _attempt_to_delete(self, ref: JsonObject, obj: JsonObject) -> OwnerState:
        resource = self.informers.resource_of(ref.get("apiVersion", ""), ref.get("kind", ""))
        namespace = obj["metadata"].get("namespace", "")
        if resource is None or (resource.namespaced and not namespace):
            return OwnerState.UNKNOWN
        return state_of_owner(self.informers.get(resource.key(namespace, ref.get("name", ""))), ref.get("uid", ""))

    async def _orphan(self, resource: Resource, owner: JsonObject) -> None:
        uid = owner["metadata"]["uid"]
        for dependent in self.informers.dependents(uid):
            kind = self.informers.resource_of(dependent.get("apiVersion", ""), dependent.get("kind", ""))
            if kind is None:
                continue
            try:
                await self._patch(kind, dependent, {"ownerReferences": without_owner(dependent, uid)})
            except NotFoundError:
                continue
        await self._patch(resource, owner, {"finalizers": without_finalizer(owner, ORPHAN)})

    async def _wait_for_dependents(self, resource: Resource, owner: JsonObject) -> None:
        uid = owner["metadata"]["uid"]
        dependents = self.informers.dependents(uid)
        if not blocking(owner, dependents):
            await self._patch(resource, owner, {"finalizers": without_finalizer(owner, FOREGROUND)})
            return
        for key in self.informers.dependent_keys(uid):
            item = self.informers.get(key)
            if item is not None and not deleting(item):
                self.queue.add(key)

    # -------------------------------------------------------------- writes
    async def _patch(self, resource: Resource, obj: JsonObject, meta: JsonObject) -> None:
        patch = {"metadata": {**meta, "resourceVersion": obj["metadata"]["resourceVersion"]}}
        await self.context.api.write(PatchWrite(resource, obj, patch))

    async def _delete(self, resource: Resource, obj: JsonObject, propagation: str) -> None:
        await self.context.api.write(DeleteWrite(resource, obj, propagation))

    async def _report_invalid_owner(self, resource: Resource, obj: JsonObject) -> None:
        """Write one Event for a cluster-scoped object with a namespaced owner, which is invalid."""
        if obj["metadata"].get("namespace") or deleting(obj):
            return
        for ref in obj["metadata"].get("ownerReferences") or ():
            kind = self.informers.resource_of(ref.get("apiVersion", ""), ref.get("kind", ""))
            reported = self._reported_owners.get(obj["metadata"]["uid"], ())
            if kind is None or not kind.namespaced or ref.get("uid", "") in reported:
                continue
            self._reported_owners.setdefault(obj["metadata"]["uid"], set()).add(ref.get("uid", ""))
            with suppress(AlreadyExistsError):
                now = stamp(self.context.now())
                where = f"{ref['apiVersion']}/{ref['kind']}, namespace: , name: {ref['name']}, uid: {ref['uid']}"
                await self.context.api.write(
                    CreateWrite(
                        EVENTS,
                        {
                            "kind": "Event",
                            "apiVersion": "v1",
                            "metadata": {
                                "name": f"{obj['metadata']['name']}.{ref['uid'].replace('-', '')[:16]}",
                                "namespace": "default",
                            },
                            "involvedObject": {
                                "kind": resource.kind,
                                "apiVersion": resource.api_version,
                                "name": obj["metadata"]["name"],
                                "uid": obj["metadata"]["uid"],
                            },
                            "type": "Warning",
                            "reason": "OwnerRefInvalidNamespace",
                            "message": f'ownerRef [{where}] does not exist in namespace ""',
                            "source": {"component": "garbage-collector-controller"},
                            "firstTimestamp": now,
                            "lastTimestamp": now,
                            "count": 1,
                        },
                    )
                )


def _same(old: JsonObject, new: JsonObject) -> bool:
    """Whether owners, finalizers and the deletion timestamp are unchanged."""
    a, b = old["metadata"], new["metadata"]
    return all(a.get(k) == b.get(k) for k in ("ownerReferences", "finalizers", "deletionTimestamp"))
