"""Shared informers on a storage in this process, which is their store: reads are never late.

They need no reflector, no second store and no deltas: `LocalStorage` returns its objects at once, and calls listeners
with each change. The objects are the storage's own trees; callers never modify them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from envtest.controllers.index import ObjectIndex
from envtest.controllers.objects import controller_of, owner_uids
from envtest.controllers.writes import PODS, REPLICA_SETS, Resource
from opsdk.apiserver.storage.objects import bucket_of
from opsdk.apiserver.storage.ports import ChangeType, KeyNotFoundError, LocalStorage, StorageChange
from opsdk.structured_merge.value import JsonObject

_LOG = logging.getLogger("envtest.controllers")
_DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions/"
_ADOPTABLE: Final = (PODS.prefix, REPLICA_SETS.prefix)
"""The kinds whose objects without a controller may be adopted."""

Handler = Callable[[StorageChange], None]
"""Is called with each change of an object, in the order of the writes. It must not block."""


class SharedInformers:
    """The objects of every served kind, indices by owner and by node, and event handlers.

    The event loop calls the handlers soon after the write, so that several changes lead to one reconcile. A handler
    that raises is logged, and does not stop the others.

    Args:
        storage: holds the objects.
        resources: the built-in kinds; custom resources follow from their definitions.
    """

    def __init__(self, storage: LocalStorage, resources: Iterable[Resource]) -> None:
        self._storage = storage
        self._by_bucket: dict[str, Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._by_owner = ObjectIndex[str]()
        self._orphans = ObjectIndex[str]()
        self._by_node = ObjectIndex[str]()
        self._handlers: dict[str, list[Handler]] = {}
        self._handlers_of_all: list[Handler] = []
        self._undelivered: list[StorageChange] = []
        for resource in resources:
            self._add(resource)

    def __repr__(self) -> str:
        return f"<SharedInformers of {len(self._by_bucket)} kinds>"

    # -------------------------------------------------------------- life cycle
    def start(self) -> None:
        """Call the handlers with the existing objects now, and with every later change."""
        self._storage.subscribe(self._on_change)
        for resource in self.resources:
            self._replay(resource)
        self._deliver()

    def stop(self) -> None:
        """Call no handler any more; idempotent."""
        self._storage.unsubscribe(self._on_change)
        self._undelivered.clear()

    def _replay(self, resource: Resource) -> None:
        for key, obj in self.all(resource).items():
            self._on_change(StorageChange.of(key, obj))

    # -------------------------------------------------------------- kinds
    def _add(self, resource: Resource) -> None:
        self._by_bucket[bucket_of(resource.prefix)] = resource
        self._by_kind[resource.group, resource.kind] = resource

    def _remove(self, resource: Resource) -> None:
        self._by_bucket.pop(bucket_of(resource.prefix), None)
        self._by_kind.pop((resource.group, resource.kind), None)

    @property
    def resources(self) -> list[Resource]:
        """All kinds, custom resources included."""
        return list(self._by_bucket.values())

    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an owner reference, in any version; None if it is not served."""
        group, _, _ = api_version.rpartition("/")
        return self._by_kind.get((group, kind))

    def resource_at(self, key: str) -> Resource | None:
        """Return the resource of a storage key; None if it is not served."""
        return self._by_bucket.get(bucket_of(key))

    # -------------------------------------------------------------- reading
    def get(self, key: str) -> JsonObject | None:
        """Return the object at a storage key."""
        try:
            return self._storage.get_now(key)
        except KeyNotFoundError:
            return None

    def all(self, resource: Resource) -> Mapping[str, JsonObject]:
        """Return the objects of a kind by key, in key order."""
        return dict(self._storage.list_now(resource.prefix).items)

    def in_namespace(self, resource: Resource, namespace: str) -> list[JsonObject]:
        """Return the objects of a kind in one namespace, sorted by name."""
        return [obj for _, obj in self._storage.list_now(f"{resource.prefix}{namespace}/").items]

    def dependents(self, uid: str, prefix: str = "") -> list[JsonObject]:
        """Return the objects that reference this owner; `prefix` restricts them to one kind."""
        return self._existing(key for key in self._by_owner.keys(uid) if key.startswith(prefix))

    def dependent_keys(self, uid: str) -> list[str]:
        """Return the keys of the objects that reference this owner."""
        return self._by_owner.keys(uid)

    def orphans(self, resource: Resource, namespace: str) -> list[JsonObject]:
        """Return the Pods or ReplicaSets of a namespace that have no controller."""
        return self._existing(self._orphans.keys(f"{resource.prefix}{namespace}/"))

    def pod_keys_of_node(self, name: str) -> list[str]:
        """Return the keys of the pods that are assigned to a node; an empty name returns those without a node."""
        return self._by_node.keys(name)

    def pods_of_node(self, name: str) -> list[JsonObject]:
        """Return the pods that are assigned to a node."""
        return self._existing(self._by_node.keys(name))

    def _existing(self, keys: Iterable[str]) -> list[JsonObject]:
        return [obj for key in keys if (obj := self.get(key)) is not None]

    # -------------------------------------------------------------- events
    def add_event_handler(self, resource: Resource, handler: Handler) -> None:
        """Call `handler` for every change of an object of a kind."""
        self._handlers.setdefault(bucket_of(resource.prefix), []).append(handler)

    def add_event_handler_for_all(self, handler: Handler) -> None:
        """Call `handler` for every change of an object of any served kind."""
        self._handlers_of_all.append(handler)

    def _on_change(self, change: StorageChange) -> None:
        previous, value = change.previous, change.value
        if previous is not None and value is not None and previous["metadata"]["uid"] != value["metadata"]["uid"]:
            # A restored snapshot has another object under this name.
            self._index(StorageChange(ChangeType.DELETE, change.key, change.revision, previous, previous))
            change = StorageChange(change.kind, change.key, change.revision, value)
        self._index(change)

    def _index(self, change: StorageChange) -> None:
        """Update indices and kinds now, and call the handlers soon."""
        key, before, after = change.key, change.previous, change.current
        self._by_owner.update(key, owner_uids(before), owner_uids(after))
        if key.startswith(_ADOPTABLE):
            self._orphans.update(key, _orphan_values(key, before), _orphan_values(key, after))
        if key.startswith(PODS.prefix):
            self._by_node.update(key, _node_values(before), _node_values(after))
        if key.startswith(_DEFINITIONS):
            self._follow_definition(change)
        if not self._undelivered:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._undelivered.append(change)

    def _deliver(self) -> None:
        changes, self._undelivered = self._undelivered, []
        for change in changes:
            bucket = bucket_of(change.key)
            if bucket not in self._by_bucket:
                continue
            for handler in (*self._handlers.get(bucket, ()), *self._handlers_of_all):
                try:
                    handler(change)
                except Exception:  # noqa: BLE001 - the other controllers continue
                    _LOG.exception("an event handler failed for %s", change.key)

    def _follow_definition(self, change: StorageChange) -> None:
        """Add, change or remove the kind of a CustomResourceDefinition."""
        resource = _resource_of_definition(change.latest)
        if change.current is None:
            self._remove(resource)
            return
        is_new = bucket_of(resource.prefix) not in self._by_bucket
        self._add(resource)
        if is_new:  # a restored snapshot may hold its objects already
            self._replay(resource)


def _orphan_values(key: str, obj: JsonObject | None) -> tuple[str, ...]:
    """Return the prefix of the namespace, if the object has no controller."""
    return () if obj is None or controller_of(obj) is not None else (f"{key.rpartition('/')[0]}/",)


def _node_values(pod: JsonObject | None) -> tuple[str, ...]:
    """Return the name of the pod's node, empty for a pod that waits for the scheduler."""
    return () if pod is None else ((pod.get("spec") or {}).get("nodeName") or "",)


def _resource_of_definition(definition: JsonObject) -> Resource:
    spec = definition["spec"]
    served = [version["name"] for version in spec["versions"] if version.get("served")]
    return Resource(
        group=spec["group"],
        version=served[0] if served else spec["versions"][0]["name"],
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
        prefix=f"{spec['group']}/{spec['names']['plural']}/",
    )
