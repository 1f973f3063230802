"""External resources: things that an object owns outside Kubernetes, such as a bucket or a DNS record.

A reconciler applies them like children: ``await ctx.apply(bucket)``. The id is in the status of the object, and a
finalizer deletes the resource before the object is removed.

Upstream: none; Crossplane's ExternalClient and Java Operator SDK's external dependent resources have this purpose.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import timedelta
from functools import wraps
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from opsdk.apimachinery.gvk import GroupKind, ObjectKey
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import TypedObject, Unstructured, status_class
from opsdk.base.durations import as_seconds
from opsdk.children.ordering import ChildIdentity
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.controller.status import StatusPatch
from opsdk.errors import UsageError
from opsdk.event.handlers import is_async
from opsdk.recording.calls import call_method

__all__ = ["ExternalRef", "ExternalResource", "ExternalStatus"]

T = TypeVar("T", bound=TypedObject | Unstructured)


class ExternalContext(Protocol):
    """The part of `opsdk.controller.context.Context` that an external resource gets. That module imports this one."""

    @property
    def request(self) -> Any:
        """The request of the reconcile."""
        ...

    @property
    def object(self) -> Any:
        """The object that owns the resource."""
        ...

    @property
    def finalizing(self) -> bool:
        """Whether the object is being deleted."""
        ...

    @property
    def client(self) -> Client:
        """Reads from the cache, writes to the server."""
        ...

    @property
    def cluster(self) -> Cluster:
        """The cluster of the controller; ``cluster.recorder`` writes Events."""
        ...

    @property
    def logger(self) -> logging.Logger:
        """The logger of the controller."""
        ...


class HasId(Protocol):
    """The state of an external resource."""

    @property
    def id(self) -> str:
        """The id that the service gave it."""
        ...


S = TypeVar("S", bound=HasId)


class ExternalStatus(Model):
    """The field of the status that has the id of an external resource. opsdk writes it.

    Attributes:
        id: the id that the service gave it.
        after: the children that come before it.
    """

    id: str = ""
    after: str = ""


class ExternalRef(msgspec.Struct, frozen=True, kw_only=True, eq=False, omit_defaults=True):
    """What is known about an external resource before it is observed, and the context of the reconcile.

    Attributes:
        id: its id; empty before its creation, or if the process ended before the id was written.
        token: the same for each attempt to create it, and for no other resource: give it to the service as a name, a
            tag or an idempotency key, and look for it if there is no id.
    """

    id: str
    token: str
    _ctx: ExternalContext | None = None

    @property
    def ctx(self) -> ExternalContext:
        """The context of the reconcile or the deletion: client, logger, Events. It takes no part in comparisons.

        Raises:
            UsageError: a test made this value without it.

        >>> ExternalRef(id="bucket-1", token="a-bucket")
        ExternalRef(id='bucket-1', token='a-bucket')
        """
        if self._ctx is None:
            raise UsageError("this ExternalRef has no context: call the method through ctx.apply, or pass with_context")
        return self._ctx

    def with_context(self, ctx: ExternalContext) -> ExternalRef:
        """Return the value with a context, for a test that calls a method itself."""
        return ExternalRef(id=self.id, token=self.token, _ctx=ctx)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExternalRef) and (self.id, self.token) == (other.id, other.token)

    def __hash__(self) -> int:
        return hash((self.id, self.token))

    def __repr__(self) -> str:
        return f"ExternalRef(id={self.id!r}, token={self.token!r})"


class ExternalResource(ABC, Generic[T, S]):
    """Something outside Kubernetes that an object owns. Derive from it, and pass an instance in ``owns``.

    ``ctx.apply`` observes it, creates it if it does not exist, writes its id to the status at once, and updates it.

    All methods must be idempotent: a process may end at each await. An exception fails the reconcile.
    ``ref.ctx`` is the context: a method reads a Secret with ``await ref.ctx.client.get(Secret, key)``.

    Attributes:
        name: a field of the object's status, an `ExternalStatus`; also the name in messages.
        poll: seconds, or a timedelta, between two observations, because changes outside Kubernetes cause no events.

    >>> class Bucket(ExternalResource[Any, Any]):
    ...     name = "bucket"
    ...     async def observe(self, obj, ref): ...
    ...     async def create(self, obj, ref): ...
    ...     async def delete(self, obj, ref): ...
    >>> Bucket()
    <Bucket bucket>
    """

    name: str = ""
    poll: float | timedelta = 60.0

    @abstractmethod
    async def observe(self, obj: T, ref: ExternalRef) -> S | None:
        """Return its state, or None if it does not exist. Without ``ref.id``, look for ``ref.token``.

        If it returns None for an id, it is called again without one, before anything is created.
        """

    @abstractmethod
    async def create(self, obj: T, ref: ExternalRef) -> S:
        """Create it with ``ref.token``, and return its state."""

    async def update(self, obj: T, ref: ExternalRef, observed: S) -> S | None:
        """Change what differs from the spec, and return the new state; None if nothing differs. Default: None."""
        return None

    @abstractmethod
    async def delete(self, obj: T, ref: ExternalRef) -> None:
        """Begin its deletion. It is called again until `observe` returns None."""

    @property
    def identity(self) -> ChildIdentity:
        """Its place among the children."""
        return ChildIdentity(GroupKind("", self.name), ObjectKey("", ""))

    @property
    def poll_seconds(self) -> float:
        """`poll` in seconds."""
        return as_seconds(self.poll) or 0.0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


def check_external(external: ExternalResource[Any, Any], owner: type[Any] | None) -> None:
    """Raise `UsageError` for an external resource that cannot work.

    Args:
        external: the resource.
        owner: the class of the objects that own it; None for one that is not known.
    """
    kind, name = type(external).__name__, external.name
    field_name: object = name
    if not isinstance(field_name, str) or not field_name.isidentifier():
        raise UsageError(f'the name of {kind} is {field_name!r}: name a field of the status, such as name = "bucket"')
    if not as_seconds(external.poll):
        raise UsageError(f"poll of {kind} is {external.poll!r}: pass more than 0 seconds, or a timedelta")
    for method in ("observe", "create", "update", "delete"):
        if not is_async(getattr(type(external), method)):
            raise UsageError(f"{method} of {kind} is not async: declare it with `async def`")
    if owner is None or not issubclass(owner, TypedObject):
        return
    status = status_class(owner)
    fields = {field.name: field.type for field in msgspec.structs.fields(status)} if status is not None else {}
    if fields.get(name) is not ExternalStatus:
        raise UsageError(
            f"{kind} keeps its id in the status of {owner.__name__}: add "
            f"`{name}: ExternalStatus = field(default_factory=ExternalStatus)`"
        )


def ref_of(external: ExternalResource[Any, Any], obj: Any) -> ExternalRef:
    """Return what the status of an object records about its external resource."""
    return ExternalRef(id=_status_of(external, obj).id, token=f"{obj.metadata.uid}-{external.name}")


def order_of(external: ExternalResource[Any, Any], obj: Any) -> str | None:
    """Return the references of the children before it; None if they are not known, since no id was written."""
    status = _status_of(external, obj)
    return status.after if status.id else None


async def find_external(ctx: ExternalContext, external: ExternalResource[Any, S], obj: Any) -> S | None:
    """Return the state of a resource by its id, or else by its token; None if it is not there."""
    ref = ref_of(external, obj)
    observed: S | None = await _call(ctx, external, external.observe, obj, ref)
    if observed is None and ref.id:
        observed = await _call(ctx, external, external.observe, obj, ExternalRef(id="", token=ref.token))
    return observed


async def delete_external(
    ctx: ExternalContext, external: ExternalResource[Any, Any], obj: Any, ref: ExternalRef
) -> None:
    """Begin the deletion of a resource."""
    await _call(ctx, external, external.delete, obj, ref)


async def _call(
    ctx: ExternalContext, external: ExternalResource[Any, Any], method: Any, obj: Any, ref: ExternalRef, *more: Any
) -> Any:
    @wraps(method)  # a recording has the result in the annotated type, and the arguments without the context
    async def with_context(obj: Any, ref: ExternalRef, *more: Any) -> Any:
        return await method(obj, ref.with_context(ctx), *more)

    return await call_method(f"{external.name}.{method.__name__}", with_context, obj, ref, *more)


async def apply_external(
    ctx: ExternalContext,
    external: ExternalResource[Any, S],
    obj: Any,
    *,
    after: Collection[ChildIdentity],
) -> S:
    """Observe a resource, create it if it is not there, and update it. Return its state.

    The id is written right after the creation. If the process ends before that, the next call finds the resource by its
    token, also where the status still has the id of one that was lost.

    Args:
        ctx: of the reconcile; its client writes the status.
        external: the resource.
        obj: its owner.
        after: the children that come before it.
    """
    observed: S | None = await find_external(ctx, external, obj)
    if observed is None:
        new = ExternalRef(id="", token=ref_of(external, obj).token)
        observed = await _call(ctx, external, external.create, obj, new)
    await _keep(ctx.client, external, obj, observed.id, after)
    updated: S | None = await _call(ctx, external, external.update, obj, ref_of(external, obj), observed)
    return observed if updated is None else updated


async def _keep(
    client: Client, external: ExternalResource[Any, Any], obj: Any, id_: str, after: Collection[ChildIdentity]
) -> None:
    """Write id and order to the status, unless they are there."""
    status = ExternalStatus(id=id_, after=", ".join(sorted(other.reference for other in after)))
    if status == _status_of(external, obj):
        return
    async with StatusPatch[Any](client, obj) as patch:
        if isinstance(obj, Unstructured):
            patch.status[external.name] = {"id": status.id, "after": status.after}
        else:
            setattr(patch.status, external.name, status)


def _status_of(external: ExternalResource[Any, Any], obj: Any) -> ExternalStatus:
    if isinstance(obj, Unstructured):
        tree = obj.get("status", external.name) or {}
        return ExternalStatus(id=tree.get("id", ""), after=tree.get("after", ""))
    status: ExternalStatus | None = getattr(obj.status, external.name, None) if obj.status is not None else None
    return status or ExternalStatus()
