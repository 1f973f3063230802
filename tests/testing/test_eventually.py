"""What authors' tests wait for and assert, in virtual time."""

from __future__ import annotations

import asyncio
import functools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest import Environment
from envtest.testing.effects import Delay
from opsdk import Cluster, Condition, Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.crd import crd_for
from opsdk.client.recorder.recorder import EventRecorder
from opsdk.errors import ForbiddenError, NoMatchError, NotFoundError, ServiceUnavailableError
from opsdk.testing.definitions import install_definitions
from opsdk.testing.eventually import assert_condition, consistently, events_of, eventually
from opsdk.testing.loop import VirtualLoop
from opsdk.testing.running import running


class SiteSpec(Model):
    """A size."""

    size: int = 1


class SiteStatus(Model, kw_only=True):
    """Conditions."""

    conditions: list[Condition] = msgspec.field(default_factory=list)


class Site(Object[SiteSpec, SiteStatus]):
    """A kind without a file."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")


def make_operator() -> Operator:
    """Return an operator that reports each site as ready."""
    operator = Operator("site")

    @operator.reconciler(Site)
    async def reconcile(site: Site, ctx: Context) -> None:
        async with ctx.status(site) as patch:
            changed = patch.set_condition("Ready", True, "Reconciled", f"size {site.spec.size}")
        if changed:
            ctx.event("Ready", "for the first time")

    return operator


async def test_definitions_conditions_and_events() -> None:
    """`running` installs the definitions; conditions and Events are waited for without a sleep."""
    async with Environment() as env, Cluster(env.config) as cluster, running(make_operator(), env):
        client = cluster.uncached
        site = await client.create(Site(metadata=ObjectMeta(name="a", namespace="default"), spec=SiteSpec()))

        async def is_ready() -> Site:
            live = await client.get(Site, "default/a")
            assert_condition(live, "Ready", reason="Reconciled")
            return live

        assert (await eventually(is_ready)).status is not None
        events = await eventually(lambda: events_of(client, site))
        assert [(event.type, event.reason) for event in events] == [("Normal", "Ready")]


async def test_the_message_names_what_is_there() -> None:
    """A wrong condition, a missing one, and a wrong reason."""
    site = Site(metadata=ObjectMeta(name="a", namespace="ns"), spec=SiteSpec())
    with pytest.raises(AssertionError, match=r"^Site ns/a has no condition Ready; its conditions: none"):
        assert_condition(site, "Ready")
    site.status = SiteStatus(conditions=[Condition(type="Ready", status="False", reason="Waits", message="for x")])
    with pytest.raises(AssertionError, match=r"should have Ready=True; its conditions: Ready=False \(Waits: for x\)"):
        assert_condition(site, "Ready")
    assert_condition(site, "Ready", False)
    assert_condition(site, "Ready", "False", reason="Waits")
    with pytest.raises(AssertionError, match="the reason of Ready should be Other"):
        assert_condition(site, "Ready", False, reason="Other")


RETRIED = [None, False, 0, "", [], AssertionError("no"), NotFoundError("gone"), ServiceUnavailableError("busy")]


@given(st.lists(st.sampled_from(RETRIED), max_size=20))
def test_eventually_calls_until_the_first_true_value(failures: list[object]) -> None:
    """False, empty values, failed assertions and errors that may pass are retried at equal intervals."""

    async def run() -> tuple[str, float]:
        pending = iter(failures)

        async def check() -> object:
            outcome = next(pending, "done")
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        result = await eventually(check, interval=0.5, within=100)
        return str(result), asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        result, seconds = runner.run(run())
    assert (result, seconds) == ("done", pytest.approx(0.5 * len(failures)))


async def test_eventually_fails_with_the_last_failure() -> None:
    """The message has the seconds and the attempts; an error that does not pass is raised at once."""
    began = asyncio.get_running_loop().time()
    with pytest.raises(
        AssertionError, match=r"not true within 10 s \(21 attempts\): .*lambda> returned None: return a value"
    ):
        await eventually(lambda: None, within=10, interval=0.5)
    assert asyncio.get_running_loop().time() == pytest.approx(began + 10)
    with pytest.raises(AssertionError, match=r"<lambda> returned False for 4"):
        await eventually(lambda: 4, lambda n: n == 5, within=0)

    def forbidden() -> bool:
        raise ForbiddenError("no", code=403)

    with pytest.raises(ForbiddenError):
        await eventually(forbidden)
    with pytest.raises(ZeroDivisionError):
        await eventually(lambda: 1 / 0)


async def test_a_function_declared_to_return_none_asserts() -> None:
    """A function that is declared to return None passes as soon as it raises nothing, in any form."""
    loop = asyncio.get_running_loop()

    class Probe:
        def __init__(self) -> None:
            self.ready_at = loop.time() + 2

        async def check(self, factor: int = 1) -> None:
            assert loop.time() >= self.ready_at * factor, "too early"

    for make in (lambda p: p.check, lambda p: functools.partial(p.check, factor=1)):
        probe = Probe()
        await eventually(make(probe))
        assert loop.time() == pytest.approx(probe.ready_at, abs=0.1)

    def is_large(number: float) -> None:
        assert number > 10, f"{number} is small"

    assert await eventually(loop.time, is_large) > 10


async def test_consistently_needs_every_call_to_pass() -> None:
    """The function ``consistently`` lasts its full time, and fails with the time of the first failed call."""
    loop = asyncio.get_running_loop()
    begin, calls = loop.time(), list[float]()

    def is_early() -> bool:
        calls.append(loop.time() - begin)
        return calls[-1] < 3

    await consistently(is_early, during=2)
    assert loop.time() - begin == pytest.approx(2)
    assert len(calls) > 20
    with pytest.raises(AssertionError, match=r"no longer true after 1"):
        await consistently(is_early, during=2)


async def test_an_installed_definition_is_not_written_again() -> None:
    """An installed definition is not written again; one whose names are taken is an error."""
    async with Environment() as env, Cluster(env.config) as cluster:
        definition = crd_for(Site)
        assert await install_definitions(cluster.uncached, [definition]) == ["sites.demo.opsdk.dev"]
        assert await install_definitions(cluster.uncached, [definition]) == []
        await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        other = crd_for(Site)
        other["metadata"]["name"] = "places.demo.opsdk.dev"
        other["spec"]["names"] |= {"plural": "places", "singular": "place"}
        with pytest.raises(NoMatchError, match=r"rejects places\.demo\.opsdk\.dev: .*Site"):
            await install_definitions(cluster.uncached, [other])


async def test_events_have_the_order_in_which_they_were_recorded() -> None:
    """Events of one moment are listed as they were recorded, though a recorder writes them in parallel."""
    reasons = [f"Step{number}" for number in range(20)]
    async with Environment() as env, Cluster(env.config) as cluster:
        client = cluster.uncached
        env.faults.add(Delay(1), resource="events", probability=0.5)
        config = await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        recorder = EventRecorder(client, "steps")
        recorder.open()
        for reason in reasons:
            recorder.event(config, "Normal", reason, "a note")
        await asyncio.sleep(10)
        assert [event.reason for event in await events_of(client, config)] == reasons
        await recorder.aclose()
