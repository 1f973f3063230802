"""Handlers that cause their own next call."""

from __future__ import annotations

import asyncio
from typing import Any

from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.controller.journal import Journal
from opsdk.lifecycle.generic_controller import GenericController


async def test_a_handler_that_causes_its_own_calls_is_slowed(world: Any) -> None:
    """A handler that causes its own calls is delayed, and the Warning Event is about its object."""
    calls = 0

    async def spin(key: str, config: ConfigMap | None) -> None:
        nonlocal calls
        if config is not None and "spin" in config.data:
            calls += 1
            config.data["spin"] = str(calls)
            await world.cluster.client.update(config)

    await world.config("a", data={"spin": "0"})
    controller = GenericController(world.cluster, ConfigMap, journal=Journal())
    controller.on_change("spin", spin)
    async with world.running(controller):
        await asyncio.sleep(600)
        assert 100 < calls < 150
        events = [e for e in await world.user.list(Event, namespace="default") if e.reason == "HotLoop"]
        assert [event.regarding.name for event in events if event.regarding is not None] == ["a"]
