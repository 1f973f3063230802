"""The informers of one kind, with their handlers.

Upstream: sigs.k8s.io/controller-runtime/pkg/cache/multi_namespace_cache.go
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.cache.entry import StoreEntry
from opsdk.cache.health import InformerHealth, InformerState
from opsdk.cache.informer import Informer
from opsdk.cache.options import ALL_NAMESPACES
from opsdk.cache.registration import Handler, HandlerRegistration
from opsdk.cache.store import Delta, DeltaType
from opsdk.errors import UnknownNamespaceError


class CachedKind:
    """The informers of one kind: one, or one for each namespace.

    Args:
        mapping: of the kind.
        informers: by namespace.
        metadata_only: whether they store metadata.
        follows_namespaces: the namespaces are selected, and change. Reads of others find nothing.
    """

    def __init__(
        self,
        mapping: RestMapping,
        informers: Mapping[str, Informer],
        *,
        metadata_only: bool,
        follows_namespaces: bool = False,
    ) -> None:
        self.mapping = mapping
        self.gvk = mapping.gvk
        self.informers = dict(informers)
        self.metadata_only = metadata_only
        self.follows_namespaces = follows_namespaces
        self._registrations: list[KindRegistration] = []
        self._removal_observers: list[weakref.WeakMethod[Callable[[GroupVersionKind, ObjectKey], None]]] = []
        self._removals: KindRegistration | None = None
        self.pinned = False
        """True for a kind that a read or `Cache.informer_for` requested: it outlives its handlers."""

    @property
    def has_synced(self) -> bool:
        """Whether every informer has its initial list."""
        # Called for each read: a generator would cost more than the checks.
        for informer in self.informers.values():  # noqa: SIM110
            if not informer.has_synced:
                return False
        return True

    @property
    def used(self) -> bool:
        """Whether the informers are pinned or have handlers."""
        observers = 1 if self._removals is not None else 0
        return self.pinned or any(informer.handlers > observers for informer in self.informers.values())

    async def wait_synced(
        self,
        timeout: float | None = None,
        *,
        fail_fast: bool = False,
        namespace: str = "",
    ) -> None:
        """Return when the informers of a namespace (empty: all) have their initial lists.

        Other arguments and errors as `Informer.wait_synced`.
        """
        informers = self.informers_of(namespace)
        for _, error in await self._wait_each(informers, timeout, fail_fast=fail_fast):
            raise error

    async def wait_listed(self, timeout: float) -> None:
        """As `wait_synced`, but without the selected namespaces that the server forbids."""
        informers = list(self.informers.values())
        for informer, error in await self._wait_each(informers, timeout, fail_fast=self.follows_namespaces):
            if not (self.follows_namespaces and informer.is_forbidden):
                raise error

    async def _wait_each(
        self,
        informers: Sequence[Informer],
        timeout: float | None,
        *,
        fail_fast: bool,
    ) -> list[tuple[Informer, BaseException]]:
        # Not a task group: it wraps exceptions, and callers expect the plain error.
        waits = (informer.wait_synced(timeout, fail_fast=fail_fast) for informer in informers)
        results = await asyncio.gather(*waits, return_exceptions=True)
        failed = zip(informers, results, strict=True)
        return [(informer, error) for informer, error in failed if isinstance(error, BaseException)]

    def health(self) -> list[InformerHealth]:
        """Return the health of each informer now."""
        return [
            replace(informer.health(), state=InformerState.DENIED)
            if self.follows_namespaces and informer.is_forbidden
            else informer.health()
            for informer in self.informers.values()
        ]

    def add_handler(self, handler: Handler, *, resync: bool = False) -> KindRegistration:
        """Add a handler to every informer. It first gets the existing objects as ADDED."""
        registration = KindRegistration(handler, resync=resync, on_remove=self._registrations.remove)
        self._registrations.append(registration)
        for informer in self.informers.values():
            registration.attach(informer)
        return registration

    def observe_removals(self, observer: Callable[[GroupVersionKind, ObjectKey], None]) -> None:
        """Call a bound method with kind and key of each object that leaves the cache.

        The method's object is referenced weakly, and does not keep the informers running.
        """
        self._removal_observers = [each for each in self._removal_observers if each() is not None]
        self._removal_observers.append(weakref.WeakMethod(observer))
        if self._removals is None:
            self._removals = self.add_handler(self._on_removal)

    def _on_removal(self, delta: Delta) -> None:
        if delta.change is not DeltaType.DELETED:
            return
        for reference in self._removal_observers:
            if (observer := reference()) is not None:
                observer(self.gvk, delta.entry.key)

    def replace_informer(self, namespace: str, informer: Informer | None) -> Informer | None:
        """Replace or remove the informer of a namespace. Returns the old one; the caller closes it.

        Handlers move to the new informer. They get the objects that the old one held as DELETED, and those of the new
        one as ADDED.
        """
        old = self.informers.pop(namespace, None)
        if informer is not None:
            self.informers[namespace] = informer
        for registration in self._registrations:
            if old is not None:
                registration.detach(old)
            if informer is not None:
                registration.attach(informer)
        return old

    def informers_of(self, namespace: str) -> list[Informer]:
        """Return the informers that may hold objects of a namespace (empty: all)."""
        if not namespace or not self.mapping.namespaced:
            return list(self.informers.values())
        informer = self.informers.get(namespace) or self.informers.get(ALL_NAMESPACES)
        return [informer] if informer is not None else []

    def select(self, namespace: str) -> list[Informer]:
        """Return the informers for reads of a namespace (empty: all).

        Without any: none if the namespaces are selected, else raises `UnknownNamespaceError`.
        """
        informers = self.informers_of(namespace)
        if informers or self.follows_namespaces:
            return informers
        cached = ", ".join(sorted(self.informers))
        raise UnknownNamespaceError(
            f"unable to read {self.gvk.kind} in {namespace}: unknown namespace for the cache (it has {cached})"
        )

    def entries(self, namespace: str = "") -> Iterable[StoreEntry]:
        """Iterate over the cached entries, in no particular order."""
        for informer in self.select(namespace):
            yield from informer.store.entries(namespace)

    def __repr__(self) -> str:
        form = " (metadata only)" if self.metadata_only else ""
        return f"<CachedKind {self.gvk}{form}: {list(self.informers.values())}>"


class KindRegistration:
    """The registration of a handler at every informer of a kind."""

    def __init__(self, handler: Handler, *, resync: bool, on_remove: Callable[[KindRegistration], None]) -> None:
        self._handler = handler
        self._resync = resync
        self._on_remove = on_remove
        self._registrations: dict[Informer, HandlerRegistration] = {}
        self._removed = False

    def attach(self, informer: Informer) -> None:
        """Add the handler to an informer."""
        self._registrations[informer] = informer.add_handler(self._handler, resync=self._resync)

    def detach(self, informer: Informer) -> None:
        """Remove the handler from an informer, whose objects it gets as DELETED."""
        if (registration := self._registrations.pop(informer, None)) is not None:
            registration.remove()
            for entry in informer.store.entries(own_writes=False):
                registration.handler(Delta(change=DeltaType.DELETED, old=entry, final_state_unknown=True))

    def replay(self) -> None:
        """Deliver all existing objects as ADDED once more, after the deltas that wait.

        An informer without its initial list delivers that list as usual.
        """
        for informer, registration in self._registrations.items():
            if informer.has_synced:
                registration.replay(informer.initial_deltas())

    @property
    def has_synced(self) -> bool:
        """Whether the handler has received every initial object."""
        return all(r.has_synced for r in self._registrations.values())

    async def wait_synced(self) -> None:
        """Return when the handler has received every initial object that the server shows, or is removed."""
        for informer, registration in tuple(self._registrations.items()):
            if not informer.is_forbidden:
                await registration.wait_synced()

    def remove(self) -> None:
        """Remove the handler. Idempotent. `Cache.release` then stops informers without other users."""
        if self._removed:
            return
        self._removed = True
        self._on_remove(self)
        for registration in self._registrations.values():
            registration.remove()
