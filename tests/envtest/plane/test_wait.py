"""Waiting for what a cluster does."""

from __future__ import annotations

import asyncio

import pytest

from envtest.environment import Environment
from envtest.plane.wait import consistently, eventually
from envtest.testing.komega import Komega
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core.v1 import ConfigMap, Container, PodSpec, PodTemplateSpec
from opsdk.apimachinery.meta import LabelSelector, ObjectMeta
from opsdk.cluster.cluster import Cluster
from opsdk.errors import NotFoundError


async def test_the_answer_is_returned_when_it_passes() -> None:
    """None and true things pass; falsehood, failed assertions and errors of the API are asked again."""
    loop, answers = asyncio.get_running_loop(), iter([False, 0, "", "yes"])
    assert await eventually(lambda: next(answers)) == "yes"
    assert await eventually(lambda: None) is None
    begin = loop.time()

    def refuse() -> None:
        assert loop.time() > begin + 2, "too early"

    await eventually(refuse)
    assert 2 <= loop.time() - begin < 2.2

    async def missing() -> int:
        if loop.time() < begin + 4:
            raise NotFoundError("nothing there")
        return 7

    assert await eventually(missing, lambda n: n > 5) == 7


async def test_what_was_wrong_last_is_told() -> None:
    """With how long and how often; other exceptions are the test's own mistakes and pass through at once."""

    def never() -> None:
        raise AssertionError("2 of 3 are ready")

    with pytest.raises(AssertionError, match=r"not within 3 s \(asked \d\d times\): 2 of 3 are ready"):
        await eventually(never, within=3)
    with pytest.raises(AssertionError, match="<lambda> gave 4"):
        await eventually(lambda: 4, lambda n: n == 5, within=0)
    with pytest.raises(ZeroDivisionError):
        await eventually(lambda: 1 / 0)


async def test_consistently_needs_every_answer() -> None:
    """For the whole time, no longer."""
    loop = asyncio.get_running_loop()
    begin, asked = loop.time(), list[float]()

    def ask() -> bool:
        asked.append(loop.time() - begin)
        return asked[-1] < 3

    await consistently(ask, during=2)
    assert loop.time() - begin == pytest.approx(2)
    assert len(asked) > 20
    with pytest.raises(AssertionError, match=r"not any more after 1"):
        await consistently(ask, during=2)


async def test_a_write_is_noticed_at_once() -> None:
    """Questions of an environment are asked after each write, not only every now and then."""
    async with Environment() as env, Cluster(env.config) as cluster:
        loop, k = asyncio.get_running_loop(), Komega(cluster.uncached, namespace="default")

        async def later() -> None:
            await asyncio.sleep(0.01)
            await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))

        writing = asyncio.ensure_future(later())
        begin = loop.time()
        await env.eventually(k.get(ConfigMap, "a"))
        assert loop.time() - begin < 0.04
        await writing


async def test_komega_reads_and_changes() -> None:
    """Objects, lists, specs and statuses; a conflict is tried again."""
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(containers=[Container(name="c", image="i")])
    )
    spec = DeploymentSpec(replicas=2, selector=LabelSelector(match_labels={"a": "b"}), template=template)
    async with Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
        k = Komega(cluster.uncached, namespace="default")
        await cluster.uncached.create(Deployment(metadata=ObjectMeta(name="d", namespace="default"), spec=spec))
        await env.eventually(k.get(Deployment, "d"), lambda d: d.status.ready_replicas == 2, within=60)
        await env.eventually(k.update(Deployment, "d", lambda d: setattr(d.spec, "replicas", 3)))
        await env.eventually(k.get(Deployment, "d"), lambda d: d.status.ready_replicas == 3, within=60)
        assert len(await env.eventually(k.list(Deployment), lambda found: len(found) == 1)) == 1
    async with Environment() as env, Cluster(env.config) as cluster:
        k = Komega(cluster.uncached, namespace="default")
        await cluster.uncached.create(Deployment(metadata=ObjectMeta(name="d", namespace="default"), spec=spec))
        await env.eventually(k.update_status(Deployment, "d", lambda d: setattr(d.status, "replicas", 9)))
        assert (await k.get(Deployment, "d")()).status.replicas == 9
