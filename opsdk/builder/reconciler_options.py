"""Options of ``@operator.reconciler(...)`` and ``@fleet.reconciler(...)``, and the controllers built from them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar, overload

from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.controller.context import Context
from opsdk.controller.options import ControllerOptions
from opsdk.errors import UsageError
from opsdk.loading import on_first_use

with on_first_use:
    from opsdk import predicates as event_predicates
    from opsdk import sources as event_sources
    from opsdk.builder import arguments
    from opsdk.builder import controller_builder as builders
    from opsdk.controller import declaration as declarations
    from opsdk.controller import finalizers as finalizing
    from opsdk.controller import reconcile as reconciling
    from opsdk.event import request as requests
    from opsdk.rbac import rules as rbac_rules

T = TypeVar("T", bound=AnyObject)
U = TypeVar("U")


class ReconcilerOptions(TypedDict, total=False):
    """Keywords of `Operator.reconciler` and `opsdk.fleet.fleet.Fleet.reconciler`."""

    owns: Sequence[type[Any] | Kind[Any] | arguments.OwnsSpec]
    watches: Sequence[arguments.WatchSpec]
    predicates: Sequence[event_predicates.PredicateFunc]
    event_filter: Sequence[event_predicates.PredicateFunc]
    sources: Sequence[event_sources.EventSource | Callable[[Any], event_sources.EventSource]]
    finalizers: Mapping[str, finalizing.FinalizerFunction]
    rbac: Sequence[rbac_rules.RbacRule]
    name: str
    options: ControllerOptions | None


_Reconciled: TypeAlias = "Coroutine[Any, Any, reconciling.Result | None]"


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
        self, target: Callable[[requests.Request, Context], _Reconciled]
    ) -> Callable[[requests.Request, Context], _Reconciled]: ...
    @overload
    def __call__(self, target: Callable[[T], _Reconciled]) -> Callable[[T], _Reconciled]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[[requests.Request], _Reconciled]
    ) -> Callable[[requests.Request], _Reconciled]: ...
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
            declarations.inspect_reconciler(partial(method, None), self._kind)
        else:
            declarations.inspect_reconciler(target, self._kind)
        self._declare(target)
        return target


def check_declaration(kind: object, options: ReconcilerOptions) -> None:
    """Raise `UsageError` for a keyword that ``reconciler`` does not take, and for a value of a wrong type.

    The message has file and line of the call, and says what to write.
    """
    with arguments.located(arguments.caller_place()):
        if unknown := options.keys() - ReconcilerOptions.__annotations__.keys():
            accepted = ", ".join(ReconcilerOptions.__annotations__)
            raise UsageError(f"reconciler() does not take {', '.join(sorted(unknown))}: it takes {accepted}")
        if kind is not None:
            arguments.check_kind(kind, "reconciler(...)")
        elif not options.get("name"):
            raise UsageError("a controller without a kind needs a name: pass name=...")
        arguments.check_name(options.get("name", ""))
        for owned in arguments.members(options.get("owns", ()), "owns"):
            arguments.check_owned(owned)
        for watch in arguments.members(options.get("watches", ()), "watches"):
            arguments.check_watch(watch)
        arguments.check_predicates(options.get("predicates", ()), "predicates")
        arguments.check_predicates(options.get("event_filter", ()), "event_filter")
        arguments.check_sources(options.get("sources", ()))
        arguments.check_finalizers(options.get("finalizers", {}))
        arguments.check_rules(options.get("rbac", ()), "rbac")
        arguments.check_controller_options(options.get("options"))


def declare(
    builder: builders.ControllerBuilder[Any], options: ReconcilerOptions, target: Any, *, source_argument: object
) -> builders.ControllerBuilder[Any]:
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
        builder.watches_source(source if isinstance(source, event_sources.EventSource) else source(source_argument))
    for finalizer, function in options.get("finalizers", {}).items():
        builder.finalizer(finalizer, function)
    builder.with_event_filter(*options.get("event_filter", ()))
    builder.rbac(*options.get("rbac", ()))
    return builder.reconciler(target() if isinstance(target, type) else target)
