"""Builds one controller.

Upstream: sigs.k8s.io/controller-runtime/pkg/builder/controller.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Generic, Self, TypeVar, cast

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, TypedObject, status_class
from opsdk.builder.arguments import (
    OwnsSpec,
    ReferencedSpec,
    WatchSpec,
    as_daemon,
    check_controller_options,
    check_daemons,
    check_filtered,
    check_kind,
    check_name,
    check_owned,
    check_predicates,
    check_rules,
    check_sources,
    check_watch,
    located,
    references_by_fields,
)
from opsdk.builder.rbac import option_rules
from opsdk.cache.cache import Cache
from opsdk.cluster.cluster import Cluster
from opsdk.controller.applied_fields import FieldsOf
from opsdk.controller.controller import Controller
from opsdk.controller.daemons import DaemonFunction, DaemonSpec
from opsdk.controller.declaration import ReconcilerDeclaration, ReconcilerForm, inspect_reconciler
from opsdk.controller.external import ExternalResource, check_external
from opsdk.controller.finalizers import FinalizerFunction, Finalizers
from opsdk.controller.journal import Journal
from opsdk.controller.options import ControllerOptions
from opsdk.controller.pausing import or_pause_changes
from opsdk.controller.reconcile import AnyReconciler
from opsdk.controller.reverse_deletion import ReverseDeletion, children_finalizer
from opsdk.controller.steps.own_changes import OwnChanges
from opsdk.controller.steps.unobserved_generations import UnobservedGenerations
from opsdk.errors import ApiError, CacheError, TransportError, UsageError
from opsdk.event.handlers import EnqueueRequestForObject, EnqueueRequestForOwner, EventHandler, MapFunction, as_handler
from opsdk.event.predicates import PredicateFunc, all_of, any_of, begins_deletion, on
from opsdk.event.references import ReferencedSource
from opsdk.event.sources import EventSource, KindSource, SyncPolicy
from opsdk.manager.health import Check
from opsdk.manager.manager import Manager
from opsdk.rbac.declared import ControllerKinds
from opsdk.rbac.rules import RbacRule
from opsdk.telemetry.records import TelemetryHook

T = TypeVar("T", bound=AnyObject)
U = TypeVar("U", bound=AnyObject)


class ControllerBuilder(Generic[T]):
    """Collects and validates the watches of a controller, and builds the controller.

    ::

        ControllerBuilder(cluster, manager=manager).for_(Website).owns(Deployment).reconciler(reconcile).complete()

    Args:
        cluster: provides informers and clients. A bare `Cache` suffices for reconcilers that take only a request.
        manager: runs the controller; needed for `complete`.
        name: see `named`.
        options: see `with_options`.
        hook: receives telemetry records.
        journal: keeps what each reconcile did.
        place: file and line of the declaration, for errors.
    """

    def __init__(
        self,
        cluster: Cluster | Cache,
        *,
        manager: Manager | None = None,
        name: str = "",
        options: ControllerOptions | None = None,
        hook: TelemetryHook | None = None,
        journal: Journal | None = None,
        place: str = "",
    ) -> None:
        self._cluster = cluster if isinstance(cluster, Cluster) else None
        self._cache = cluster.cache if isinstance(cluster, Cluster) else cluster
        self._manager = manager
        self._name = name
        self._options = ControllerOptions() if options is None else options
        self._hook = hook
        self._journal = journal
        self.place = place
        self._kind: Kind[AnyObject] | None = None
        self._predicates: tuple[PredicateFunc, ...] = ()
        self._owns: list[OwnsSpec] = []
        self._externals: list[ExternalResource[Any, Any]] = []
        self._fields_of: list[Kind[AnyObject]] = []
        self._watches: list[WatchSpec | ReferencedSpec] = []
        self._sources: list[EventSource] = []
        self._filters: tuple[PredicateFunc, ...] = ()
        self._finalizers: dict[str, FinalizerFunction] = {}
        self._daemons: list[DaemonSpec] = []
        self._rules: tuple[RbacRule, ...] = ()
        self._reconciler: ReconcilerDeclaration | None = None
        self.controller: Controller | None = None
        """The controller that `build` or `complete` created; None before."""

    def for_(self, kind: KindLike[U], *, predicates: Sequence[PredicateFunc] = ()) -> ControllerBuilder[U]:
        """Set the reconciled kind. Raises `UsageError` on a second call."""
        if self._kind is not None:
            raise UsageError("for_(...) should only be called once: a controller reconciles one kind")
        with located(self.place):
            check_kind(kind, "for_(...)")
            check_predicates(predicates, "predicates", kind)
        self._kind = kind_of(kind)
        self._predicates = tuple(predicates)
        return cast("ControllerBuilder[U]", self)

    def with_predicates(self, *predicates: PredicateFunc) -> Self:
        """Add predicates for events of the reconciled kind."""
        with located(self.place):
            check_predicates((*self._predicates, *predicates), "predicates", self._kind)
        self._predicates += predicates
        return self

    def owns(
        self,
        kind: KindLike[AnyObject] | OwnsSpec | ExternalResource[Any, Any] | FieldsOf,
        *,
        predicates: Sequence[PredicateFunc] = (),
        match_every_owner: bool = False,
    ) -> Self:
        """Watch a kind whose objects map to their controller.

        With `match_every_owner`, they map to all owners of the reconciled kind. An external resource is deleted before
        its owner, and applied fields are taken back.
        """
        if isinstance(kind, ExternalResource):
            with located(self.place):
                check_external(kind, self._kind.representation if self._kind is not None else None)
            self._externals.append(kind)
            return self
        if isinstance(kind, FieldsOf):
            with located(self.place):
                check_owned(kind, self._kind)
            self._fields_of.append(kind_of(kind.kind))
            return self
        if not isinstance(kind, OwnsSpec):
            kind = OwnsSpec(kind=kind, predicates=predicates, match_every_owner=match_every_owner)
        with located(self.place):
            check_owned(kind, self._kind)
        self._owns.append(kind)
        return self

    def watches(
        self,
        kind: KindLike[AnyObject] | WatchSpec | ReferencedSpec,
        handler: MapFunction | EventHandler | None = None,
        *,
        predicates: Sequence[PredicateFunc] = (),
    ) -> Self:
        """Watch another kind. Pass kind and handler, a `WatchSpec`, or `references(...)`."""
        if handler is not None and not isinstance(kind, WatchSpec | ReferencedSpec):
            kind = WatchSpec(kind=kind, handler=handler, predicates=predicates)
        with located(self.place):
            check_watch(kind)
        self._watches.append(cast("WatchSpec | ReferencedSpec", kind))
        return self

    def watches_source(self, source: EventSource) -> Self:
        """Add any other source (``WatchesRawSource``). The event filter does not apply to it."""
        with located(self.place):
            check_sources([source], functions=False)
        self._sources.append(source)
        return self

    def with_event_filter(self, *predicates: PredicateFunc) -> Self:
        """Add predicates to every watch. They run before the watch's own predicates."""
        with located(self.place):
            check_predicates((*self._filters, *predicates), "event_filter")
        self._filters += predicates
        return self

    def finalizer(self, name: str, function: FinalizerFunction) -> Self:
        """Add a finalizer, see `opsdk.controller.finalizers`. They run in the order of these calls."""
        Finalizers(self._finalizers).register(name, function)  # raises for an invalid finalizer
        self._finalizers[name] = function
        return self

    def daemon(self, daemon: DaemonFunction | DaemonSpec) -> Self:
        """Add a function that runs while an object of the reconciled kind exists, see `DaemonSpec`."""
        with located(self.place):
            check_daemons([*self._daemons, daemon])
        self._daemons.append(as_daemon(daemon))
        return self

    def rbac(self, *rules: RbacRule) -> Self:
        """Declare permissions besides those that the declaration implies, see `opsdk.rbac.declared`."""
        with located(self.place):
            check_rules(rules, "rbac")
        self._rules += rules
        return self

    def named(self, name: str) -> Self:
        """Set the controller's name; the default is the kind in lower case."""
        with located(self.place):
            check_name(name)
        self._name = name
        return self

    def with_options(self, options: ControllerOptions) -> Self:
        """Set the controller's options."""
        with located(self.place):
            check_controller_options(options)
        self._options = options
        return self

    def reconciler(self, reconciler: AnyReconciler[T]) -> Self:
        """Set the reconciler: an async function, or an object with ``reconcile``, see `opsdk.controller.declaration`.

        Call `for_` first. Raises `UsageError` on a second call, and for a reconciler that cannot be called.
        """
        if self._reconciler is not None:
            raise UsageError("reconciler(...) should only be called once: a controller has one reconciler")
        self._reconciler = inspect_reconciler(reconciler, self._kind)
        return self

    def __repr__(self) -> str:
        kind = self._kind.name if self._kind is not None else "no kind"
        return f"<ControllerBuilder {self._name or kind}{f', {self.place}' if self.place else ''}>"

    def declared_kinds(self) -> ControllerKinds:
        """Return the kinds and rules that the controller's RBAC derives from. Omits sources of other clusters."""
        sources = [s for s in self._sources if isinstance(s, KindSource) and s.cache is self._cache]
        owns = tuple(kind_of(owned.kind) for owned in self._owns)
        return ControllerKinds(
            kind=self._kind,
            owns=owns,
            watches=(
                *(kind_of(watch.kind) for watch in self._watches),
                *self._fields_of,
                *(source.kind for source in sources),
            ),
            has_finalizers=bool(self._finalizers),
            implied=tuple(option_rules(self._kind, self._options, owns, self._externals, self._fields_of)),
            rules=self._rules,
        )

    # -------------------------------------------------------------- building
    def build(self) -> Controller:
        """Return the controller, without adding it to a manager. Raises `UsageError` if something is missing."""
        self._check()
        options = self._options
        name = self._name or (self._kind.name.lower() if self._kind is not None else "")
        own_changes = OwnChanges() if self._kind is not None and options.ignore_own_status_writes else None
        finalizers = self._all_finalizers(name)
        generations = _generations_of(self._kind) if self._kind is not None else None
        self.controller = Controller(
            name,
            self._reconciler,
            sources=[
                *self._kind_sources(own_changes, generations, finalizers),
                *(self._referenced_source(references_by_fields(kind, name)) for kind in self._fields_of),
                *self._sources,
            ],
            options=options,
            hook=self._hook,
            kind=self._kind,
            finalizers=finalizers,
            daemons=self._daemons,
            cluster=self._cluster,
            journal=self._journal,
            own_changes=own_changes,
            externals=self._externals,
            fields_of=[kind.gvk.group_kind for kind in self._fields_of],
            generations=generations,
        )
        return self.controller

    def complete(self) -> Controller:
        """Build the controller and add it to the manager. Raises `UsageError`, for example if the name is taken."""
        if self._manager is None:
            raise UsageError("must provide a manager: pass one, or use build()")
        controller = self.build()
        self._manager.claim_name(controller.name)
        self._manager.add(controller)
        self._manager.readyz.add(f"controller-{controller.name}", _sources_check(controller))
        self._manager.readyz.add(f"user-functions-{controller.name}", _functions_check(controller))
        return controller

    def _check(self) -> None:
        if self._reconciler is None:
            raise UsageError("must provide a reconciler: call reconciler(...)")
        with located(self.place):
            check_controller_options(self._options, self._kind)
            check_filtered(self._filters, self._kind, self._predicates, (*self._owns, *self._watches))
        if self._owns and self._kind is None:
            raise UsageError("owns() can only be used together with for_()")
        if self._kind is None and not self._name:
            raise UsageError("one of for_() or named() must be called")
        if self._kind is None and not self._watches and not self._sources:
            raise UsageError("there are no watches configured, controller will never get triggered")

    def _all_finalizers(self, name: str) -> Mapping[str, FinalizerFunction]:
        """Return the declared finalizers, and the one that deletes the children in reverse."""
        owns = self._owns if self._options.delete_in_reverse else []
        if self._kind is None or self._cluster is None or not (owns or self._externals or self._fields_of):
            return self._finalizers
        assert self._reconciler is not None
        if self._reconciler.form is ReconcilerForm.REQUEST:
            raise UsageError(
                f"deleting children or fields needs a reconciler that takes the object "
                f"({self._reconciler.place}): one that takes a request runs during the deletion too. "
                f"Declare its first parameter as {self._kind.representation.__name__}"
            )
        cluster = self._cluster.options
        finalizer = children_finalizer(cluster.field_owner or cluster.name, name)
        deletion = ReverseDeletion(
            [kind_of(owned.kind) for owned in owns],
            self._externals,
            list(self._finalizers),
            name if self._fields_of else "",
        )
        return {**self._finalizers, finalizer: deletion}

    def _kind_sources(
        self,
        own_changes: OwnChanges | None,
        generations: UnobservedGenerations | None,
        finalizers: Mapping[str, FinalizerFunction],
    ) -> list[EventSource]:
        sources: list[EventSource] = []
        if self._kind is not None and generations is not None:
            sources.append(self._reconciled_source(self._kind, own_changes, generations, finalizers))
            for owned in self._owns:
                handler = EnqueueRequestForOwner(self._kind, only_controller_owner=not owned.match_every_owner)
                sources.append(self._source(owned.kind, handler, owned.predicates, owned.sync_policy))
        sources += [
            self._referenced_source(watch)
            if isinstance(watch, ReferencedSpec)
            else self._source(watch.kind, as_handler(watch.handler), watch.predicates, watch.sync_policy)
            for watch in self._watches
        ]
        return sources

    def _referenced_source(self, spec: ReferencedSpec) -> EventSource:
        if self._cluster is None or self._kind is None:
            raise UsageError("references(...) needs for_(...) and a Cluster, whose client reads the objects")
        kind, referenced = kind_of(spec.kind), self._cluster.referenced
        source = ReferencedSource(
            self._cache,
            kind,
            self._kind,
            spec.by,
            predicates=(*self._filters, *spec.predicates),
            sync_policy=spec.sync_policy,
            forget=partial(referenced.forget, kind),
            changed=partial(referenced.changed, kind),
        )
        referenced.declare(kind, source.table.__contains__)
        return source

    def _reconciled_source(
        self,
        kind: Kind[AnyObject],
        own_changes: OwnChanges | None,
        generations: UnobservedGenerations,
        finalizers: Mapping[str, FinalizerFunction],
    ) -> EventSource:
        """Return the source of the reconciled kind.

        No predicate drops the change of a pause, the beginning of a deletion where there are finalizers, or its end
        where there are daemons.
        """
        predicates = (*self._filters, *self._predicates)
        if predicates and self._cluster is not None and self._options.pausing is not None:
            predicates = (or_pause_changes(predicates),)
        always = [begins_deletion(finalizers)] if finalizers else []
        always += [on(create=False, update=False, generic=False)] if self._daemons else []
        if predicates and always:
            predicates = (any_of(*always, all_of(*predicates)),)
        # Dropped changes of a spec do not count, and dropped events may show that others were observed.
        predicates = (*([generations.follow] if predicates else ()), *predicates, generations.passes)
        if own_changes is not None:
            predicates = (*predicates, own_changes.passes)  # last: it keeps events that the others pass
        return KindSource(self._cache, kind, EnqueueRequestForObject(), predicates=predicates)

    def _source(
        self,
        kind: KindLike[AnyObject],
        handler: EventHandler,
        predicates: Sequence[PredicateFunc],
        sync_policy: SyncPolicy | None,
    ) -> EventSource:
        passed = (*self._filters, *predicates)
        return KindSource(self._cache, kind, handler, predicates=passed, sync_policy=sync_policy)


def _generations_of(kind: Kind[AnyObject]) -> UnobservedGenerations:
    """Return the measurement of a kind's generations."""
    cls: type[Any] = kind.representation
    status = status_class(cls) if issubclass(cls, TypedObject) else None
    return UnobservedGenerations(monotonic, declares=hasattr(status, "observed_generation"))


def _sources_check(controller: Controller) -> Check:
    """Return a readiness check: every source of the controller follows its kind."""

    async def check() -> None:
        if problems := controller.problems():
            raise CacheError("; ".join(problems))

    return check


def _functions_check(controller: Controller) -> Check:
    """Return a readiness check: no predicate or handler raises.

    Errors of the API server in a handler do not count, because they are not defects of the user's function.
    """

    async def check() -> None:
        failing = [
            failure
            for failure in controller.failing_functions()
            if not isinstance(failure.last_error, ApiError | TransportError | CacheError)
        ]
        if failing:
            raise CacheError("; ".join(map(str, failing)))

    return check
