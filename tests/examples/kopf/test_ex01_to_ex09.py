"""kopf's examples 01 to 08 as operators of opsdk: each does what the original's README or end-to-end test promises.

Upstream: github.com/nolar/kopf/examples, tests/e2e/test_examples.py (60d02aef)
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from envtest import Environment
from opsdk import Client, crd_for
from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import Pod
from opsdk.client.patch import merge_patch
from opsdk.testing.eventually import events_of
from opsdk.testing.running import running
from tests.examples.kopf import (
    ex01_minimal,
    ex02_children,
    ex03_exceptions,
    ex04_events,
    ex05_handlers,
    ex06_peering,
    ex07_subhandlers,
    ex08_events,
)
from tests.examples.kopf.ex07_subhandlers import Item
from tests.examples.kopf.kinds import Example
from tests.examples.kopf.objects import KEY, example, set_field, status_of
from tests.examples.logs import Lines


async def test_01_minimal(k8s_env: Environment, k8s_client: Client, lines: Lines) -> None:
    """A new object is printed once, and its status has the message."""
    async with running(ex01_minimal.make_operator(), k8s_env):
        await k8s_client.create(example())
        await asyncio.sleep(10)
        assert (await status_of(k8s_client)).message == "hello world"
    assert len([line for line in lines() if line.startswith("here we are: ")]) == 1


async def test_02_children(k8s_env: Environment, k8s_client: Client) -> None:
    """The Pod has the spec's fields and an owner, and the status its uid; a new spec replaces the Pod."""
    async with running(ex02_children.make_operator(), k8s_env):
        parent = await k8s_client.create(example())
        await asyncio.sleep(5)
        (first,) = await k8s_client.list(Pod, namespace="default")
        assert first.spec.containers[0].env[0].value == "value"
        assert "sleep 1m" in first.spec.containers[0].command[-1]
        assert [owner.uid for owner in first.metadata.owner_references] == [parent.metadata.uid]
        assert (await status_of(k8s_client)).children == [first.metadata.uid]
        await set_field(k8s_client, "other")
        await asyncio.sleep(60)
        (second,) = await k8s_client.list(Pod, namespace="default")
        assert second.spec.containers[0].env[0].value == "other"
        assert (await status_of(k8s_client)).children == [second.metadata.uid] != [first.metadata.uid]


async def test_03_exceptions(k8s_env: Environment, k8s_client: Client) -> None:
    """Each way to fail takes its number of calls, and none is called again after the end."""
    operator = ex03_exceptions.make_operator()
    async with running(operator, k8s_env):
        obj = await k8s_client.create(example())
        await asyncio.sleep(600)
        calls = Counter(record.controller for record in operator.journal.find(name="example"))
        assert calls == {"fails-for-good": 1, "succeeds-later": 4, "gives-up": 3, "tries-once": 1}
        ends = {record.controller: record.result for record in operator.journal.find(name="example")}
        assert ends["succeeds-later"] == "success"
        events = [(event.type, event.reason) for event in await events_of(k8s_client, obj)]
        assert events == [("Warning", "RetryLimitExceeded")] * 2


async def test_04_events(k8s_env: Environment, k8s_client: Client) -> None:
    """The Events are about the object, and an error is in one of them."""
    async with running(ex04_events.make_operator(), k8s_env):
        obj = await k8s_client.create(example())
        await asyncio.sleep(5)
        events = await events_of(k8s_client, obj)
    assert {(event.type, event.reason, event.note) for event in events} == {
        ("Normal", "SomeReason", "some message"),
        ("Warning", "OtherReason", "some warning"),
        ("Warning", "Failed", "some error: invalid literal for int() with base 10: 'value'"),
    }


async def test_05_handlers(k8s_env: Environment, k8s_client: Client, lines: Lines) -> None:
    """The steps of creation, restart, update, one field and deletion run once each, in their order."""
    async with running(ex05_handlers.make_operator(), k8s_env):
        await k8s_client.create(example())
        await asyncio.sleep(5)
    assert lines() == ["created: first step", "created: second step"]
    async with running(ex05_handlers.make_operator(), k8s_env):
        await asyncio.sleep(5)
        assert lines() == ["resumed"]
        await set_field(k8s_client, "newvalue")
        await asyncio.sleep(5)
        assert lines() == ["updated", "field: value -> newvalue"]
        await k8s_client.delete(await k8s_client.get(Example, KEY))
        await asyncio.sleep(5)
        assert lines() == ["deleted: first step", "deleted: second step"]
        assert await k8s_client.get_or_none(Example, KEY) is None


async def test_06_peering(k8s_env: Environment, k8s_client: Client, lines: Lines) -> None:
    """Of two replicas one handles the object; the other one takes over when the first one stops."""
    async with running(ex06_peering.make_operator(), k8s_env) as second:
        async with running(ex06_peering.make_operator(), k8s_env):
            assert [lease.metadata.name for lease in await k8s_client.list(Lease, namespace="default")] == ["peering"]
            await k8s_client.create(example())
            await asyncio.sleep(5)
            assert lines() == ["handled"]
        await second.manager.wait_elected()
        lines()
        await set_field(k8s_client, "other")
        await asyncio.sleep(5)
        assert lines() == ["handled"]


@pytest.mark.k8s(crds=[crd_for(Example)])
async def test_07_subhandlers(k8s_env: Environment, k8s_client: Client) -> None:
    """Each item is handled once; an item that fails is retried alone, and does not hold the others up."""
    calls: Counter[str] = Counter()

    async def create_item(item: Item) -> None:
        calls[item.item] += 1
        if item.item == "item1" and calls["item1"] < 3:
            raise OSError("the service is down")

    async with running(ex07_subhandlers.make_operator(create_item), k8s_env):
        obj = await k8s_client.create(example())
        await asyncio.sleep(60)
        await k8s_client.patch(obj, merge_patch({"metadata": {"labels": {"other": "label"}}}))
        await asyncio.sleep(60)
    assert calls == {"item1": 3, "item2": 1}


@pytest.mark.k8s(crds=[crd_for(Example)])
async def test_08_events(k8s_env: Environment, k8s_client: Client) -> None:
    """A spy sees each event, although another spy fails, and nothing is stored on the object."""
    events_seen: list[str] = []
    async with running(ex08_events.make_operator(events_seen), k8s_env):
        obj = await k8s_client.create(example())
        await asyncio.sleep(30)
        assert (await k8s_client.get(Example, KEY)).metadata.resource_version == obj.metadata.resource_version
        await k8s_client.delete(obj)
        await asyncio.sleep(30)
    assert events_seen == [f"create {KEY}", f"delete {KEY}"]
