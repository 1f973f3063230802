"""relate: objects of one kind call the handlers of another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from opsdk import ObjectMeta, Request
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.related import TRIGGER_ALL, relate
from opsdk.recipes import set_owner_reference


class Seen:
    """A controller of ConfigMaps that records its calls."""

    def __init__(self, world: Any) -> None:
        self.names: list[str] = []
        self.controller = GenericController(world.cluster, ConfigMap)
        self.controller.add_handler("record", self.record)

    async def record(self, request: Request, obj: ConfigMap | None) -> None:
        if request.namespace == "default" and "kube" not in request.name:
            self.names.append(request.name)

    def clear(self) -> None:
        self.names.clear()


async def secret(world: Any, name: str = "s", **labels: str) -> Secret:
    """Create a Secret."""
    return await world.user.create(Secret(metadata=ObjectMeta(name=name, namespace="default", labels=labels)))


async def test_a_resolver_names_the_objects(world: Any) -> None:
    """Wrangler relatedresource: a change calls the handlers of the resolved keys, also of old ones."""
    handler = Seen(world)

    def resolve(obj: Secret) -> Sequence[Request]:
        return [Request("default", name) for name in obj.metadata.labels.get("for", "").split(".") if name]

    relate(Secret, handler.controller, resolve)
    for name in "abc":
        await world.config(name)
    async with world.running(handler.controller):
        await world.until(lambda: len(handler.names) == 3)
        handler.clear()
        created = await secret(world, **{"for": "a"})
        await world.until(lambda: handler.names == ["a"])
        handler.clear()
        created.metadata.labels["for"] = "b"
        await world.user.update(created)
        await world.until(lambda: sorted(handler.names) == ["a", "b"])


async def test_the_trigger_for_all(world: Any) -> None:
    """Wrangler relatedresource, TriggerAllKey: every object is handled; the resolver may be async, and late."""
    handler = Seen(world)

    async def resolve(obj: Secret) -> Sequence[Request]:
        await asyncio.sleep(1)
        return [TRIGGER_ALL] if obj.metadata.labels else []

    for name in "abc":
        await world.config(name)
    async with world.running(handler.controller):
        await world.until(lambda: len(handler.names) == 3)
        handler.clear()
        relate(Secret, handler.controller, resolve)
        await secret(world, "quiet")
        await asyncio.sleep(5)
        assert handler.names == []
        await secret(world, "loud", all="yes")
        await world.until(lambda: sorted(handler.names) == ["a", "b", "c"])


async def test_owners_of_the_targets_kind_are_related_by_default(world: Any) -> None:
    """Wrangler relatedresource, OwnerResolver: by default, owners of the target's kind are related."""
    handler = Seen(world)
    relate(Secret, handler.controller)
    owner = await world.config("a")
    async with world.running(handler.controller):
        await world.until(lambda: handler.names == ["a"])
        handler.clear()
        child = Secret(metadata=ObjectMeta(name="s", namespace="default"))
        set_owner_reference(owner, child)
        await world.user.create(child)
        await world.until(lambda: handler.names == ["a"])
