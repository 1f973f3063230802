"""Options of ``@operator.reconciler(...)`` and ``@fleet.reconciler(...)``, and the controllers built from them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar, overload

from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject
from opsdk.base.place import caller_place
from opsdk.builder.arguments import (
    OwnedKind,
    ReferencedSpec,
    WatchSpec,
    check_controller_options,
    check_daemons,
    check_filtered,
    check_finalizers,
    check_kind,
    check_name,
    check_owned,
    check_predicates,
    check_rules,
    check_sources,
    check_watch,
    located,
    members,
    split_owns,
)
from opsdk.builder.controller_builder import ControllerBuilder
from opsdk.builder.rbac import DeclaredController
from opsdk.controller.blocking_context import BlockingContext
from opsdk.controller.context import Context
from opsdk.controller.daemons import DaemonFunction, DaemonSpec
from opsdk.controller.declaration import inspect_reconciler
from opsdk.controller.finalizers import FinalizerFunction
from opsdk.controller.options import ControllerOptions
from opsdk.controller.reconcile import Result
from opsdk.errors import UsageError
from opsdk.event.predicates import PredicateFunc
from opsdk.event.request import Request
from opsdk.event.sources import EventSource
from opsdk.rbac.declared import ControllerKinds
from opsdk.rbac.rules import RbacRule

T = TypeVar("T", bound=AnyObject)
U = TypeVar("U")


class ReconcilerOptions(TypedDict, total=False):
    """Keywords of `Operator.reconciler` and `opsdk.fleet.fleet.Fleet.reconciler`."""

    owns: Sequence[OwnedKind]
    watches: Sequence[WatchSpec | ReferencedSpec]
    predicates: Sequence[PredicateFunc]
    event_filter: Sequence[PredicateFunc]
    sources: Sequence[EventSource | Callable[[Any], EventSource]]
    finalizers: Mapping[str, FinalizerFunction]
    daemons: Sequence[DaemonFunction | DaemonSpec]
    rbac: Sequence[RbacRule]
    name: str
    options: ControllerOptions | None


class DeclaredReconciler(NamedTuple):
    """One reconciler, as it was declared.

    Attributes:
        kind: the reconciled kind, if any.
        options: the keywords.
        target: the function or class.
    """

    kind: Kind[Any] | None
    options: ReconcilerOptions
    target: Any


_Reconciled: TypeAlias = Coroutine[Any, Any, Result | None]


class ReconcilerDecorator(Generic[T]):
    """The decorator that ``reconciler`` returns: declares the decorated function and returns it unchanged."""

    def __init__(self, kind: Kind[Any] | None, declare: Callable[[Any], None]) -> None:
        self._kind = kind
        self._declare = declare

    # A class is also a callable, so the last overload overlaps with the others.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[[T, Context], _Reconciled]
    ) -> Callable[[T, Context], _Reconciled]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[[Request, Context], _Reconciled]
    ) -> Callable[[Request, Context], _Reconciled]: ...
    @overload
    def __call__(self, target: Callable[[T], _Reconciled]) -> Callable[[T], _Reconciled]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[[Request], _Reconciled]
    ) -> Callable[[Request], _Reconciled]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[[T, BlockingContext], Result | None]
    ) -> Callable[[T, BlockingContext], Result | None]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[[Request, BlockingContext], Result | None]
    ) -> Callable[[Request, BlockingContext], Result | None]: ...
    @overload
    def __call__(self, target: Callable[[T], Result | None]) -> Callable[[T], Result | None]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[[Request], Result | None]
    ) -> Callable[[Request], Result | None]: ...
    @overload
    def __call__(self, target: type[U]) -> type[U]: ...
    def __call__(self, target: Any) -> Any:
        """Declare a reconciler. Raises `UsageError` for one that cannot be called."""
        if isinstance(target, type):
            method = getattr(target, "reconcile", None)
            if method is None:
                raise UsageError(
                    f"{target.__name__} is not a reconciler: it needs `async def reconcile(self, request)`"
                )
            inspect_reconciler(partial(method, None), self._kind)
        else:
            inspect_reconciler(target, self._kind)
        self._declare(target)
        return target


def _unknown_keywords(names: Sequence[str]) -> str:
    """Return what is wrong with keywords of ``reconciler`` that it does not have."""
    if all(name in ControllerOptions.__struct_fields__ for name in names):
        arguments = ", ".join(f"{name}=..." for name in names)
        return f"reconciler() does not take {', '.join(names)}: write options=ControllerOptions({arguments})"
    accepted = ", ".join(ReconcilerOptions.__annotations__)
    return f"reconciler() does not take {', '.join(names)}: it takes {accepted}"


def check_declaration(
    kind: KindLike[Any] | None, options: ReconcilerOptions, default: ControllerOptions | None = None
) -> None:
    """Raise `UsageError` for a keyword that ``reconciler`` does not take, and for a value of a wrong type.

    The message has file and line of the call, and a remedy. `default` are the options of a reconciler
    without its own.
    """
    with located(caller_place()):
        if unknown := options.keys() - ReconcilerOptions.__annotations__.keys():
            raise UsageError(_unknown_keywords(sorted(unknown)))
        if kind is not None:
            check_kind(kind, "reconciler(...)")
        elif not options.get("name"):
            raise UsageError("a controller without a kind needs a name: pass name=...")
        check_name(options.get("name", ""))
        for owned in members(options.get("owns", ()), "owns"):
            check_owned(owned, kind)
        for watch in members(options.get("watches", ()), "watches"):
            check_watch(watch)
        check_predicates(options.get("predicates", ()), "predicates", kind)
        check_predicates(options.get("event_filter", ()), "event_filter")
        check_filtered(
            options.get("event_filter", ()),
            kind,
            options.get("predicates", ()),
            (*options.get("owns", ()), *options.get("watches", ())),
        )
        check_sources(options.get("sources", ()))
        check_finalizers(options.get("finalizers", {}))
        check_daemons(options.get("daemons", ()))
        if options.get("daemons") and kind is None:
            raise UsageError("daemons need a reconciled kind: they run while its objects exist")
        check_rules(options.get("rbac", ()), "rbac")
        own = options.get("options")
        check_controller_options(own or default, kind)
        conditions = dict.fromkeys(
            ("error_condition", "ready_condition", "pause_condition"), "status has the condition"
        )
        for option, need in (conditions | {"last_reconciled": "spec is kept"}).items():
            if kind is None and own is not None and getattr(own, option):
                name = "the condition of pausing" if option == "pause_condition" else option
                raise UsageError(f"{name} needs a reconciled kind, whose {need}")
        if own is not None and own.delete_in_reverse and (kind is None or not options.get("owns")):
            raise UsageError("delete_in_reverse needs a reconciled kind and owns=[...], the kinds of its children")


def declared_controller(
    name: str, kind: Kind[AnyObject] | None, options: ReconcilerOptions, *, is_daemon: bool
) -> DeclaredController:
    """Return the parts of a declaration that rules, finalizers and clashes depend on."""
    owned = split_owns(options.get("owns", ()))
    finalizers = tuple(options.get("finalizers", ()))
    kinds = ControllerKinds(
        kind=kind,
        owns=owned.kinds,
        watches=(*(kind_of(watch.kind) for watch in options.get("watches", ())), *owned.fields_of),
        has_finalizers=bool(finalizers),
        rules=tuple(options.get("rbac", ())),
    )
    own, externals, fields_of = options.get("options"), owned.externals, owned.fields_of
    return DeclaredController(name, kinds, own, externals, fields_of, finalizers, is_daemon)


def declare(
    builder: ControllerBuilder[Any], options: ReconcilerOptions, target: Any, *, source_argument: object
) -> ControllerBuilder[Any]:
    """Declare a reconciler on a builder, and return the builder.

    Args:
        builder: it has the kind, the name and the controller's options.
        options: the other keywords.
        target: the function or class.
        source_argument: the argument of functions in ``sources``.
    """
    builder.with_predicates(*options.get("predicates", ()))
    for owned in options.get("owns", ()):
        builder.owns(owned)
    for watch in options.get("watches", ()):
        builder.watches(watch)
    for source in options.get("sources", ()):
        builder.watches_source(source if isinstance(source, EventSource) else source(source_argument))
    for finalizer, function in options.get("finalizers", {}).items():
        builder.finalizer(finalizer, function)
    for daemon in options.get("daemons", ()):
        builder.daemon(daemon)
    builder.with_event_filter(*options.get("event_filter", ()))
    builder.rbac(*options.get("rbac", ()))
    return builder.reconciler(target() if isinstance(target, type) else target)
