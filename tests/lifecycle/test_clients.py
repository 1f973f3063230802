"""What wrangler's generic controllers offer beside handlers: indices, impersonation, patches, status updates."""

from __future__ import annotations

from typing import Any

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.client.patch import merge_patch
from opsdk.lifecycle.generic_controller import GenericController


async def test_an_index_lookup(world: Any) -> None:
    """Wrangler AddIndexer, GetByIndex: a handler finds the objects of an index value in the cache."""
    world.cluster.cache.index_field(ConfigMap, "team", lambda config: [config.data.get("team", "")])
    result: dict[str, list[str]] = {}

    async def look_up(request: Any, config: ConfigMap | None) -> None:
        if config is not None and "team" in config.data:
            mates = await world.cluster.client.list(ConfigMap, field_selector={"team": config.data["team"]})
            result[config.metadata.name] = sorted(mate.metadata.name for mate in mates)

    for name, team in (("a", "red"), ("b", "red"), ("c", "blue")):
        await world.config(name, data={"team": team})
    controller = GenericController(world.cluster, ConfigMap)
    controller.add_handler("look-up", look_up)
    async with world.running(controller):
        await world.until(lambda: result == {"a": ["a", "b"], "b": ["a", "b"], "c": ["c"]})


async def test_patch_and_update_status(world: Any) -> None:
    """Wrangler Patch, UpdateStatus: a patch changes its fields, a status update nothing but the status."""
    site = await world.site()
    client = world.cluster.client
    await client.patch(site, merge_patch({"spec": {"size": 2}}))
    live = await client.get(unstructured_kind(site.api_version, "Site"), "default/a", uncached=True)
    live["status"], live["spec"] = {"size": 7}, {"size": 9}
    await client.status().update(live)
    stored = await world.user.get(world.Site, "default/a")
    assert (stored.spec.size, stored.status.size) == (2, 7)
