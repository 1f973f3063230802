"""Informers whose server never ends a list: bounded requests and memory, and a failure that is visible."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from container_sizes import container_sizes, growth

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.meta import ListMeta
from opsdk.cache.informer import Informer, InformerOptions
from opsdk.cache.list_watch import RawEvent
from opsdk.errors import NotFoundError, ResponseLimitError

Page = Callable[[int], tuple[list[bytes], str]]


def thing(number: int) -> bytes:
    """An object of about 1,100 bytes."""
    meta = {"name": f"n{number}", "namespace": "a", "uid": f"u{number}", "resourceVersion": str(number + 1)}
    return json.dumps({"metadata": meta, "data": "x" * 1000}).encode()


class EndlessServer:
    """Answers each request for a page with the next one, and each watch with objects until it is closed."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests = self.events = 0

    async def list_page(self, *, continue_token: str, limit: int) -> tuple[list[bytes], ListMeta]:
        """See `ListerWatcher`."""
        del continue_token, limit
        await asyncio.sleep(0.01)
        self.requests += 1
        items, token = self.page(self.requests)
        return items, ListMeta(resource_version="1", continue_token=token)

    @asynccontextmanager
    async def watch(
        self, *, resource_version: str, initial_events: bool = False
    ) -> AsyncIterator[AsyncIterator[RawEvent]]:
        """See `ListerWatcher`."""
        del resource_version, initial_events
        yield self._endless()

    async def _endless(self) -> AsyncIterator[RawEvent]:
        while True:
            self.events += 1
            yield RawEvent("ADDED", thing(self.events))
            await asyncio.sleep(0.001)

    async def get(self, key: ObjectKey) -> bytes:
        """See `ListerWatcher`."""
        raise NotFoundError(str(key))

    def describe(self) -> str:
        """See `ListerWatcher`."""
        return "things"


PAGES: dict[str, Page] = {
    "a page that names itself": lambda number: ([thing(number)], "again"),
    "pages in a circle": lambda number: ([thing(number)], f"t{number % 3}"),
    "the same objects again": lambda number: ([thing(0)], f"t{number}"),
    "nothing again": lambda number: ([], f"t{number}"),
    "new objects without an end": lambda number: ([thing(number)], f"t{number}"),
}


@pytest.mark.parametrize("name", PAGES)
async def test_an_endless_list_fails_with_backoff(name: str) -> None:
    """A list without an end is a failure that is logged and counted; the next try waits, and the store stays small."""
    server = EndlessServer(PAGES[name])
    informer = Informer(server, InformerOptions(list_bytes=1_000_000, page_size=1))
    before = container_sizes(informer)
    async with informer:
        await asyncio.sleep(120)
        assert isinstance(informer.reflector.last_error, ResponseLimitError)
        assert 2 <= informer.counts["error"] <= 60
        assert server.requests < 30_000
        assert growth(before, container_sizes(informer), above=2_000) == {}


@pytest.mark.parametrize("watch_list", [True, False])
async def test_an_endless_watch_fills_no_memory(watch_list: bool) -> None:
    """Objects without an end, in a streaming list or in a watch, end at the budget of the cache."""
    server = EndlessServer(lambda number: ([thing(number)], ""))
    informer = Informer(server, InformerOptions(list_bytes=1_000_000, watch_list=watch_list))
    async with informer:
        await asyncio.sleep(30)
        assert isinstance(informer.reflector.last_error, ResponseLimitError)
        assert informer.store.size() <= 1_100_000
