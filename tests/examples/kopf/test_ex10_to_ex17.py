"""kopf's examples 10 to 17 as operators of opsdk: each does what the original's README or end-to-end test promises.

Upstream: github.com/nolar/kopf/examples, tests/e2e/test_examples.py (60d02aef)
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from envtest import Environment
from opsdk import Client, ObjectMeta, crd_for
from opsdk.api.core.v1 import Container, Namespace, Pod, PodSpec
from opsdk.client.patch import merge_patch
from opsdk.errors import AdmissionDeniedError, ConflictError, ForbiddenError
from opsdk.testing.running import running
from opsdk.webhook.admission import AdmissionRequest, UserInfo
from opsdk.webhook.handlers import AdmissionContext
from tests.examples.kopf import (
    ex10_builtins,
    ex11_filtering,
    ex12_embedded,
    ex13_hooks,
    ex14_daemons,
    ex15_timers,
    ex16_indexing,
    ex17_admission,
)
from tests.examples.kopf.kinds import Example
from tests.examples.kopf.objects import KEY, example, set_field, status_of
from tests.examples.logs import Lines


def pod(name: str, namespace: str = "default") -> Pod:
    """Return a Pod."""
    spec = PodSpec(containers=[Container(name="main", image="busybox")])
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


async def test_10_builtins(k8s_env: Environment, k8s_client: Client, lines: Lines) -> None:
    """A Pod lives for 30 s, those of the system forever; the deletion of a Pod cancels what waits for it."""
    async with running(ex10_builtins.make_operator(), k8s_env):
        await k8s_client.create(pod("killed"))
        await k8s_client.create(pod("system", "kube-system"))
        gone = await k8s_client.create(pod("gone"))
        await asyncio.sleep(25)
        await k8s_client.delete(gone)
        recreated = await k8s_client.create(pod("gone"))
        await asyncio.sleep(15)
        names = {p.metadata.name: p.metadata.uid for p in await k8s_client.list(Pod)}
        assert names.keys() == {"system", "gone"}
        assert names["gone"] == recreated.metadata.uid
    assert lines() == ["the pod ends in 30 s"] * 3


async def test_11_filtering(k8s_env: Environment, k8s_client: Client, lines: Lines) -> None:
    """Each controller sees the objects and the change that its filter passes, and no others."""
    async with running(ex11_filtering.make_operator(), k8s_env):
        await k8s_client.create(example())
        await asyncio.sleep(4.5)
        counts = Counter(lines())
        assert counts.pop("daemon") == 5
        dropped = {"annotation-and-field", "function-drops", "field-differs", "field-changes"}
        assert counts == dict.fromkeys(ex11_filtering.FILTERS.keys() - dropped, 1)
        await set_field(k8s_client, "changed")
        await asyncio.sleep(5)
        counts = Counter(lines())
        assert counts["field-changes"] == 1
        assert not counts.keys() & {"field-matches", "daemon"}


@pytest.mark.k8s(crds=[crd_for(Example)])
async def test_12_embedded(k8s_env: Environment, k8s_client: Client, lines: Lines) -> None:
    """The application's objects are handled while it runs, and the operator ends with it."""
    await ex12_embedded.main(k8s_env.config)
    assert lines() == [f"{word}, example-{step}" for step in range(3) for word in ("hello", "good bye")]
    assert not await k8s_client.list(Example)


class FlakyService:
    """A service that refuses three connections."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def connect(self) -> None:
        """Refuse, or accept."""
        self.calls.append("connect")
        if len(self.calls) <= 3:
            raise ConnectionError("refused")

    async def close(self) -> None:
        """Note the end."""
        self.calls.append("close")


async def test_13_hooks(k8s_env: Environment, k8s_client: Client, lines: Lines) -> None:
    """No Pod is served before the connection is open; the stop ends the tasks and closes the connection, once."""
    service = FlakyService()
    await k8s_client.create(pod("a"))
    operator = ex13_hooks.make_operator(service)
    starting = asyncio.create_task(asyncio.sleep(2.5, lines))
    async with running(operator, k8s_env):
        assert (await starting)() == []
        assert service.calls == ["connect"] * 4
        await asyncio.sleep(30)
        assert set(lines()) == {"served by the daemon"}
        assert "served_pods 1.0" in operator.manager.metrics.expose().decode()
    assert service.calls == ["connect"] * 4 + ["close"]
    assert "served_pods 0.0" in operator.manager.metrics.expose().decode()
    await asyncio.sleep(30)
    assert lines() == []


async def test_14_daemons(k8s_env: Environment, k8s_client: Client, lines: Lines) -> None:
    """Both daemons succeed after three failures; one ends by itself, and the deletion cancels the other."""
    async with running(ex14_daemons.make_operator(), k8s_env):
        await k8s_client.create(example())
        await asyncio.sleep(0.5)
        assert (await status_of(k8s_client)).message == "failed 1 times"
        await asyncio.sleep(2)
        assert (await status_of(k8s_client)).message == "failed 3 times"
        await asyncio.sleep(40)
        assert (await status_of(k8s_client)).message == "accompanying is finished"
        counts = Counter(lines())
        assert counts["ping from a thread: value"] == 6
        assert counts["ping from a coroutine: value"] >= 8
        await k8s_client.delete(await k8s_client.get(Example, KEY))
        await asyncio.sleep(1)
        lines()
        await asyncio.sleep(30)
        assert lines() == []


async def test_15_timers(k8s_env: Environment, k8s_client: Client, lines: Lines) -> None:
    """The timers begin when the object has not changed for 5 and 10 s, and a change makes them wait again."""
    async with running(ex15_timers.make_operator(), k8s_env):
        await k8s_client.create(example())
        await asyncio.sleep(4.5)
        assert lines() == []
        await asyncio.sleep(11)
        assert Counter(lines()) == {"fast: value": 6, "slow: value": 2}
        await set_field(k8s_client, "new")
        await asyncio.sleep(4.5)
        assert lines() == []
        await asyncio.sleep(11)
        assert Counter(lines()) == {"fast: new": 6, "slow: new": 2}


async def test_16_indexing(k8s_env: Environment, k8s_client: Client) -> None:
    """Running Pods of two namespaces are in the status after five seconds, and go when they stop running."""
    await k8s_client.create(Namespace(metadata=ObjectMeta(name="other")))
    for namespace in ("default", "kube-system", "other"):
        for name in ("a", "b"):
            created = await k8s_client.create(pod(name, namespace))
            if name == "a":
                await k8s_client.status().patch(created, merge_patch({"status": {"phase": "Running"}}))
    async with running(ex16_indexing.make_operator(), k8s_env) as operator:
        await k8s_client.create(example())
        await asyncio.sleep(1)
        assert (await status_of(k8s_client)).running_pods == ["default::a", "kube-system::a"]
        stopped = await k8s_client.get(Pod, "default/a")
        await k8s_client.status().patch(stopped, merge_patch({"status": {"phase": "Succeeded"}}))
        await asyncio.sleep(5)
        assert (await status_of(k8s_client)).running_pods == ["kube-system::a"]
        assert 'opsdk_informer_objects{informer="pods"} 6.0' in operator.manager.metrics.expose().decode()


@pytest.mark.k8s(crds=[crd_for(Example)])
async def test_17_admission(k8s_env: Environment, k8s_client: Client) -> None:
    """Wrong values are refused, a labelled object gets its field, and the status must equal the spec."""
    async with running(ex17_admission.make_operator(), k8s_env):
        obj = await k8s_client.create(example())
        assert obj.spec.injected == 123
        unlabelled = example()
        unlabelled.metadata.name, unlabelled.metadata.labels = "unlabelled", {}
        assert (await k8s_client.create(unlabelled)).spec.injected == 0
        with pytest.raises(ForbiddenError, match="change the field"):
            await set_field(k8s_client, "wrong")
        with pytest.raises(ConflictError, match="the field is not allowed"):
            await set_field(k8s_client, "not-allowed")
        with pytest.raises(ForbiddenError, match="must be equal"):
            await k8s_client.status().patch(obj, merge_patch({"status": {"field": "other"}}))
        await k8s_client.status().patch(obj, merge_patch({"status": {"field": "value"}}))
        assert (await status_of(k8s_client)).field == "value"


def test_17_warnings() -> None:
    """The user is named, a status that differs is only a warning on the object, and a dry run may be wrong."""
    obj = example()
    ctx = AdmissionContext(AdmissionRequest(user_info=UserInfo(username="me")))
    ex17_admission.validate(obj, ctx)
    assert ctx.warnings() == ("accessing as me", "also update status.field to match spec.field")
    obj.spec.field = "wrong"
    ex17_admission.validate(obj, AdmissionContext(AdmissionRequest(dry_run=True)))
    with pytest.raises(AdmissionDeniedError):
        ex17_admission.validate(obj, AdmissionContext())
