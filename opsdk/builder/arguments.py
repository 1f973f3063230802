"""The arguments of a controller's declaration: `OwnsSpec`, `WatchSpec`, and the checks of every keyword.

`ControllerBuilder` and the keywords of ``reconciler`` share the checks. A message says what to write instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, TypedObject, Unstructured
from opsdk.base.shortened import shortened
from opsdk.controller.applied_fields import FieldsOf, recorded_targets
from opsdk.controller.daemons import DaemonSpec
from opsdk.controller.external import ExternalResource, check_external
from opsdk.controller.finalizers import Finalizers
from opsdk.controller.options import ControllerOptions
from opsdk.controller.steps.condition_writer import check_condition
from opsdk.controller.steps.last_reconciled import check_place
from opsdk.errors import UsageError
from opsdk.event.handlers import EventHandler, MapFunction, is_async
from opsdk.event.predicates import PredicateFunc, all_of, reach_of
from opsdk.event.references import ReferenceFunction
from opsdk.event.sources import EventSource, SyncPolicy
from opsdk.rbac.rules import RbacRule

__all__ = ["OwnsSpec", "WatchSpec"]


class WatchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Another kind that a controller watches.

    Attributes:
        kind: the watched kind; `metadata_only(Kind)` caches only metadata.
        handler: an event handler, or a function from an object to requests, which may be ``async``.
        predicates: an event must pass all of them.
        sync_policy: what happens when the kind cannot be watched; None is the policy of the controller.
    """

    kind: KindLike[AnyObject]
    handler: MapFunction | EventHandler
    predicates: Sequence[PredicateFunc] = ()
    sync_policy: SyncPolicy | None = None


class OwnsSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A kind whose objects the reconciled object owns.

    Attributes:
        kind: the owned kind; `metadata_only(Kind)` caches only metadata.
        predicates: an event must pass all of them.
        match_every_owner: an object maps to all its owners of the reconciled kind, not only to its controller.
        sync_policy: what happens when the kind cannot be watched; None is the policy of the controller.
    """

    kind: KindLike[AnyObject]
    predicates: Sequence[PredicateFunc] = ()
    match_every_owner: bool = False
    sync_policy: SyncPolicy | None = None


class ReferencedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A kind whose objects the reconciled objects reference by name. Made by `references`.

    Attributes:
        kind: the referenced kind.
        by: returns what an object references.
        predicates: an event of the referenced kind must pass all of them.
        sync_policy: what happens when the kind cannot be watched; None is the policy of the controller.
    """

    kind: KindLike[AnyObject]
    by: ReferenceFunction
    predicates: Sequence[PredicateFunc] = ()
    sync_policy: SyncPolicy | None = None


def references(
    kind: KindLike[AnyObject],
    *,
    by: ReferenceFunction,
    predicates: Sequence[PredicateFunc] = (),
    sync_policy: SyncPolicy | None = None,
) -> ReferencedSpec:
    """Watch a kind whose objects the reconciled objects reference, for ``watches=[...]``.

    The cache holds the metadata of all of its objects, and whole objects only of those that something references: a
    read of one with ``ctx.client.get`` asks the server once for each of its states. A change of one reconciles the
    objects that reference it. Nothing is watched while nothing is referenced.

    Args:
        kind: the referenced kind, such as ``Secret``.
        by: returns what an object references: a name in its namespace, ``namespace/name``, an `ObjectKey`, or several.
        predicates: an event of the referenced kind must pass all of them.
        sync_policy: what happens when the kind cannot be watched; None is the policy of the controller.

    >>> from opsdk.api.core.v1 import Pod, Secret
    >>> operator = Operator("example")  # doctest: +SKIP
    >>> @operator.reconciler(Pod, watches=[references(Secret, by=lambda pod: pod.spec.hostname)])  # doctest: +SKIP
    ... async def reconcile(pod: Pod, ctx: Context) -> None: ...
    """
    return ReferencedSpec(kind=kind, by=by, predicates=predicates, sync_policy=sync_policy)


OwnedKind: TypeAlias = type[Any] | Kind[Any] | OwnsSpec | ExternalResource[Any, Any] | FieldsOf
"""A member of ``owns``. ``type[Any]``, because mypy infers ``list[StructMeta]`` for ``[ConfigMap, Role]``."""


def check_kind(kind: object, call: str) -> None:
    """Raise `UsageError` unless `kind` is a class with a ``gvk``, or a `Kind`. `call` begins the message."""
    if isinstance(kind, TypedObject | Unstructured | PartialObjectMetadata):
        name = type(kind).__name__
        raise UsageError(f"{call} takes a kind, but got an object: pass the class {name}, not {name}(...)")
    if isinstance(kind, list | tuple | set | frozenset):
        raise UsageError(f"{call} takes one kind, but got the {_shown(kind)}")
    if not isinstance(kind, type | Kind):
        raise UsageError(
            f"{call} takes a kind, but got {_shown(kind)}: "
            "pass a class such as ConfigMap, unstructured_kind(apiVersion, kind) or metadata_only(class)"
        )
    kind_of(kind)


class OwnedParts(NamedTuple):
    """The members of ``owns``: the kinds of children, the external resources, the kinds with applied fields."""

    kinds: tuple[Kind[AnyObject], ...]
    externals: tuple[ExternalResource[Any, Any], ...]
    fields_of: tuple[Kind[AnyObject], ...]


def split_owns(owns: Iterable[OwnedKind]) -> OwnedParts:
    """Return the members of ``owns``."""
    kinds = [owned for owned in owns if not isinstance(owned, ExternalResource | FieldsOf)]
    return OwnedParts(
        kinds=tuple(kind_of(owned.kind if isinstance(owned, OwnsSpec) else owned) for owned in kinds),
        externals=tuple(owned for owned in owns if isinstance(owned, ExternalResource)),
        fields_of=tuple(kind_of(owned.kind) for owned in owns if isinstance(owned, FieldsOf)),
    )


def references_by_fields(kind: Kind[AnyObject], controller: str) -> ReferencedSpec:
    """Return the watch of the objects whose fields a controller applies: a change of one reconciles again."""
    group_kind = kind.gvk.group_kind

    def recorded(obj: AnyObject) -> list[ObjectKey]:
        return [target.key for target in recorded_targets(obj, controller) if target.kind == group_kind]

    return references(kind, by=recorded)


def check_owned(owned: object, owner: object) -> None:
    """Raise `UsageError` unless `owned` is a kind, an `OwnsSpec` or an external resource of `owner`, a kind."""
    if isinstance(owned, type) and issubclass(owned, ExternalResource):
        raise UsageError(f"owns got the class {owned.__name__}: pass an instance, {owned.__name__}(...)")
    if isinstance(owned, ExternalResource):
        if not isinstance(owner, type | Kind):
            raise UsageError(f"{owned!r} needs a reconciled kind: the id is kept in its status")
        check_external(owned, kind_of(owner).representation)
        return
    if isinstance(owned, FieldsOf):
        if not isinstance(owner, type | Kind):
            raise UsageError("FieldsOf(...) needs a reconciled kind: its objects get the record of the fields")
        check_kind(owned.kind, "FieldsOf(...)")
        if kind_of(owned.kind).representation is PartialObjectMetadata:
            raise UsageError("FieldsOf got metadata_only(...): pass the class, because whole objects are compared")
        return
    if isinstance(owned, WatchSpec):
        raise UsageError("owns got a WatchSpec: write watches=[WatchSpec(...)], or owns=[OwnsSpec(kind=...)]")
    if isinstance(owned, OwnsSpec):
        check_kind(owned.kind, "OwnsSpec(kind=...)")
        check_predicates(owned.predicates, "predicates", owned.kind)
        _check_sync_policy(owned.sync_policy, "OwnsSpec")
    else:
        check_kind(owned, "owns")


def check_watch(watch: object) -> None:
    """Raise `UsageError` unless `watch` is a `WatchSpec` with a kind and a handler."""
    if isinstance(watch, ReferencedSpec):
        _check_referenced(watch)
        return
    if isinstance(watch, OwnsSpec):
        raise UsageError("watches got an OwnsSpec: write owns=[OwnsSpec(...)], or watches=[WatchSpec(...)]")
    if not isinstance(watch, WatchSpec):
        name = _kind_name(watch)
        raise UsageError(
            f"watches got {name or _shown(watch)}, but a watch needs a handler: "
            f"write watches=[WatchSpec(kind={name or 'ConfigMap'}, handler=...)] "
            "with a function from an object to requests, or a handler of opsdk.event.handlers"
        )
    check_kind(watch.kind, "WatchSpec(kind=...)")
    if not callable(watch.handler) and not isinstance(watch.handler, EventHandler):
        raise UsageError(
            f"the handler of WatchSpec(kind={_kind_name(watch.kind)}) is {_shown(watch.handler)}: "
            "pass a function from an object to requests, or a handler of opsdk.event.handlers"
        )
    if isinstance(watch.handler, type) and issubclass(watch.handler, EventHandler):
        name = watch.handler.__name__
        raise UsageError(
            f"the handler of WatchSpec(kind={_kind_name(watch.kind)}) is the class {name}: "
            f"pass an instance, {name}(...)"
        )
    check_predicates(watch.predicates, "predicates", watch.kind)
    _check_sync_policy(watch.sync_policy, "WatchSpec")


def _check_referenced(spec: ReferencedSpec) -> None:
    check_kind(spec.kind, "references(...)")
    if kind_of(spec.kind).representation is PartialObjectMetadata:
        raise UsageError("references got metadata_only(...): pass the class, because whole objects are read")
    by: object = spec.by
    if not callable(by) or is_async(by):
        raise UsageError(
            f"by of references({_kind_name(spec.kind)}, by=...) is {_shown(by)}: "
            "pass a plain function from an object to the name that it references"
        )
    check_predicates(spec.predicates, "predicates", spec.kind)
    _check_sync_policy(spec.sync_policy, "references")


def check_predicates(predicates: object, call: str, kind: KindLike[Any] | None = None) -> None:
    """Raise `UsageError` unless each of `predicates` is a plain function, and an event of `kind` can pass all of them.

    Args:
        predicates: the argument.
        call: begins the message.
        kind: of the events; None if it is not known, or for several kinds.
    """
    for predicate in members(predicates, call):
        if not callable(predicate):
            raise UsageError(
                f"{call} got {_shown(predicate)}, which is not a function: "
                "pass functions from an event to a bool, or those of opsdk.event.predicates"
            )
        _check_reach(predicate, call, kind)
        if is_async(predicate):
            raise UsageError(f"{call} got {_shown(predicate)}, which is async: declare a predicate with a plain def")
        if not _takes_one_argument(predicate):
            name = getattr(predicate, "__name__", "it")
            raise UsageError(
                f"{call} got {_shown(predicate)}, which does not take (event): "
                f"if it returns a predicate, call it: {name}(...)"
            )
    _check_reach(all_of(*members(predicates, call)), call, kind)


def check_filtered(
    filters: Sequence[PredicateFunc],
    kind: KindLike[Any] | None,
    predicates: Sequence[PredicateFunc],
    specs: Iterable[object],
) -> None:
    """Raise `UsageError` if no event of a watched kind can pass the event filters and its own predicates.

    Args:
        filters: of every watch.
        kind: the reconciled kind.
        predicates: of the reconciled kind.
        specs: the other watched kinds: members of ``owns`` and ``watches``.
    """
    check_predicates((*filters, *predicates), "predicates", kind)
    for spec in specs:
        if isinstance(spec, OwnsSpec | WatchSpec | ReferencedSpec):
            check_predicates((*filters, *spec.predicates), "predicates", spec.kind)
        elif isinstance(spec, type | Kind):
            check_predicates(filters, "event_filter", spec)


def _check_reach(predicate: PredicateFunc, call: str, kind: KindLike[Any] | None) -> None:
    """Raise `UsageError` for a predicate that no event of `kind` can pass."""
    reach = reach_of(predicate)
    if reach.is_nothing:
        raise UsageError(f"{call} got {predicate!r}, which passes no event: remove it, or give it a test")
    if kind is not None and reach.is_nothing_of(kind_of(kind).gvk.group_kind):
        raise UsageError(
            f"{call} got {predicate!r}, which passes no event of {kind_of(kind).name} but resyncs, "
            "because the kind has no generation: remove it, or give it a test"
        )


def check_rules(rules: object, call: str) -> None:
    """Raise `UsageError` unless each of `rules` is an `RbacRule`. `call` begins the message."""
    for rule in members(rules, call):
        if not isinstance(rule, RbacRule):
            raise UsageError(f'{call} got {_shown(rule)}: write RbacRule("get list watch", Secret)')


def check_sources(sources: object, *, functions: bool = True) -> None:
    """Raise `UsageError` unless each source is an `EventSource`, or with `functions` a function that returns one."""
    for source in members(sources, "sources"):
        if isinstance(source, type) and issubclass(source, EventSource):
            raise UsageError(f"sources got the class {source.__name__}: pass an instance, {source.__name__}(...)")
        if not isinstance(source, EventSource) and not (functions and callable(source)):
            raise UsageError(
                f"sources got {_shown(source)}, which is not a source: pass a source of opsdk.event.sources "
                f"or opsdk.event.timers{', or a function that returns one' if functions else ''}"
            )


def check_finalizers(finalizers: object) -> None:
    """Raise `UsageError` unless `finalizers` maps names with a domain to async functions."""
    if not isinstance(finalizers, Mapping):
        raise UsageError(
            f"finalizers takes functions by name, but got {_shown(finalizers)}: "
            'write finalizers={"example.com/clean-up": clean_up}'
        )
    for name, function in finalizers.items():
        if not isinstance(name, str) or not callable(function):
            raise UsageError(
                f"finalizers got {_shown(name)}: {_shown(function)}: "
                'write finalizers={"example.com/clean-up": clean_up} with `async def clean_up(obj, ctx)`'
            )
    Finalizers(finalizers)


def as_daemon(daemon: object) -> DaemonSpec:
    """Return a member of ``daemons`` as a `DaemonSpec`. Raises `UsageError` for anything else."""
    if isinstance(daemon, DaemonSpec):
        return daemon
    if not callable(daemon) or isinstance(daemon, type):
        raise UsageError(
            f"daemons got {_shown(daemon)}: write daemons=[monitor] with `async def monitor(obj, ctx)`, "
            "or daemons=[DaemonSpec(function=monitor, ...)]"
        )
    return DaemonSpec(function=daemon)


def check_daemons(daemons: object) -> None:
    """Raise `UsageError` unless each of `daemons` is a function or a `DaemonSpec`, with a name of its own."""
    names = [as_daemon(daemon).shown_name for daemon in members(daemons, "daemons")]
    if len(set(names)) < len(names):
        raise UsageError(f"two daemons have the same name ({', '.join(names)}): pass name=... to DaemonSpec")


def check_name(name: object) -> None:
    """Raise `UsageError` unless `name` is text."""
    if not isinstance(name, str):
        raise UsageError(f'name takes the name of the controller, but got {_shown(name)}: write name="websites"')


def check_controller_options(options: object, kind: object = None) -> None:
    """Raise `UsageError` unless `options` are None, or `ControllerOptions` that suit the reconciled kind."""
    if options is None:
        return
    if not isinstance(options, ControllerOptions):
        raise UsageError(
            f"options takes the controller's options, but got {_shown(options)}: write options=ControllerOptions(...)"
        )
    if isinstance(kind, type | Kind):
        check_condition(kind_of(kind), options.error_condition, "error_condition")
        check_condition(kind_of(kind), options.pause_condition, "condition")
        check_place(kind_of(kind), options.last_reconciled)
        check_condition(kind_of(kind), options.ready_condition, "ready_condition")


def members(value: object, keyword: str) -> Collection[Any]:
    """Return the members of a keyword's list. Raises `UsageError` for anything else, and shows how to write the list.

    An iterator is refused too, because the declaration is read more than once.
    """
    if isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping | TypedObject | Unstructured):
        return value
    member = _kind_name(value) or "..."
    if keyword == "watches" and not isinstance(value, WatchSpec):
        member = f"WatchSpec(kind={member}, handler=...)"
    raise UsageError(f"{keyword} takes a list, but got {_shown(value)}: write {keyword}=[{member}]")


class located:  # noqa: N801 - used as a function
    """Adds the place of a declaration to a `UsageError` of the block, unless the message has it.

    A class, because `opsdk.cli.loading.place_of` ignores opsdk's frames, but not those of `contextlib`.

    Args:
        place: ``FILE:LINE``; empty adds nothing.
    """

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, UsageError) and self._place and self._place not in str(error):
            raise UsageError(f"{self._place}: {error}") from None


def _check_sync_policy(policy: object, spec: str) -> None:
    if policy is not None and not isinstance(policy, SyncPolicy):
        raise UsageError(
            f"the sync_policy of {spec} is {_shown(policy)}: pass a member of opsdk.event.sources.SyncPolicy"
        )


def _takes_one_argument(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in without a signature
        return True
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


def _kind_name(value: object) -> str:
    """Return how a program writes a kind: the name of the class; empty for anything else."""
    if isinstance(value, Kind):
        return value.representation.__name__ if issubclass(value.representation, TypedObject) else repr(value)
    return value.__name__ if isinstance(value, type) and hasattr(value, "gvk") else ""


def _shown(value: object) -> str:
    """Return a value as a message shows it: classes and functions by name, long values cut."""
    text = getattr(value, "__name__", None) or repr(value)
    return shortened(text, 80)
