"""Shared informers on the storage: objects of each resource, indexed by owner, without delay.

The storage is in this process, so a controller can read the current state at any time:
`SharedInformers.catch_up` processes all events up to now. The reflector shares the storage's trees, which are never
modified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from envtest.controllers.objects import controller_of, owner_uids
from envtest.controllers.writes import Resource
from opsdk.aio.tasks import TaskOwner
from opsdk.apiserver.storage.ports import CompactedError, LocalStorage, StorageWatch
from opsdk.http.server.response import CutConnection
from opsdk.structured_merge.value import JsonObject

_RELIST = (CompactedError, CutConnection)
"""Errors of a watch after which the reflector lists again: compaction, and a restart of the server."""
DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions/"
"""The storage prefix of CustomResourceDefinitions."""


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One object was created (`old` None), changed, or removed (`new` None)."""

    resource: Resource
    key: str
    old: JsonObject | None
    new: JsonObject | None

    @property
    def obj(self) -> JsonObject:
        """The current object, or the last one if it was removed."""
        current = self.new if self.new is not None else self.old
        assert current is not None
        return current


Handler = Callable[[StoreEvent], None]


class StorageReflector:
    """Mirrors the objects of one kind from the storage."""

    def __init__(self, storage: LocalStorage, resource: Resource, emit: Handler) -> None:
        self.resource = resource
        self.objects: dict[str, JsonObject] = {}
        self._storage = storage
        self._emit = emit
        self._watch: StorageWatch | None = None
        self._stopped = False

    def __repr__(self) -> str:
        return f"<StorageReflector of {len(self.objects)} {self.resource.plural}>"

    def sync(self) -> None:
        """List, and watch from the listed revision."""
        page = self._storage.list_now(self.resource.prefix)
        self._watch = self._storage.watch_now(self.resource.prefix, page.revision)
        listed = dict(page.items)
        for key in [k for k in self.objects if k not in listed]:
            self._apply(key, None)
        for key, obj in listed.items():
            self._apply(key, obj)

    def _apply(self, key: str, obj: JsonObject | None) -> None:
        old = self.objects.get(key)
        if old is obj:
            return
        if obj is None:
            del self.objects[key]
        else:
            self.objects[key] = obj
        if old is not None and obj is not None and old["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._emit(StoreEvent(self.resource, key, old, None))
            old = None
        self._emit(StoreEvent(self.resource, key, old, obj))

    async def drain(self) -> None:
        """Apply all pending changes without suspending."""
        while self._watch is not None and self._watch.progress() is None:
            try:
                await self._apply_next(self._watch)
            except _RELIST:
                self.sync()

    async def _apply_next(self, watch: StorageWatch) -> None:
        change = await anext(watch)
        if change.value is not None:
            self._apply(change.key, change.value if change.kind.value == "put" else None)

    async def run(self) -> None:
        """Apply changes until `stop`; restart a watch that ends."""
        while not self._stopped:
            if self._watch is None:
                self.sync()
            watch = self._watch
            try:
                while watch is not None and watch is self._watch:
                    await self._apply_next(watch)
            except (StopAsyncIteration, *_RELIST):
                if watch is self._watch:
                    self._watch = None

    def stop(self) -> None:
        """Stop; idempotent."""
        self._stopped = True
        if self._watch is not None:
            self._watch.close()


@dataclass(slots=True)
class _OwnerIndex:
    """Keys by the uid of an owner."""

    by_uid: dict[str, dict[str, None]] = field(default_factory=dict)

    def update(self, key: str, before: Iterable[str], after: Iterable[str]) -> None:
        old, new = set(before), set(after)
        for uid in old - new:
            keys = self.by_uid.get(uid, {})
            keys.pop(key, None)
            if not keys:
                self.by_uid.pop(uid, None)
        for uid in new - old:
            self.by_uid.setdefault(uid, {})[key] = None


class SharedInformers:
    """The reflectors of all kinds, an index by owner, and the event handlers."""

    def __init__(self, storage: LocalStorage, resources: Iterable[Resource]) -> None:
        self._storage = storage
        self._reflectors: dict[str, StorageReflector] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._by_owner = _OwnerIndex()
        self._orphans: dict[str, dict[str, None]] = {}
        self._handlers: dict[str, list[Handler]] = {}
        self._handlers_of_all: list[Handler] = []
        self._tasks: TaskOwner | None = None
        self._seen_revision = -1
        for resource in resources:
            self._add(resource)

    def __repr__(self) -> str:
        return f"<SharedInformers of {len(self._reflectors)} kinds>"

    # -------------------------------------------------------------- life cycle
    def start(self, tasks: TaskOwner) -> None:
        """List every kind; `tasks` run the watches."""
        self._tasks = tasks
        for reflector in list(self._reflectors.values()):
            self._start_reflector(reflector)

    def _start_reflector(self, reflector: StorageReflector) -> None:
        if self._tasks is not None:
            reflector.sync()
            self._tasks.start(reflector.run(), name=f"reflector of {reflector.resource.prefix}")

    def stop(self) -> None:
        """Stop every reflector."""
        for reflector in self._reflectors.values():
            reflector.stop()

    async def catch_up(self) -> None:
        """Apply every change that is committed; does not suspend."""
        while self._seen_revision != self._storage.current_rv:
            self._seen_revision = self._storage.current_rv
            for reflector in list(self._reflectors.values()):
                await reflector.drain()

    # -------------------------------------------------------------- kinds
    def _add(self, resource: Resource) -> StorageReflector:
        reflector = StorageReflector(self._storage, resource, self._emit)
        self._reflectors[resource.prefix] = reflector
        self._by_kind[resource.group, resource.kind] = resource
        return reflector

    @property
    def resources(self) -> list[Resource]:
        """All kinds, custom resources included."""
        return [m.resource for m in self._reflectors.values()]

    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an owner reference, in any version; None if it is not served."""
        group, _, _ = api_version.rpartition("/")
        return self._by_kind.get((group, kind))

    def resource_at(self, key: str) -> Resource | None:
        """Return the resource of a storage key."""
        group, plural, *_ = key.split("/", 2)
        reflector = self._reflectors.get(f"{group}/{plural}/")
        return None if reflector is None else reflector.resource

    # -------------------------------------------------------------- reading
    def get(self, key: str) -> JsonObject | None:
        """Return the object at a storage key."""
        group, plural, *_ = key.split("/", 2)
        reflector = self._reflectors.get(f"{group}/{plural}/")
        return None if reflector is None else reflector.objects.get(key)

    def all(self, resource: Resource) -> Mapping[str, JsonObject]:
        """Return the objects of a kind by key, in the order in which they were seen."""
        reflector = self._reflectors.get(resource.prefix)
        return {} if reflector is None else reflector.objects

    def in_namespace(self, resource: Resource, namespace: str) -> list[JsonObject]:
        """Return the objects of a kind in one namespace, sorted by name."""
        return [obj for _, obj in self._storage.list_now(f"{resource.prefix}{namespace}/").items]

    def dependents(self, uid: str, prefix: str = "") -> list[JsonObject]:
        """Return the objects that reference this owner; `prefix` restricts them to one kind."""
        keys = self._by_owner.by_uid.get(uid, ())
        return [obj for key in keys if key.startswith(prefix) and (obj := self.get(key)) is not None]

    def dependent_keys(self, uid: str) -> list[str]:
        """Return the keys of the objects that reference this owner."""
        return list(self._by_owner.by_uid.get(uid, ()))

    def orphans(self, resource: Resource, namespace: str) -> list[JsonObject]:
        """Return the objects of a kind in a namespace that have no controller."""
        keys = self._orphans.get(f"{resource.prefix}{namespace}/", ())
        return [obj for key in keys if (obj := self.get(key)) is not None]

    # -------------------------------------------------------------- event handlers
    def add_event_handler(self, resource: Resource, handler: Handler) -> None:
        """Call `handler` for every event of a kind."""
        self._handlers.setdefault(resource.prefix, []).append(handler)

    def add_event_handler_for_all(self, handler: Handler) -> None:
        """Call `handler` for every event."""
        self._handlers_of_all.append(handler)

    def _emit(self, event: StoreEvent) -> None:
        before, after = owner_uids(event.old), owner_uids(event.new)
        if before or after:
            self._by_owner.update(event.key, before, after)
        namespace_prefix = event.key.rpartition("/")[0] + "/"
        if event.new is not None and (not after or controller_of(event.new) is None):
            self._orphans.setdefault(namespace_prefix, {})[event.key] = None
        elif event.old is not None and (not before or controller_of(event.old) is None):
            self._orphans.get(namespace_prefix, {}).pop(event.key, None)
        if event.resource.prefix == DEFINITIONS:
            # Process an event of a CustomResourceDefinition.
            spec = event.obj["spec"]
            names = spec["names"]
            served = [v["name"] for v in spec["versions"] if v.get("served")]
            resource = Resource(
                group=spec["group"],
                version=served[0] if served else spec["versions"][0]["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                prefix=f"{spec['group']}/{names['plural']}/",
            )
            reflector = self._reflectors.get(resource.prefix)
            if event.new is None:
                if reflector is not None:
                    reflector.stop()
                    del self._reflectors[resource.prefix]
                    self._by_kind.pop((resource.group, resource.kind), None)
            elif reflector is None:
                self._start_reflector(self._add(resource))
            elif reflector.resource != resource:
                reflector.resource = self._by_kind[resource.group, resource.kind] = resource
        for handler in (*self._handlers.get(event.resource.prefix, ()), *self._handlers_of_all):
            handler(event)
