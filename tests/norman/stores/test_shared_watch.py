"""Shared watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from normankit import V3, api_context

from opsdk.norman.model import (
    ApiContext,
    QueryOptions,
    ResourceEvent,
    ResourceEventType,
    Schema,
)
from opsdk.norman.stores.empty import EmptyStore
from opsdk.norman.stores.shared_watch import LIFETIME_SECONDS, LINGER_SECONDS, SharedWatchStore

BOOK = Schema(id="book", version=V3)


class Upstream(EmptyStore):
    """Counts its watches."""

    def __init__(self) -> None:
        self.opened = 0
        self.open = 0
        self.queue: asyncio.Queue[ResourceEvent] = asyncio.Queue()

    async def watch(self, context: ApiContext, schema: Schema, options: QueryOptions) -> AsyncGenerator[ResourceEvent]:
        self.opened += 1
        self.open += 1
        try:
            while True:
                yield await self.queue.get()
        finally:
            self.open -= 1


def change(number: int) -> ResourceEvent:
    """Return an event with a number."""
    return ResourceEvent(type=ResourceEventType.CHANGE, data={"number": number})


async def test_two_subscribers_share_one_upstream_watch() -> None:
    """Both get each event; the upstream watch ends a while after the last of them left."""
    upstream = Upstream()
    async with SharedWatchStore(upstream) as store:
        context = api_context()
        async with (
            aclosing(store.watch(context, BOOK, QueryOptions())) as first,
            aclosing(store.watch(context, BOOK, QueryOptions())) as second,
        ):
            upstream.queue.put_nowait(change(1))
            events = [await anext(first), await anext(second)]
            assert [e.data["number"] for e in events] == [1, 1]
            assert (upstream.opened, upstream.open) == (1, 1)
        await asyncio.sleep(LINGER_SECONDS / 2)
        upstream.queue.put_nowait(change(2))
        await asyncio.sleep(0.1)
        async with aclosing(store.watch(context, BOOK, QueryOptions(since=events[0].revision))) as again:
            assert (await anext(again)).data["number"] == 2
        await asyncio.sleep(LINGER_SECONDS + 2)
        assert (upstream.opened, upstream.open) == (1, 0)


async def test_an_upstream_watch_is_made_anew_after_its_lifetime() -> None:
    """The subscribers end, and the next one opens another watch."""
    upstream = Upstream()
    async with SharedWatchStore(upstream) as store:
        events = store.watch(api_context(), BOOK, QueryOptions())
        await asyncio.sleep(LIFETIME_SECONDS + 2)
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        async with aclosing(store.watch(api_context(), BOOK, QueryOptions())):
            await asyncio.sleep(1)
            assert (upstream.opened, upstream.open) == (2, 1)


async def test_subscribers_with_other_keys_do_not_share() -> None:
    """A store that watches with the rights of the client has a watch for each user."""
    upstream = Upstream()
    async with SharedWatchStore(upstream, key=lambda context: context.attributes["user"]) as store:
        watches = [store.watch(api_context(user=name), BOOK, QueryOptions()) for name in ("ada", "bob", "ada")]
        await asyncio.sleep(1)
        assert upstream.open == 2
        for watch in watches:
            await watch.aclose()
        await asyncio.sleep(LINGER_SECONDS + 1)
        assert upstream.open == 0


async def test_an_upstream_watch_that_fails_ends_its_subscribers() -> None:
    """They come again, and get a new watch."""

    class Failing(Upstream):
        async def watch(
            self, context: ApiContext, schema: Schema, options: QueryOptions
        ) -> AsyncGenerator[ResourceEvent]:
            self.opened += 1
            yield change(1)
            raise OSError("upstream")

    upstream = Failing()
    async with SharedWatchStore(upstream) as store:
        for opened in (1, 2):
            events = store.watch(api_context(), BOOK, QueryOptions())
            assert [e.data["number"] async for e in events] == [1]
            assert upstream.opened == opened
