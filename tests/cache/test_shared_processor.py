"""The laws of an informer's handlers that come and go."""

from __future__ import annotations

import asyncio

from fake_server import FakeServer

from opsdk.cache.informer import Informer
from opsdk.cache.store import Delta


async def test_handlers_that_change_during_a_delivery_get_each_delta_once_or_not_at_all() -> None:
    """A handler that another one adds gets the new object with the existing ones; one that it removes gets no more."""
    server = FakeServer()
    removed: list[str] = []
    added: list[tuple[str, bool]] = []

    def change_handlers(delta: Delta) -> None:
        if delta.entry.key.name == "a":
            to_remove.remove()
            informer.add_handler(lambda later: added.append((later.entry.key.name, later.initial)))

    async with Informer(server) as informer:
        await informer.wait_synced()
        informer.add_handler(change_handlers)
        to_remove = informer.add_handler(lambda delta: removed.append(delta.entry.key.name))
        assert informer.handlers == 2
        for name in ("a", "b"):
            server.put(name)
            await asyncio.sleep(1)
        assert informer.handlers == 2
    assert removed == []
    assert added == [("a", True), ("b", False)]


async def test_a_closed_informer_has_no_handlers() -> None:
    """Each handler is removed, also from between others."""
    async with Informer(FakeServer()) as informer:
        registrations = [informer.add_handler(lambda _: None) for _ in range(3)]
        registrations[1].remove()
        assert informer.handlers == 2
    assert informer.handlers == 0
