"""A version in the shadow of its leader: it sees the cluster, writes nothing into it, and decides by itself."""

from __future__ import annotations

import asyncio

from opsdk import ObjectMeta
from opsdk.client.client import Client
from opsdk.engine.shadow.comparison import Side
from shadowed import shadow
from upgrades import App, AppSpec, Version, config, service, workload


def children(image: str = "app:1", **data: str) -> Version:
    """A version whose children are a Deployment, a Service and a ConfigMap."""
    return Version(
        children=lambda name: [
            workload("Deployment", name, image=image),
            service(name),
            config(name, **(data or {"a": "1"})),
        ]
    )


async def use(client: Client) -> None:
    """Create an App, change another one, delete it."""
    meta = ObjectMeta(name="app-9", namespace="default")
    await client.create(App(metadata=meta, spec=AppSpec()), field_owner="user")
    await asyncio.sleep(20)
    await client.delete(App, "app-0", namespace="default")


def test_the_same_version_agrees() -> None:
    """With every decision of the leader; nothing but GET reaches the cluster."""
    result = shadow(children(), children(), use)
    assert result.reported == []
    assert result.outcome.agreed > 0
    assert result.methods == {"GET"}
    assert result.outcome.decisions[Side.SHADOW] > 0


def test_another_image_is_a_disagreement() -> None:
    """It is reported once for each object, with both values."""
    result = shadow(children(), children(image="app:2"), use)
    assert result.texts == []
