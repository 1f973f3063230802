"""Definitions from classes: applied together, and served when the call returns."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk import Client, GroupVersionKind, Model, Object, ObjectMeta
from opsdk.client.decorators.intercept import intercept
from opsdk.client.operations import Get, Operation
from opsdk.cluster.cluster import Cluster
from opsdk.errors import DeadlineError, NoMatchError
from opsdk.recipes.definitions import create_crds

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


class Spec(Model):
    """A size."""

    size: int = 1


class Site(Object[Spec, None]):
    """A kind."""

    gvk = GroupVersionKind("recipes.opsdk.dev", "v1", "Site")


class OldSite(Object[Spec, None]):
    """Its older version."""

    gvk = GroupVersionKind("recipes.opsdk.dev", "v1beta1", "Site")


class Page(Object[Spec, None]):
    """Another kind."""

    gvk = GroupVersionKind("recipes.opsdk.dev", "v1", "Page")


async def test_definitions_are_served_when_the_call_returns() -> None:
    """Wrangler BatchCreateCRDs, BatchWait: versions become one definition; a second call writes nothing."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        client = cluster.uncached
        created = await create_crds(client, [Site, OldSite, Page])
        assert [crd.metadata.name for crd in created] == ["sites.recipes.opsdk.dev", "pages.recipes.opsdk.dev"]
        await client.create(Site(metadata=ObjectMeta(name="a", namespace="default"), spec=Spec(size=2)))
        await client.create(Page(metadata=ObjectMeta(name="a", namespace="default"), spec=Spec()))
        assert (await client.get(OldSite, "default/a")).spec.size == 2
        again = await create_crds(client, [Site, OldSite, Page])
        assert [crd.metadata.resource_version for crd in again] == [crd.metadata.resource_version for crd in created]


def with_status(client: Client, **condition: Any) -> Client:
    """A client whose reads of definitions have one condition."""

    async def change(operation: Operation, proceed: Any) -> Any:
        result = await proceed(operation)
        if isinstance(operation, Get):
            result["status"] = {"conditions": [condition]}
        return result

    return intercept(client, change)


@pytest.mark.parametrize(
    ("condition", "error", "text"),
    [
        ({"type": "NamesAccepted", "status": "False", "message": "taken"}, NoMatchError, "taken; delete the other"),
        (
            {"type": "Established", "status": "False", "reason": "Installing"},
            DeadlineError,
            "is not established before the deadline",
        ),
    ],
)
async def test_definitions_that_are_not_served(condition: Any, error: Any, text: str) -> None:
    """Bad input: refused names are an error at once, a slow server one after `within`."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        with pytest.raises(error, match=text):
            await create_crds(with_status(cluster.uncached, **condition), [Site], within=5)
