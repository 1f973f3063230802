"""Calls the handlers of one kind when related objects of another kind change.

Upstream: github.com/rancher/wrangler/pkg/relatedresource
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from opsdk.apimachinery.kinds import KindLike, kind_of
from opsdk.apimachinery.object import AnyObject
from opsdk.event.handlers import EnqueueRequestForOwner, EnqueueRequestsFromMapFunc, EventHandler, MapFunction, Mapped
from opsdk.event.predicates import PredicateFunc
from opsdk.event.request import Request
from opsdk.event.sources import KindSource
from opsdk.lifecycle.generic_controller import GenericController

TRIGGER_ALL: Final = Request("", "_all_")
"""A resolver returns it to call the handlers for every object (``relatedresource.AllKey``)."""

_ResolvedRequests = Iterable[Hashable] | None


def relate(
    source: KindLike[AnyObject],
    target: GenericController[Any],
    resolver: MapFunction | None = None,
    *,
    predicates: Sequence[PredicateFunc] = (),
) -> None:
    """Call the handlers of `target` for the objects that `resolver` names, when an object of `source` changes.

    ::

        relate(Secret, sites, lambda secret: [Request(secret.metadata.namespace, secret.metadata.labels["site"])])

    Args:
        source: the watched kind.
        target: the controller whose handlers are called.
        resolver: gets an object of `source`, before and after an update, and returns requests of `target`, or
            `TRIGGER_ALL`. It may be ``async``. None resolves the owners of the kind of `target`.
        predicates: an event of `source` must pass all of them.
    """
    handler: EventHandler
    if resolver is None:
        handler = EnqueueRequestForOwner(target.kind, only_controller_owner=False)
    else:
        handler = EnqueueRequestsFromMapFunc[Any](_expand_trigger_all(resolver, target.keys))
    target.add_source(KindSource(target.cluster.cache, kind_of(source), handler, predicates=predicates))


def _expand_trigger_all(resolver: MapFunction, keys: Callable[[], Sequence[Request]]) -> MapFunction:
    """Return the resolver with `TRIGGER_ALL` replaced by all requests."""

    def expand(resolved: _ResolvedRequests) -> Mapped:
        requests = list(resolved or ())
        return [*keys(), *(r for r in requests if r != TRIGGER_ALL)] if TRIGGER_ALL in requests else requests

    def resolve(obj: AnyObject) -> Mapped:
        return expand(resolver(obj))  # type: ignore[arg-type] # it is not async

    async def resolve_later(obj: AnyObject) -> Mapped:
        resolved: Any = resolver(obj)
        return expand(await resolved if isinstance(resolved, Awaitable) else resolved)

    return resolve_later if inspect.iscoroutinefunction(resolver) else resolve
