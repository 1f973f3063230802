"""Deletes the children of an object in the reverse of their order, before the object goes.

It is a finalizer: it reads the children and their order from the cache, so it needs no reconcile before it, and a
restart changes nothing.

Upstream: none; Java Operator SDK deletes the resources of a workflow in reverse order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject, gvk_of, key_of
from opsdk.children.graph import ChildState, to_delete
from opsdk.children.ordering import AFTER_ANNOTATION, ChildIdentity
from opsdk.controller.context import Context
from opsdk.controller.progress import ChildRecord
from opsdk.errors import ConflictError, NotReadyError
from opsdk.recipes.finalizers import contains_finalizer, is_deleting
from opsdk.recipes.owner_references import is_controlled_by

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
        others: the controller's other finalizers; children are deleted when these are done.
    """

    def __init__(self, kinds: Sequence[Kind[AnyObject]], others: Sequence[str]) -> None:
        self._kinds = tuple(kinds)
        self._others = tuple(others)

    async def __call__(self, obj: Any, ctx: Context) -> None:
        """Delete the children for which everything that comes after them is gone.

        Raises:
            NotReadyError: children are left. The event of their end calls the finalizer again.
            ApiError: the server rejected a deletion.
        """
        if remaining := [name for name in self._others if contains_finalizer(obj, name)]:
            raise NotReadyError(f"the children are deleted after the finalizers {', '.join(remaining)}")
        children = await self._children(obj, ctx)
        before = _order_of(children)
        deleting = {identity for identity, child in children.items() if is_deleting(child)}
        chosen = to_delete(before, deleting)
        for identity, child in children.items():
            ctx.progress.record(identity, _record(identity, child, chosen, before[identity]))
        for identity in chosen:
            await self._delete(identity, children[identity], ctx)
        if children:
            raise NotReadyError(f"{len(children)} children are not deleted yet")

    async def _children(self, obj: Any, ctx: Context) -> dict[ChildIdentity, AnyObject]:
        """Return the objects that `obj` controls."""
        children: dict[ChildIdentity, AnyObject] = {}
        for kind in self._kinds:
            namespace, uid = obj.metadata.namespace, obj.metadata.uid
            for child in await ctx.client.list(kind, namespace=namespace, owner_uid=uid):
                if is_controlled_by(obj, child):
                    children[ChildIdentity(gvk_of(child).group_kind, key_of(child))] = child
        return children

    async def _delete(self, identity: ChildIdentity, child: AnyObject, ctx: Context) -> None:
        try:
            await ctx.client.delete(
                child, uid=child.metadata.uid, propagation=_propagation(identity.kind), missing_ok=True
            )
        except ConflictError:
            ctx.logger.info("%s was created again while it was deleted: it is deleted in the next reconcile", identity)

    def __repr__(self) -> str:
        return f"<ReverseDeletion of {', '.join(kind.name for kind in self._kinds)}>"


def _order_of(children: dict[ChildIdentity, AnyObject]) -> dict[ChildIdentity, list[ChildIdentity]]:
    """Return the children with those that come before each, from their annotations."""
    references = {identity.reference: identity for identity in children}
    return {
        identity: [
            references[reference]
            for reference in (child.metadata.annotations or {}).get(AFTER_ANNOTATION, "").split(", ")
            if reference in references
        ]
        for identity, child in children.items()
    }


def _record(
    identity: ChildIdentity, child: AnyObject, chosen: Sequence[ChildIdentity], before: Sequence[ChildIdentity]
) -> ChildRecord:
    if is_deleting(child):
        finalizers = ", ".join(child.metadata.finalizers)
        state, message = ChildState.DELETING, f"waits for finalizers {finalizers}" if finalizers else "is being deleted"
    elif identity in chosen:
        state, message = ChildState.DELETING, "is being deleted"
    else:
        state, message = ChildState.PENDING, "is deleted after the children that come after it"
    return ChildRecord(str(identity), state.value, message, tuple(map(str, before)))


def _propagation(kind: GroupKind) -> Any:
    """Return how to delete: a child with dependents, such as a Deployment's pods, is gone when they are.

    Kinds of the core group have no dependents that matter, and need no garbage collector then.
    """
    return "Background" if not kind.group and kind.kind != "ReplicationController" else "Foreground"
