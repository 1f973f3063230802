"""Namespace controller: delete the content of terminating namespaces and report what remains.

Upstream: pkg/controller/namespace (v1.36)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from envtest.controllers.controller import SimulatedController
from envtest.controllers.objects import conditions_of, deleting, stamp, with_condition, with_status
from envtest.controllers.writes import NAMESPACES, PODS, DeleteWrite, Resource, UpdateWrite
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import ConflictError, NotFoundError
from opsdk.structured_merge.value import JsonObject

_FINALIZER = "kubernetes"


# ------------------------------------------------------------------ core
@dataclass(frozen=True, slots=True)
class RemainingContent:
    """The remaining objects by resource (``widgets.demo.io``) and by finalizer."""

    objects: Mapping[str, int]
    finalizers: Mapping[str, int]

    @classmethod
    def of(cls, objects: Sequence[tuple[Resource, JsonObject]]) -> RemainingContent:
        """Count objects."""
        held = (f for _, obj in objects for f in obj["metadata"].get("finalizers") or ())
        return cls(Counter(f"{r.plural}.{r.group}" for r, _ in objects), Counter(held))

    def __bool__(self) -> bool:
        return bool(self.objects)


def conditions(namespace: JsonObject, remaining: RemainingContent, now: str) -> list[JsonObject]:
    """Return the deletion conditions of a terminating namespace."""
    existing = conditions_of(namespace)
    content = (False, "ContentRemoved", "All content successfully removed")
    if remaining.objects:
        listed = ", ".join(f"{name} has {n} resource instances" for name, n in sorted(remaining.objects.items()))
        content = (True, "SomeResourcesRemain", f"Some resources are remaining: {listed}")
    held = (False, "ContentHasNoFinalizers", "All content-preserving finalizers finished")
    if remaining.finalizers:
        listed = ", ".join(f"{name} in {n} resource instances" for name, n in sorted(remaining.finalizers.items()))
        text = f"Some content in the namespace has finalizers remaining: {listed}"
        held = (True, "SomeFinalizersRemain", text)
    done = "All content successfully deleted, may be waiting on finalization"
    for kind, holds, reason, message in [
        ("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            False,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        ("NamespaceDeletionContentFailure", False, "ContentDeleted", done),
        ("NamespaceContentRemaining", *content),
        ("NamespaceFinalizersRemaining", *held),
    ]:
        entry = {
            "type": kind,
            "status": str(holds),
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        existing = with_condition(existing, entry)
    return existing


def finalized(namespace: JsonObject) -> JsonObject:
    """Return the namespace without the finalizer ``kubernetes``."""
    spec = namespace.get("spec") or {}
    return {**namespace, "spec": {**spec, "finalizers": [f for f in spec.get("finalizers") or () if f != _FINALIZER]}}


# ------------------------------------------------------------------ shell
class NamespaceController(SimulatedController):
    """``namespace``: keys of Namespaces."""

    name = "namespace"

    def add_event_handlers(self) -> None:
        """Watch namespaces, and objects in terminating ones."""
        self.informers.add_event_handler(NAMESPACES, self._namespace)
        self.informers.add_event_handler_for_all(self._content)

    def _namespace(self, change: StorageChange) -> None:
        if change.current is not None and deleting(change.current):
            self.queue.add(change.key)

    def _content(self, change: StorageChange) -> None:
        name = change.latest["metadata"].get("namespace")
        if not name or (change.current is not None and not deleting(change.current) and change.previous is not None):
            return
        key = NAMESPACES.key("", name)
        namespace = self.informers.get(key)
        if namespace is not None and deleting(namespace):
            self.queue.add(key)

    async def reconcile(self, key: str) -> float | None:
        namespace = self.informers.get(key)
        if namespace is None or not deleting(namespace):
            return None
        name = namespace["metadata"]["name"]
        # Delete all content, pods first. `pods` then holds the objects that remain.
        await self._delete_all(PODS, name)
        pods = self._existing_objects([PODS], name)
        if not pods:
            others = [r for r in self.informers.resources if r.namespaced]
            for resource in others:
                await self._delete_all(resource, name)
            pods = self._existing_objects(others, name)
        remaining = RemainingContent.of(pods)
        status = {
            **(namespace.get("status") or {}),
            "conditions": conditions(namespace, remaining, stamp(self.context.now())),
        }
        if remaining:
            if status != namespace.get("status"):
                await self.context.api.write(UpdateWrite(NAMESPACES, with_status(namespace, status), "status"))
        elif _FINALIZER in ((namespace.get("spec") or {}).get("finalizers") or ()):
            await self.context.api.write(UpdateWrite(NAMESPACES, finalized(namespace), "finalize"))
        return None

    async def _delete_all(self, resource: Resource, namespace: str) -> None:
        for obj in self.informers.in_namespace(resource, namespace):
            if not deleting(obj):
                with suppress(NotFoundError, ConflictError):
                    await self.context.api.write(DeleteWrite(resource, obj))

    def _existing_objects(self, resources: Sequence[Resource], namespace: str) -> list[tuple[Resource, JsonObject]]:
        return [(r, obj) for r in resources for obj in self.informers.in_namespace(r, namespace)]
