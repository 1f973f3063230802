"""Everything in the server follows a clock that the test moves: hours in no time, on an ordinary loop."""

from __future__ import annotations

import asyncio
import time

import pytest
from server_client import Caller

from envtest.environment import Environment
from envtest.testing.effects import Fail
from opsdk.aio.tasks import TaskOwner
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConfigError, LeaderElectionLostError
from opsdk.leader_election.leader_election_record import LeaderElectionOptions
from opsdk.leader_election.leader_elector import LeaderElector
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.clock import ManualClock

CM = "/api/v1/namespaces/default/configmaps"
pytestmark = pytest.mark.realtime


async def test_stamps_follow() -> None:
    """What is created bears the clock's time."""
    async with Environment(clock=ManualClock()) as env:
        await env.clock.advance(3600)
        made = await Caller(env)("POST", CM, {"metadata": {"name": "a"}})
        assert made.json["metadata"]["creationTimestamp"] == "2026-01-01T01:00:00Z"


async def test_watches_end_and_bookmarks_come_by_it() -> None:
    """A minute to the bookmark, the asked time to the end."""
    async with Environment(clock=ManualClock()) as env:
        url = f"{CM}?watch=1&allowWatchBookmarks=true&timeoutSeconds=100&resourceVersion=1"
        async with Caller(env).watch(url) as events:
            while not events.empty():
                events.get_nowait()
            await env.clock.advance(59)
            assert events.empty()
            await env.clock.advance(3)  # it may be 1.25 s late, as in kube-apiserver
            assert events.get_nowait()["type"] == "BOOKMARK"
            await env.clock.advance(37.9)
            assert events.get_nowait()["type"] == "BOOKMARK"  # the one shortly before the end
            assert events.empty()
            await env.clock.advance(0.2)
            assert events.get_nowait() is None


async def test_tokens_run_out_by_it() -> None:
    """An hour for a token of ten minutes."""
    async with Environment(clock=ManualClock()) as env:
        call = Caller(env)
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await call("POST", accounts, {"metadata": {"name": "robot"}})
        asked: JsonObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        asked["spec"] = {"expirationSeconds": 600}
        made = await call("POST", f"{accounts}/robot/token", asked)
        theirs = Caller(env, made.json["status"]["token"])
        review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        assert (await theirs("POST", review, body)).status == 201
        await env.clock.advance(3600)
        assert (await theirs("POST", review, body)).status == 401


async def test_simulated_controllers_follow() -> None:
    """A job's time to live is over when the clock says so."""
    job = {
        "metadata": {"name": "j"},
        "spec": {
            "ttlSecondsAfterFinished": 60,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    }
    async with Environment(controllers="cluster", clock=ManualClock()) as env:
        call, path = Caller(env), "/apis/batch/v1/namespaces/default/jobs"
        assert (await call("POST", path, job)).status == 201

        async def there() -> bool:
            return (await call("GET", f"{path}/j")).status == 200

        await env.clock.advance(50)
        assert await there()
        await env.clock.advance(20)
        assert not await there()


async def test_a_leader_that_cannot_renew_loses_in_no_time() -> None:
    """Fifteen seconds of the clock, none of the wall."""
    clock = ManualClock()
    async with Environment(clock=clock) as env, Cluster(env.config) as cluster, TaskOwner("test") as tasks:
        options = LeaderElectionOptions(name="lock", namespace="default", identity="me")
        elector = LeaderElector(cluster.uncached, options, clock=clock)
        begin = time.perf_counter()
        running = tasks.start(_lost(elector), name="elector")
        await clock.advance(30)
        assert elector.is_leader
        with env.faults.add(Fail(500), resource="leases"):
            await clock.advance(15)
        assert not elector.is_leader
        assert await running
        assert time.perf_counter() - begin < 5


async def _lost(elector: LeaderElector) -> bool:
    try:
        await elector.run()
    except LeaderElectionLostError:
        return True
    return False


async def test_waiting_moves_a_manual_clock() -> None:
    """`eventually` and `consistently` advance it themselves: nobody else would."""
    async with Environment(clock=ManualClock()) as env:
        clock = env.clock
        begin = time.perf_counter()
        await env.eventually(lambda: clock.now() >= 3, within=10)
        assert 3 <= clock.now() < 4
        await env.consistently(lambda: clock.now() < 100, during=60)
        assert 63 <= clock.now() < 65
        with pytest.raises(AssertionError, match="not any more after"):
            await env.consistently(lambda: clock.now() < 70, during=60)
        with pytest.raises(AssertionError, match=r"not within 5 s \(\d+ attempts\): .*lambda.* returned False"):
            await env.eventually(lambda: False, within=5)
        assert time.perf_counter() - begin < 5


async def test_without_a_clock_of_its_own_it_says_so() -> None:
    """There is nothing to advance."""
    async with Environment() as env:
        with pytest.raises(ConfigError, match=r"Environment\(clock=ManualClock\(\)\)"):
            await env.clock.advance(1)
    await asyncio.sleep(0)
