"""Context of a reconcile: client, logger, causes, deadline, and the steps that most reconcilers take.

Upstream: sigs.k8s.io/controller-runtime/pkg/log (FromContext), pkg/controller (ReconcileIDFromContext)
Deviates: a value that is passed to the reconciler; Go's context carries only logger and id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

import msgspec

from opsdk.aio.clock import monotonic, utc_now
from opsdk.apimachinery.gvk import GroupKind, GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import AnyKind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, KubeObject, Object, TypedObject, Unstructured, gvk_of
from opsdk.base.cause import ReconcileCause
from opsdk.children.adoption import create_once
from opsdk.children.drift import Drift
from opsdk.children.ordering import Child, ChildIdentity
from opsdk.children.readiness import Ready
from opsdk.client.client import Client, as_key
from opsdk.client.recorder.event_type import EventType
from opsdk.cluster.cluster import Cluster
from opsdk.controller.applied_fields import AppliedFields
from opsdk.controller.external import ExternalResource, HasId, apply_external
from opsdk.controller.ordered_apply import OrderedApply
from opsdk.controller.progress import Progress
from opsdk.controller.spec_comparison import SpecChange, SpecComparison
from opsdk.controller.status import StatusPatch
from opsdk.errors import UsageError
from opsdk.event.request import Request

if TYPE_CHECKING:  # start-up time: see `Cluster.recorder`
    from opsdk.client.recorder.recorder import EventRecorder

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
E = TypeVar("E", bound=HasId)
T = TypeVar("T", bound=AnyObject)
D = TypeVar("D", bound=TypedObject | Unstructured)


class HasStatus(Protocol[S_co]):
    """An object with a status."""

    @property
    def status(self) -> S_co: ...


class Owner(Enum):
    """The default owner of children."""

    RECONCILED = "reconciled object"


class Context(msgspec.Struct, kw_only=True):
    """The second argument of a reconciler, after its request or object. Valid until the reconcile ends.

    Attributes:
        request: the request. `opsdk.event.request.Request`, unless the controller has another request type.
        controller: name of the controller.
        reconcile_id: unique for each attempt; also in every log line and span.
        causes: why the reconcile runs: events, retries, timers; the newest last. Combined events are included.
        attempt: number of failures since the last success.
        deadline: time of the clock when the reconcile is cancelled; None without ``reconciliation_timeout``.
        object: the reconciled object, if the reconciler takes it; else None.
        finalizing: whether the object is being deleted, so that its finalizers run.
        specs: what `last_reconciled`, `changed` and `difference` compare; None without the option ``last_reconciled``.
        progress: the children that this reconcile applied.
        fields: what `apply_fields` applied; None without `FieldsOf` in ``owns``, and outside of a reconciler.

    >>> async def reconcile(site: Object[Any, Any], ctx: Context) -> None:
    ...     ctx.logger.info("reconciles because of %s", ctx.causes)
    """

    request: Any
    controller: str = ""
    reconcile_id: str = ""
    causes: tuple[ReconcileCause, ...] = ()
    attempt: int = 0
    deadline: float | None = None
    object: Any = None
    finalizing: bool = False
    specs: SpecComparison | None = None
    progress: Progress = msgspec.field(default_factory=Progress)
    fields: AppliedFields | None = None
    _cluster: Cluster | None = None
    _keeps_order: bool = False
    _externals: Collection[ExternalResource[Any, Any]] = ()
    _is_watched: Callable[[GroupKind], bool] = lambda _: True  # without a controller, as in a test

    @property
    def cluster(self) -> Cluster:
        """The cluster of the controller. Raises `UsageError` for a controller that was created without one."""
        if self._cluster is None:
            raise UsageError(f"controller {self.controller} has no cluster: pass cluster=... to Controller")
        return self._cluster

    @property
    def client(self) -> Client:
        """The client: reads from the cache, writes to the server."""
        return (self._cluster or self.cluster).client

    @property
    def recorder(self) -> EventRecorder:
        """Writes Events about any object. `event` is shorter for the reconciled one."""
        return self.cluster.recorder

    @property
    def logger(self) -> logging.Logger:
        """The logger of the controller. Its lines carry controller, namespace, name and reconcile id."""
        return logging.getLogger(f"opsdk.reconcile.{self.controller}")

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline, at least 0; None without a deadline."""
        return None if self.deadline is None else max(self.deadline - monotonic(), 0.0)

    @property
    def now(self) -> datetime:
        """The wall time, aware, in UTC; in a test with virtual time, the virtual one."""
        return utc_now()

    @property
    def last_reconciled(self) -> Any:
        """The spec that this controller last reconciled successfully, in the class of the spec; None at first.

        Also None after a spec of more than 64 KiB. Raises `UsageError` without the option ``last_reconciled``.
        """
        return self._comparison().last

    def changed(self, path: str = "spec") -> bool:
        """Whether a value of the spec differs from the one that was last reconciled successfully.

        True before the first success.

        >>> async def reconcile(site: Object[Any, Any], ctx: Context) -> None:
        ...     if ctx.changed("spec.size"):
        ...         ctx.logger.info("the size is new")

        Args:
            path: attributes and keys of dicts, such as ``spec.size``. A path ends at a list.

        Raises:
            UsageError: the class has no such path, or the option ``last_reconciled`` is missing.
        """
        return self._comparison().changed(path)

    def difference(self) -> list[SpecChange]:
        """Return the values of the spec that differ, with their paths; at first, the whole spec as one change.

        Raises `UsageError` without the option ``last_reconciled``.
        """
        return self._comparison().difference()

    def _comparison(self) -> SpecComparison:
        if self.specs is None:
            raise UsageError(
                f"controller {self.controller} does not keep the spec that was last reconciled: "
                'pass ControllerOptions(last_reconciled="annotation")'
            )
        return self.specs

    # First, because in the block the status is never None, also where the class allows it.
    @overload
    def status(self, obj: Object[Any, S | None]) -> StatusPatch[S]: ...
    @overload
    def status(self, obj: Object[Any, S]) -> StatusPatch[S]: ...
    @overload
    def status(self, obj: Unstructured) -> StatusPatch[dict[str, Any]]: ...
    @overload
    def status(self, obj: HasStatus[S | None]) -> StatusPatch[S]: ...
    def status(self, obj: Any) -> StatusPatch[Any]:
        """Return a block that changes the status of `obj` and writes only the difference. See `StatusPatch`.

        >>> async def reconcile(site: Object[Any, Any], ctx: Context) -> None:
        ...     async with ctx.status(site) as patch:
        ...         patch.status.replicas = 3
        ...         patch.set_condition("Ready", True, "Available", "3 of 3 replicas are ready")
        """
        return StatusPatch(self.client, obj)

    @overload
    async def apply(
        self,
        desired: D,
        *,
        owner: KubeObject | Literal[Owner.RECONCILED] | None = Owner.RECONCILED,
        force: bool = True,
        drift: Drift = Drift.REPAIR,
        ready: Ready = False,
        after: Sequence[Any] = (),
    ) -> D: ...
    @overload
    async def apply(
        self,
        desired: ExternalResource[Any, E],
        *,
        ready: Literal[False] | Callable[[E], bool] = False,
        after: Sequence[Any] = (),
    ) -> E: ...
    async def apply(
        self,
        desired: Any,
        *,
        owner: KubeObject | Literal[Owner.RECONCILED] | None = Owner.RECONCILED,
        force: bool = True,
        drift: Drift = Drift.REPAIR,
        ready: Ready = False,
        after: Sequence[Any] = (),
    ) -> Any:
        """Make an object match `desired`, and return the live object. Nothing is sent if nothing would change.

        See `opsdk.children.applier.Applier.apply`, and `opsdk.controller.external` for external resources.

        Args:
            desired: only the fields that matter. Without a namespace, a namespaced object gets the namespace of its
                owner, or without an owner that of the request. Or an external resource, which is observed, and created
                or updated; its state is returned.
            owner: becomes the controller of the object; default: the reconciled object. None for an object without
                owner, which garbage collection does not delete.
            force: take fields over from other managers.
            drift: LEAVE keeps the value of another manager that changed a field after it was applied.
            ready: the reconcile ends here until the object is ready: True by the rules of `opsdk.recipes.summary`, or a
                CEL expression over ``self``, or a function of the live object. The object's next event resumes it, so
                the kind must be in ``owns`` or ``watches``.
            after: children that this child needs, and that this reconcile has already applied. With
                ``delete_in_reverse``, this child is deleted before them.

        Raises:
            NotReadyError: the object is not ready. It ends the reconcile without a failure.
            AlreadyOwnedError: another object is the controller. Nothing is sent.
            ConflictError: other managers own fields with different values, and `force` is False.
            TerminatingError: the live object is being deleted. The retry creates it again when it is gone.
            UsageError: `desired` cannot be applied, the owner is missing, or `ready` or `after` cannot work.
            ApiError: the server rejected the apply.
        """
        if isinstance(desired, ExternalResource):
            child = Child(desired, after=after, ready=ready)
            return await self._ordered.apply_one(child, self._apply_external)
        parent = self._parent(owner)
        await self._set_namespaces([desired], parent)
        applier = self.cluster.applier(drift, controller=self.controller)
        if ready is False and after == () and not self._keeps_order:
            # The usual case, and the path of every reconcile that has nothing to do.
            live = await applier.apply(desired, owner=parent, force=force)
            self.progress.add_applied((live,))
            return live
        child = Child(desired, after=after, ready=ready)
        return await self._ordered.apply_one(child, lambda obj, _: applier.apply(obj, owner=parent, force=force))

    @overload
    async def apply_all(
        self,
        desired: Sequence[D],
        *,
        owner: KubeObject | Literal[Owner.RECONCILED] = Owner.RECONCILED,
        prune: Sequence[AnyKind] = (),
        force: bool = True,
        drift: Drift = Drift.REPAIR,
    ) -> list[D]: ...
    @overload
    async def apply_all(
        self,
        desired: Sequence[TypedObject | Unstructured | Child | ExternalResource[Any, Any]],
        *,
        owner: KubeObject | Literal[Owner.RECONCILED] = Owner.RECONCILED,
        prune: Sequence[AnyKind] = (),
        force: bool = True,
        drift: Drift = Drift.REPAIR,
    ) -> list[Any]: ...
    async def apply_all(
        self,
        desired: Sequence[Any],
        *,
        owner: KubeObject | Literal[Owner.RECONCILED] = Owner.RECONCILED,
        prune: Sequence[AnyKind] = (),
        force: bool = True,
        drift: Drift = Drift.REPAIR,
    ) -> list[Any]:
        """Apply every object in order, then delete children of the `prune` kinds that are no longer desired.

        If one is a `Child`, its ``after`` defines the order, and up to ten independent objects are applied at the
        same time. If an object fails or is not ready, only those that come after it are not applied.

        See `opsdk.children.applier.Applier.apply_all`. Only objects that the owner controls and that this operator
        applied are deleted, even after a restart. With a `Child`, they are deleted when all children are ready.

        Raises:
            NotReadyError: a `Child` is not ready. It ends the reconcile without a failure.
            ExceptionGroup: several objects of a set with a `Child` failed.
            UsageError: an object occurs twice, the order has a cycle or an object outside the set, or see `apply`.
        """
        parent = self._parent(owner)
        assert parent is not None
        applier = self.cluster.applier(drift, controller=self.controller)
        plain = [member for member in desired if isinstance(member, TypedObject | Unstructured)]
        if len(plain) == len(desired):
            await self._set_namespaces(plain, parent)
            if self._keeps_order:
                self._ordered.check([Child(member) for member in plain])
            live = await applier.apply_all(plain, owner=parent, prune=prune, force=force)
            self.progress.add_applied(live)
            return live
        children = [member if isinstance(member, Child) else Child(member) for member in desired]
        objects = [child.desired for child in children if not isinstance(child.desired, ExternalResource)]
        await self._set_namespaces(objects, parent)

        async def apply(member: Any, before: Collection[ChildIdentity]) -> Any:
            if isinstance(member, ExternalResource):
                return await self._apply_external(member, before)
            return await applier.apply(member, owner=parent, force=force)

        live = await self._ordered.apply_set(children, apply)
        await applier.prune(objects, owner=parent, kinds=prune)
        return live

    async def apply_fields(self, desired: D, *, force: bool = True) -> D:
        """Make single fields of an object of another owner match, and return the live object. It creates nothing.

        For an annotation on a Node or the replicas of a Deployment of others. The fields get no owner reference and a
        field manager of their own. They are taken back when a successful reconcile no longer applies them, and before
        the reconciled object is removed: a field that another manager applied too keeps its value.

        >>> async def reconcile(site: Object[Any, Any], ctx: Context) -> None:
        ...     meta = ObjectMeta(name=site.spec.node, annotations={"example.com/site": site.metadata.name})
        ...     await ctx.apply_fields(Node(metadata=meta))

        Args:
            desired: name and namespace as in `apply`, and only the fields to set. Its kind must be in ``owns``, as
                ``FieldsOf(Node)``: then a change of the object reconciles again. One call for each object.
            force: take fields over from other managers.

        Raises:
            NotFoundError: the object does not exist, or is gone.
            ConflictError: other managers own fields with different values, and `force` is False.
            UsageError: the kind is not in ``owns``, or see `apply`.
            ApiError: the server rejected the apply.
        """
        if self.fields is None:
            kind = gvk_of(desired).kind
            raise UsageError(
                f"ctx.apply_fields works in a reconciler with owns=[FieldsOf({kind})], which takes the fields back"
            )
        await self._set_namespaces([desired], self.object)
        return await self.fields.apply(desired, force=force)

    async def create_once(
        self, desired: D, *, owner: KubeObject | Literal[Owner.RECONCILED] | None = Owner.RECONCILED
    ) -> D:
        """Create an object unless it exists, and return the live one, which stays as it is.

        For what is generated once, such as a password. A stale cache does not overwrite it, and ``apply_all(prune=)``
        does not delete it: garbage collection does, with its owner.

        >>> async def reconcile(site: Object[Any, Any], ctx: Context) -> None:
        ...     meta = ObjectMeta(name=f"{site.metadata.name}-admin")
        ...     secret = await ctx.create_once(Secret(metadata=meta, string_data={"password": token_urlsafe()}))
        ...     ctx.logger.info("the password has %d bytes", len(secret.data["password"]))

        Args:
            desired: the whole object. Without a namespace, it gets one as in `apply`.
            owner: as in `apply`. An object that is there and has no controller gets it too.

        Raises:
            AlreadyOwnedError: another object is its controller.
            TerminatingError: it is being deleted. The retry creates it again when it is gone.
            ApiError: the server rejected it.
        """
        parent = self._parent(owner)
        await self._set_namespaces([desired], parent)
        live = await create_once(self.client, desired, owner=parent)
        self.progress.add_applied((live,))
        return live

    async def require(self, kind: KindLike[T], key: ObjectKey | str, *, ready: Ready = False) -> T:
        """Return an object that another program creates, such as a Secret that the spec names.

        While it is not there, the reconcile ends here without a failure: nothing is logged or retried, the option
        ``ready_condition`` shows what is missing, and the event of the object resumes the reconcile. So its kind must
        be in ``watches``, usually by `references`, or in ``owns``.

        >>> async def reconcile(site: Object[Any, Any], ctx: Context) -> None:
        ...     secret = await ctx.require(Secret, site.spec.credentials)
        ...     ctx.logger.info("the credentials have %d keys", len(secret.data))

        Args:
            kind: of the object.
            key: a name, in the namespace of the request if the kind is namespaced; or ``namespace/name``.
            ready: as in `apply`: wait until it is ready too.

        Raises:
            NotReadyError: it does not exist, or is not ready. It ends the reconcile without a failure.
            UsageError: no event of the kind would resume the reconcile, or `ready` cannot work.
            ApiError: the server rejected the read.
        """
        token = kind_of(kind)
        if isinstance(key, str) and "/" not in key:
            mapping = await self.cluster.mapper.mapping_for(token.gvk)
            key = ObjectKey(request_key(self.request)[0] if mapping.namespaced else "", key)
        identity = ChildIdentity(token.gvk.group_kind, as_key(key))
        ordered = self._ordered
        ordered.check_required(identity, ready)
        live: T | None = await self.client.get_or_none(token, identity.key)
        ordered.note_required(identity, live, ready)
        assert live is not None
        return live

    @property
    def _ordered(self) -> OrderedApply:
        return OrderedApply(self.progress, self._is_watched, keeps_order=self._keeps_order, externals=self._externals)

    async def _apply_external(self, external: ExternalResource[Any, Any], before: Collection[ChildIdentity]) -> Any:
        self.progress.poll_after(external.poll_seconds)
        return await apply_external(self, external, self.object, after=before)

    def _parent(self, owner: KubeObject | Literal[Owner.RECONCILED] | None) -> KubeObject | None:
        if not isinstance(owner, Owner):
            return owner
        if self.object is None:
            raise UsageError(
                "the reconciler takes a request, so opsdk does not know the owner: pass owner=..., or owner=None"
            )
        parent: KubeObject = self.object
        return parent

    async def _set_namespaces(self, desired: Sequence[KubeObject], parent: KubeObject | None) -> None:
        namespace = parent.metadata.namespace if parent is not None else request_key(self.request)[0]
        if not namespace:
            return
        namespaces: dict[GroupVersionKind, str] = {}
        for obj in desired:
            if not obj.metadata.namespace:
                gvk = gvk_of(obj)
                if gvk not in namespaces:
                    mapping = await self.cluster.mapper.mapping_for(gvk)
                    namespaces[gvk] = namespace if mapping.namespaced else ""
                obj.metadata.namespace = namespaces[gvk]

    def event(
        self,
        reason: str,
        note: str,
        *,
        type: EventType = "Normal",
        regarding: AnyObject | None = None,
        action: str = "",
        related: AnyObject | None = None,
    ) -> None:
        """Record an Event about the reconciled object, or about `regarding`. See `EventRecorder.event`."""
        about = regarding or self.object
        if about is None:
            raise UsageError("the reconciler takes a request: pass the object of the Event as regarding=...")
        self.recorder.event(about, type, reason, note, action=action, related=related)


def request_key(request: Any) -> tuple[str, str]:
    """Return namespace and name of a request; a request of another type has only a name."""
    if type(request) is Request:
        return request.namespace, request.name
    name = getattr(request, "name", None)
    return getattr(request, "namespace", ""), str(request) if name is None else name
