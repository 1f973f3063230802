"""Operator SDK's memcached tutorial as an operator of opsdk.

Upstream: github.com/operator-framework/operator-sdk/testdata/go/v4/memcached-operator (60559f3e)
"""

from __future__ import annotations

import asyncio

import pytest

from envtest import Environment
from opsdk import Client, MergeFrom, ObjectMeta
from opsdk.api.apps.v1 import Deployment
from opsdk.errors import InvalidError
from opsdk.recipes import is_condition_true
from opsdk.testing.eventually import assert_condition, events_of
from opsdk.testing.running import running
from tests.examples.kubebuilder.memcached import Memcached, MemcachedSpec, make_operator

pytestmark = pytest.mark.k8s(controllers=["deployment", "replicaset", "kubelet", "garbage-collector"])
KEY = "default/cache"


@pytest.fixture(autouse=True)
def image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the image in the environment."""
    monkeypatch.setenv("MEMCACHED_IMAGE", "memcached:1.6")


def memcached(size: int = 2) -> Memcached:
    """Return a new object."""
    return Memcached(metadata=ObjectMeta(name="cache", namespace="default"), spec=MemcachedSpec(size=size))


async def test_the_deployment_follows(k8s_env: Environment, k8s_client: Client) -> None:
    """The Deployment has the size, the port and the owner; Available waits for its Pods; a new size is applied."""
    async with running(make_operator(), k8s_env):
        created = await k8s_client.create(memcached())
        await asyncio.sleep(30)
        live = await k8s_client.get(Deployment, KEY)
        (container,) = live.spec.template.spec.containers
        assert (live.spec.replicas, container.image) == (2, "memcached:1.6")
        assert [port.container_port for port in container.ports] == [11211]
        assert [owner.uid for owner in live.metadata.owner_references] == [created.metadata.uid]
        obj = await k8s_client.get(Memcached, KEY)
        assert_condition(obj, "Available", True)
        obj.spec.size = 3
        await k8s_client.patch(obj, MergeFrom())
        await asyncio.sleep(30)
        assert (await k8s_client.get(Deployment, KEY)).status.available_replicas == 3
        assert_condition(await k8s_client.get(Memcached, KEY), "Available", True)
        live.spec.replicas = 7
        await k8s_client.patch(live, MergeFrom())
        await asyncio.sleep(30)
        assert (await k8s_client.get(Deployment, KEY)).spec.replicas == 3


async def test_available_waits_for_the_pods(
    k8s_env: Environment, k8s_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no Pod starts, Available is False, and the reconcile has not failed."""
    monkeypatch.setenv("MEMCACHED_IMAGE", "does-not-exist:1")
    async with running(make_operator(), k8s_env):
        await k8s_client.create(memcached())
        await asyncio.sleep(30)
        obj = await k8s_client.get(Memcached, KEY)
        assert_condition(obj, "Available", False, reason="Waiting")
        assert obj.status is not None
        assert not is_condition_true(obj.status.conditions, "Degraded")


async def test_the_size_is_bounded(k8s_env: Environment, k8s_client: Client) -> None:
    """The definition refuses sizes outside of 1 to 3."""
    async with running(make_operator(), k8s_env):
        for size in (0, 4):
            with pytest.raises(InvalidError, match=r"spec\.size"):
                await k8s_client.create(memcached(size))


async def test_the_deletion(k8s_env: Environment, k8s_client: Client) -> None:
    """The finalizer records a Warning Event; then the object and its Deployment go away."""
    async with running(make_operator(), k8s_env):
        obj = await k8s_client.create(memcached())
        await asyncio.sleep(30)
        await k8s_client.delete(obj)
        await asyncio.sleep(30)
        assert await k8s_client.get_or_none(Memcached, KEY) is None
        assert await k8s_client.get_or_none(Deployment, KEY) is None
        assert ("Warning", "Deleting") in [(event.type, event.reason) for event in await events_of(k8s_client, obj)]


async def test_a_missing_image(k8s_env: Environment, k8s_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the image there is no Deployment, and the conditions name the variable."""
    monkeypatch.delenv("MEMCACHED_IMAGE")
    async with running(make_operator(), k8s_env):
        await k8s_client.create(memcached())
        await asyncio.sleep(5)
        obj = await k8s_client.get(Memcached, KEY)
        assert obj.status is not None
        assert await k8s_client.get_or_none(Deployment, KEY) is None
        assert_condition(obj, "Available", False)
        assert_condition(obj, "Degraded", True)
        assert all("MEMCACHED_IMAGE" in condition.message for condition in obj.status.conditions)
