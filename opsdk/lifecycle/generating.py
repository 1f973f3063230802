"""Handlers that return the desired objects for an object.

The objects are applied with server-side apply, and those that are no longer returned are deleted. They get an owner
reference where Kubernetes allows one. Objects in other namespaces and cluster-scoped ones have a label with
the identity of their set instead, and a finalizer of the owner deletes them.

Upstream: github.com/rancher/wrangler (generated RegisterXGeneratingHandler), pkg/generic/generating.go, pkg/apply
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import AnyKind, Kind, kind_of, unstructured
from opsdk.apimachinery.object import AnyObject, KubeObject, TypedObject, Unstructured, deep_copy, gvk_of, key_of
from opsdk.base.options import Options
from opsdk.children.ownership import APPLY
from opsdk.client.patch import merge_patch
from opsdk.controller.context import Context
from opsdk.controller.declaration import place_of
from opsdk.errors import UsageError
from opsdk.event.handlers import EnqueueRequestForOwner, EnqueueRequestsFromMapFunc, EventHandler
from opsdk.event.request import Request
from opsdk.event.sources import KindSource
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.handlers import NamedHandler, takes_context
from opsdk.lifecycle.names import LifecycleNames

SET_LABEL: Final = "objectset.opsdk.dev/set"
"""The identity of the set of an object without owner reference: handler, kind, namespace and name of the owner."""
OWNER_ANNOTATION: Final = "objectset.opsdk.dev/owner"
"""The owner of such an object, as ``namespace/name``."""
KINDS_ANNOTATION: Final = "objectset.opsdk.dev/kinds."
"""Prefix of an annotation of the owner: the kinds that were generated with `GeneratingOptions.dynamic_lookup`."""

Child = TypedObject | Unstructured


class GeneratingOptions(Options, frozen=True, kw_only=True):
    """Options of a generating handler.

    Attributes:
        allow_cross_namespace: objects may be in a namespace other than their owner's.
        allow_cluster_scoped: objects of a namespaced owner may be cluster-scoped.
        no_owner_reference: set no owner references; only the label identifies the objects of an owner.
        dynamic_lookup: objects may have kinds that were not declared. The kinds that were generated are recorded in an
            annotation of the owner, so that they are pruned after a restart too.
        unique_apply_for_resource_version: apply once for a resource version of the owner. Changes of children by
            others are then reverted only with the next change of the owner.
    """

    allow_cross_namespace: bool = False
    allow_cluster_scoped: bool = False
    no_owner_reference: bool = False
    dynamic_lookup: bool = False
    unique_apply_for_resource_version: bool = False

    @property
    def uses_labels(self) -> bool:
        """Whether objects may have no owner reference."""
        return self.allow_cross_namespace or self.allow_cluster_scoped or self.no_owner_reference


class GeneratingHandler:
    """Applies the objects that a function returns for an object, and prunes the others.

    Args:
        name: of the handler: part of the identity of its sets.
        function: ``async def generate(obj)``, or with a `Context`: returns objects, or yields them.
        kinds: the kinds of the objects. They are watched, and pruned.
        options: see `GeneratingOptions`.

    Raises:
        UsageError: the function cannot be called.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        kinds: Sequence[AnyKind],
        options: GeneratingOptions | None = None,
    ) -> None:
        self.name = name
        self.kinds: dict[GroupVersionKind, Kind[Any]] = {kind_of(kind).gvk: kind_of(kind) for kind in kinds}
        self.options = options or GeneratingOptions()
        self._function = function
        self._applied_versions: dict[Request, tuple[str, str]] = {}
        if inspect.isasyncgenfunction(function):
            self._takes_context = len(inspect.signature(function).parameters) > 1
        else:
            self._takes_context = takes_context(function, 1)
        if not kinds and not self.options.dynamic_lookup:
            raise UsageError(
                f"generating handler {name} ({place_of(function)}) declares no kinds: pass kinds=[...], or set "
                "dynamic_lookup"
            )

    async def updated(self, obj: Child, ctx: Context) -> None:
        """Apply the objects that the function returns, and prune the others."""
        request = Request.of(obj)
        version = (obj.metadata.uid, obj.metadata.resource_version)
        if self.options.unique_apply_for_resource_version and self._applied_versions.get(request) == version:
            return
        if obj.metadata.deletion_timestamp is not None:
            return
        owned, labelled = await self._generate(obj, ctx)
        kinds = await self._record_kinds([*owned, *labelled], obj, ctx) if self.options.dynamic_lookup else self.kinds
        applier = ctx.cluster.applier(controller=ctx.controller)
        await applier.apply_all(owned, owner=obj, prune=list(kinds.values()))
        for child in labelled:
            await applier.apply(child)
        if self.options.uses_labels:
            desired = {(gvk_of(child).group_kind, key_of(child)) for child in labelled}
            await self._prune_labelled(request, obj, kinds, desired, ctx)
        self._applied_versions[request] = version

    async def remove(self, obj: Child, ctx: Context) -> None:
        """Delete the objects of `obj` without an owner reference."""
        request = Request.of(obj)
        self._applied_versions.pop(request, None)
        await self._prune_labelled(request, obj, self._known_kinds(obj), set(), ctx)

    async def __call__(self, request: Request, obj: Child | None, ctx: Context) -> None:
        """Handle an event. The garbage collector deletes objects whose owner no longer exists."""
        if obj is None:
            self._applied_versions.pop(request, None)
        else:
            await self.updated(obj, ctx)

    # -------------------------------------------------------------- desired objects
    async def _generate(self, obj: Child, ctx: Context) -> tuple[list[Child], list[Child]]:
        """Return the objects with an owner reference, and those with a label."""
        arguments = (deep_copy(obj), ctx) if self._takes_context else (deep_copy(obj),)
        produced = self._function(*arguments)
        if isinstance(produced, AsyncIterable):
            children = [child async for child in produced]
        else:
            assert isinstance(produced, Awaitable)
            returned: Iterable[Child] | None = await produced
            children = list(returned or ())
        owned: list[Child] = []
        labelled: list[Child] = []
        for child in children:
            if not isinstance(child, TypedObject | Unstructured):
                raise UsageError(f"{self.name} returned {child!r}: return typed or unstructured objects")
            (owned if await self._may_own(obj, child, ctx) else labelled).append(child)
        for child in labelled:
            child.metadata.labels[SET_LABEL] = self.set_id(gvk_of(obj), Request.of(obj))
            child.metadata.annotations[OWNER_ANNOTATION] = str(key_of(obj))
        return owned, labelled

    async def _may_own(self, owner: KubeObject, child: Child, ctx: Context) -> bool:
        """Complete the namespace of a child, and return whether it gets an owner reference. Raises `UsageError`."""
        gvk, meta = gvk_of(child), child.metadata
        if gvk not in self.kinds and not self.options.dynamic_lookup:
            raise UsageError(
                f"{self.name} generates {gvk.kind} {key_of(child)}, and does not declare {gvk}: add it to kinds, or "
                "set dynamic_lookup"
            )
        namespace = owner.metadata.namespace
        if not (await ctx.cluster.mapper.mapping_for(gvk)).namespaced:
            if namespace and not self.options.allow_cluster_scoped:
                raise UsageError(
                    f"{self.name} generates the cluster-scoped {gvk.kind} {meta.name} for {namespace}/"
                    f"{owner.metadata.name}: set allow_cluster_scoped"
                )
            return not namespace and not self.options.no_owner_reference
        meta.namespace = meta.namespace or namespace
        if namespace and meta.namespace != namespace:
            if not self.options.allow_cross_namespace:
                raise UsageError(
                    f"{self.name} generates {gvk.kind} {key_of(child)} for {namespace}/{owner.metadata.name}: set "
                    "allow_cross_namespace"
                )
            return False
        return not self.options.no_owner_reference

    # -------------------------------------------------------------- pruning
    def set_id(self, owner: GroupVersionKind, request: Request) -> str:
        """Return the value of `SET_LABEL`: the same for the same owner, even after a restart."""
        identity = "\0".join((self.name, *owner.group_kind, request.namespace, request.name))
        return hashlib.blake2b(identity.encode(), digest_size=20).hexdigest()

    def _known_kinds(self, owner: KubeObject) -> dict[GroupVersionKind, Kind[Any]]:
        kinds = dict(self.kinds)
        for text in owner.metadata.annotations.get(f"{KINDS_ANNOTATION}{self.name}", "").split(","):
            api_version, _, kind = text.rpartition("/")
            if api_version and kind:
                token = unstructured(api_version, kind)
                kinds.setdefault(token.gvk, token)
        return kinds

    async def _record_kinds(
        self, children: Sequence[Child], owner: Child, ctx: Context
    ) -> dict[GroupVersionKind, Kind[Any]]:
        """Record kinds that are new in the annotation of the owner, before an object of them exists."""
        kinds = self._known_kinds(owner)
        new = {gvk_of(child) for child in children} - kinds.keys()
        if new:
            for gvk in sorted(new):
                kinds[gvk] = unstructured(gvk.api_version, gvk.kind)
            recorded = ",".join(f"{gvk.api_version}/{gvk.kind}" for gvk in kinds if gvk not in self.kinds)
            annotation = {f"{KINDS_ANNOTATION}{self.name}": recorded}
            await ctx.client.patch(owner, merge_patch({"metadata": {"annotations": annotation}}))
        return kinds

    async def _prune_labelled(
        self,
        request: Request,
        owner: KubeObject,
        kinds: dict[GroupVersionKind, Kind[Any]],
        desired: set[tuple[Any, Any]],
        ctx: Context,
    ) -> None:
        """Delete the objects with the set's label that are no longer desired, and that this program applied."""
        selector = {SET_LABEL: self.set_id(gvk_of(owner), request)}
        applier = ctx.cluster.applier(controller=ctx.controller)
        for kind in kinds.values():
            for child in await ctx.client.list(kind, label_selector=selector):
                meta = child.metadata
                if meta.deletion_timestamp is not None or (gvk_of(child).group_kind, key_of(child)) in desired:
                    continue
                # A user's copy also has the label, but this program did not apply it.
                managers = {entry.manager for entry in meta.managed_fields if entry.operation == APPLY}
                if not meta.managed_fields or any(map(applier.is_own, managers)):
                    await ctx.client.delete(child, uid=meta.uid, missing_ok=True, propagation="Background")

    def sources(self, controller: GenericController[Any]) -> list[KindSource]:
        """Return sources that watch the declared kinds, so that changes of children by other clients are reverted."""
        gvk = controller.kind.gvk

        def owner_of(child: AnyObject) -> list[Request]:
            namespace, _, name = child.metadata.annotations.get(OWNER_ANNOTATION, "").rpartition("/")
            request = Request(namespace, name)
            is_ours = child.metadata.labels.get(SET_LABEL) == self.set_id(gvk, request)
            return [request] if is_ours else []

        handlers: list[EventHandler] = [EnqueueRequestForOwner(controller.kind)]
        if self.options.uses_labels:
            handlers.append(EnqueueRequestsFromMapFunc[Any](owner_of))
        cache = controller.cluster.cache
        return [KindSource(cache, kind, handler) for kind in self.kinds.values() for handler in handlers]

    def __repr__(self) -> str:
        return f"<GeneratingHandler {self.name}: {', '.join(gvk.kind for gvk in self.kinds) or 'any kind'}>"


def generates(
    controller: GenericController[Any],
    *kinds: AnyKind,
    name: str = "",
    options: GeneratingOptions | None = None,
) -> Callable[[Callable[..., Any]], GeneratingHandler]:
    """Decorator: the function returns or yields the desired objects for an object of the controller.

    ::

        @generates(factory.for_kind(Site), ConfigMap)
        async def configuration(site: Site) -> AsyncIterator[ConfigMap]:
            yield ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"size": str(site.spec.size)})

    Args:
        controller: calls the function.
        kinds: the kinds of the objects.
        name: of the handler; default: that of the function. It must not change: objects of the old name are not pruned.
        options: see `GeneratingOptions`.
    """

    def declare(function: Callable[..., Any]) -> GeneratingHandler:
        handler = GeneratingHandler(name or function.__name__, function, kinds=kinds, options=options)
        add_generating_handler(controller, handler)
        return handler

    return declare


def add_generating_handler(controller: GenericController[Any], handler: GeneratingHandler) -> NamedHandler:
    """Add a generating handler, and watch its kinds.

    A handler whose objects may lack an owner reference is a lifecycle: its finalizer deletes them with their owner.
    """
    for source in handler.sources(controller):
        controller.add_source(source)
    if not handler.options.uses_labels:
        return controller.add_handler(handler.name, handler)
    names = LifecycleNames.norman(handler.name, prefix="objectset.opsdk.dev/")
    return controller.add_lifecycle(handler.name, handler, names=names)
