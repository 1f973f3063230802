"""Which requests an event leads to."""

from __future__ import annotations

import functools
from collections.abc import Awaitable
from typing import Any

import pytest
from cache_events import created, deleted, updated, view
from cache_world import CLUSTER_THING, THING, WIDGET, Discovery, owner

from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.errors import NoMatchError, UsageError
from opsdk.event.event import AnyEvent
from opsdk.event.handlers import (
    EnqueueRequestForObject,
    EnqueueRequestForOwner,
    EnqueueRequestsFromMapFunc,
    EventHandler,
)
from opsdk.event.request import Request


async def ask(handler: EventHandler, event: AnyEvent) -> list[str]:
    """What a handler answers, as texts."""
    result = handler.requests(event)
    return [str(r) for r in (await result if isinstance(result, Awaitable) else result) or ()]


async def test_an_object_is_mapped_to_its_own_request() -> None:
    """Every event of an object is one request for its key."""
    for event in (created(view("x")), updated(view("x"), view("x", 2)), deleted(view("x"))):
        assert await ask(EnqueueRequestForObject(), event) == ["ns/x"]


@pytest.mark.behaviour(94)
async def test_owners_before_and_after_an_update_are_requested() -> None:
    """An update that changes the owner requests both owners; any other update requests the owner once."""
    mapper = RestMapper(Discovery(THING, WIDGET))
    handler = EnqueueRequestForOwner(WIDGET)
    await handler.prepare(mapper)
    one, two = view(ownerReferences=[owner(WIDGET, "one")]), view(version=2, ownerReferences=[owner(WIDGET, "two")])
    assert await ask(handler, updated(one, two)) == ["ns/one", "ns/two"]
    assert await ask(handler, updated(one, one)) == ["ns/one"]
    assert await ask(handler, deleted(two)) == ["ns/two"]


@pytest.mark.behaviour(92)
async def test_only_the_controller_owner_is_requested_by_default() -> None:
    """By default only the controller owner is queued; other owners need ``only_controller_owner=False``."""
    both = view(ownerReferences=[owner(WIDGET, "a", controller=False), owner(WIDGET, "b")])
    assert await ask(EnqueueRequestForOwner(WIDGET), created(both)) == ["ns/b"]
    assert await ask(EnqueueRequestForOwner(WIDGET, only_controller_owner=False), created(both)) == ["ns/a", "ns/b"]


@pytest.mark.behaviour(93)
async def test_owners_match_by_group_and_kind() -> None:
    """The version does not matter, the group does; a reference that cannot be read does not hide the others."""
    old, foreign = unstructured_kind("demo.opsdk.dev/v1alpha1", "Widget"), unstructured_kind("other.dev/v1", "Widget")
    unreadable = {**owner(WIDGET, "bad"), "apiVersion": "a/b/c"}
    event = created(view(ownerReferences=[unreadable, owner(foreign, "no"), owner(old, "yes")]))
    assert await ask(EnqueueRequestForOwner(WIDGET), event) == ["ns/yes"]


@pytest.mark.behaviour(93)
async def test_cluster_scoped_owners_have_no_namespace() -> None:
    """The request for a cluster-scoped owner of a namespaced object has no namespace."""
    handler = EnqueueRequestForOwner(CLUSTER_THING)
    await handler.prepare(RestMapper(Discovery(THING, CLUSTER_THING)))
    assert await ask(handler, created(view(ownerReferences=[owner(CLUSTER_THING, "z")]))) == ["z"]


async def test_an_owner_that_is_not_served_cannot_be_prepared() -> None:
    """Without the kind it is unknown whether owners have namespaces, so the source retries later."""
    with pytest.raises(NoMatchError):
        await EnqueueRequestForOwner(WIDGET).prepare(RestMapper(Discovery(THING)))


@pytest.mark.behaviour(95)
async def test_map_functions_map_old_then_new_without_duplicates() -> None:
    """Plain, async, partial and callable-object functions are called for old and new, in this order."""

    def plain(obj: Any) -> list[Request]:
        return [Request("ns", obj.metadata.labels["to"]), Request("ns", "both"), Request("ns", "both")]

    async def waiting(obj: Any) -> list[Request]:
        return plain(obj)

    class Callable:
        async def __call__(self, obj: Any) -> list[Request]:
            return plain(obj)

    event = updated(view(labels={"to": "old"}), view(version=2, labels={"to": "new"}))
    for function in (plain, waiting, functools.partial(waiting), Callable(), functools.partial(Callable())):
        assert await ask(EnqueueRequestsFromMapFunc(function), event) == ["ns/old", "ns/both", "ns/new"]


@pytest.mark.behaviour(95)
async def test_a_map_function_may_return_none() -> None:
    """A map function that returns None or an empty list queues nothing, also if it is async."""

    async def nothing(_: Any) -> None: ...

    assert await ask(EnqueueRequestsFromMapFunc(lambda _: None), created(view())) == []
    assert await ask(EnqueueRequestsFromMapFunc(lambda _: []), created(view())) == []
    assert await ask(EnqueueRequestsFromMapFunc(nothing), created(view())) == []


async def test_a_plain_function_that_returns_a_coroutine_is_refused() -> None:
    """The error says to declare the function with `async def`."""

    async def find(_: Any) -> list[Request]:
        return []

    with pytest.raises(UsageError, match="async def"):
        EnqueueRequestsFromMapFunc(lambda obj: find(obj)).requests(created(view()))  # noqa: PLW0108 - the point
