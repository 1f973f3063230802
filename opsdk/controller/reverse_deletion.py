"""Deletes the children of an object in the reverse of their order, before the object goes.

It is a finalizer: it reads the children and their order from the cache, so it needs no reconcile before it, and a
restart changes nothing.

Upstream: none; Java Operator SDK deletes the resources of a workflow in reverse order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject, gvk_of, key_of
from opsdk.children.graph import ChildState, to_delete
from opsdk.children.memory import Memory
from opsdk.children.ordering import AFTER_ANNOTATION, ChildIdentity
from opsdk.controller.applied_fields import take_back_all
from opsdk.controller.context import Context
from opsdk.controller.external import ExternalRef, ExternalResource, delete_external, find_external, order_of, ref_of
from opsdk.controller.progress import ChildRecord
from opsdk.errors import ConflictError, NotReadyError
from opsdk.recipes.finalizers import contains_finalizer, is_deleting
from opsdk.recipes.owner_references import is_controlled_by

# Seconds until a resource whose deletion has begun is observed.
_FIRST_PACE = 1.0
# Objects that are deleted at the same time; each further one starts again at the first pace.
_MAX_PACES = 1024
# Characters of the part after the slash, as the API server limits them.
_MAX_NAME = 63


def children_finalizer(field_owner: str, controller: str) -> str:
    """Return the name of the finalizer of a controller.

    >>> children_finalizer("shop", "app")
    'opsdk.dev/shop.app'
    """
    return f"opsdk.dev/{f'{field_owner}.{controller}'[:_MAX_NAME].strip('-._')}"


class ReverseDeletion:
    """The finalizer function of a controller with ``delete_in_reverse``.

    Args:
        kinds: those of the children, as they are cached.
        externals: the external resources.
        others: the controller's other finalizers; children are deleted when these are done.
        fields_of: the controller whose applied fields are taken back when the children are gone; empty for none.
    """

    def __init__(
        self,
        kinds: Sequence[Kind[AnyObject]],
        externals: Sequence[ExternalResource[Any, Any]],
        others: Sequence[str],
        fields_of: str = "",
    ) -> None:
        self._kinds = tuple(kinds)
        self._externals = tuple(externals)
        self._others = tuple(others)
        self._fields_of = fields_of
        self._paces: Memory[str, _Pace] = Memory(_MAX_PACES)

    async def __call__(self, obj: Any, ctx: Context) -> None:
        """Delete the children for which everything that comes after them is gone.

        Raises:
            NotReadyError: children are left. The event of their end calls the finalizer again.
            ApiError: the server rejected a deletion.
        """
        if remaining := [name for name in self._others if contains_finalizer(obj, name)]:
            raise NotReadyError(f"the children are deleted after the finalizers {', '.join(remaining)}")
        externals = await self._existing_externals(obj, ctx)
        children = await self._children(obj, ctx)
        count = len(children) + 1
        requested: set[ChildIdentity] = set()
        # Again while children are gone at once: what was created and deleted in a gap of the watch has no event.
        while len(children) < count:
            count = len(children)
            await self._delete_next(obj, ctx, children, externals, requested)
            children = await self._children(obj, ctx)
        for gone in [identity for identity in ctx.progress.identities() if identity not in children | externals]:
            ctx.progress.forget(gone)
        if externals:
            ctx.progress.poll_after(self._pace(obj, externals, monotonic()))
        else:
            self._paces.forget(obj.metadata.uid)
        if children or externals:
            raise NotReadyError(f"{len(children) + len(externals)} children are not deleted yet")
        if self._fields_of:
            await take_back_all(ctx.cluster, self._fields_of, obj)

    async def _delete_next(
        self,
        obj: Any,
        ctx: Context,
        children: Mapping[ChildIdentity, AnyObject],
        externals: _Externals,
        requested: set[ChildIdentity],
    ) -> None:
        """Delete each child for which everything that comes after it is gone, and add it to `requested`."""
        order = _order_of(children) | _order_of_externals(externals, children, obj)
        deleting = requested.union(identity for identity, child in children.items() if is_deleting(child))
        chosen = to_delete(_resolve(order), deleting)
        requested.update(chosen)
        for identity, before in order.items():
            ctx.progress.record(identity, _record(identity, children.get(identity), requested, before))
        for identity in chosen:
            if identity in externals:
                external, ref = externals[identity]
                await delete_external(ctx, external, obj, ref)
            else:
                await self._delete(identity, children[identity], ctx)

    async def _children(self, obj: Any, ctx: Context) -> dict[ChildIdentity, AnyObject]:
        """Return the objects that `obj` controls."""
        children: dict[ChildIdentity, AnyObject] = {}
        for kind in self._kinds:
            namespace, uid = obj.metadata.namespace, obj.metadata.uid
            for child in await ctx.client.list(kind, namespace=namespace, owner_uid=uid):
                if is_controlled_by(obj, child):
                    children[ChildIdentity(gvk_of(child).group_kind, key_of(child))] = child
        return children

    async def _existing_externals(self, obj: Any, ctx: Context) -> _Externals:
        """Return the external resources that are there. They are observed again until they are gone."""
        existing: _Externals = {}
        for external in self._externals:
            if (observed := await find_external(ctx, external, obj)) is not None:
                ref = ExternalRef(id=observed.id, token=ref_of(external, obj).token)
                existing[external.identity] = (external, ref)
        return existing

    def _pace(self, obj: Any, externals: _Externals, now: float) -> float:
        """Return the seconds until the resources are observed again: as many as have passed without a change.

        So the pause doubles, from a second to the shortest `poll`. A deletion is over soon, and its events do not reach
        opsdk; a poll that suits a resource at rest would delay the object and all children before it.
        """
        identities = frozenset(externals)
        pace = self._paces.get(obj.metadata.uid)
        if pace is None or pace.identities != identities:
            pace = _Pace(identities, now)
            self._paces.remember(obj.metadata.uid, pace)
        poll = min(external.poll_seconds for external, _ in externals.values())
        return min(poll, max(now - pace.since, _FIRST_PACE))

    async def _delete(self, identity: ChildIdentity, child: AnyObject, ctx: Context) -> None:
        try:
            await ctx.client.delete(
                child, uid=child.metadata.uid, propagation=_propagation(identity.kind), missing_ok=True
            )
        except ConflictError:
            ctx.logger.info("%s was created again while it was being deleted: the next reconcile deletes it", identity)

    def __repr__(self) -> str:
        return f"<ReverseDeletion of {', '.join(kind.name for kind in self._kinds)}>"


class _Pace(NamedTuple):
    """Since when the same resources are left."""

    identities: frozenset[ChildIdentity]
    since: float


_Externals = dict[ChildIdentity, tuple[ExternalResource[Any, Any], ExternalRef]]
_Order = dict[ChildIdentity, list[str]]
"""The references of the children before each."""


def _order_of(children: Mapping[ChildIdentity, AnyObject]) -> _Order:
    """Return the children with those that come before each, from their annotations."""
    return {
        identity: _references((child.metadata.annotations or {}).get(AFTER_ANNOTATION, ""))
        for identity, child in children.items()
    }


def _order_of_externals(externals: _Externals, children: Mapping[ChildIdentity, AnyObject], obj: Any) -> _Order:
    """Return the external resources with those that come before each, from the status.

    If the process ended before the id was written, nothing that comes after it was created: it goes first.
    """
    order: _Order = {}
    everything = [identity.reference for identity in children]
    for identity, (external, _) in externals.items():
        after = order_of(external, obj)
        order[identity] = everything if after is None else _references(after)
        everything = [*everything, identity.reference]
    return order


def _references(text: str) -> list[str]:
    return text.split(", ") if text else []


def _resolve(order: _Order) -> dict[ChildIdentity, list[ChildIdentity]]:
    """Return the order of the children that exist."""
    by_reference = {identity.reference: identity for identity in order}
    return {
        identity: [by_reference[reference] for reference in references if reference in by_reference]
        for identity, references in order.items()
    }


def _record(
    identity: ChildIdentity, child: AnyObject | None, requested: Collection[ChildIdentity], before: Sequence[str]
) -> ChildRecord:
    if child is not None and is_deleting(child):
        finalizers = ", ".join(child.metadata.finalizers)
        state, message = ChildState.DELETING, f"waits for finalizers {finalizers}" if finalizers else "is being deleted"
    elif identity in requested:
        state, message = ChildState.DELETING, "is being deleted"
    else:
        state, message = ChildState.PENDING, "is deleted after the children that come after it"
    return ChildRecord(str(identity), state.value, message, tuple(before))


def _propagation(kind: GroupKind) -> Any:
    """Return how to delete: a child with dependents, such as a Deployment's pods, is gone when they are.

    Kinds of the core group have no dependents that matter, and need no garbage collector then.
    """
    return "Background" if not kind.group and kind.kind != "ReplicationController" else "Foreground"
