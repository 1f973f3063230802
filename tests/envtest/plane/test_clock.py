"""The server and its controllers follow the time of the event loop."""

from __future__ import annotations

import asyncio

import pytest
from server_caller import Caller

from envtest.environment import Environment
from envtest.testing.effects import Fail
from opsdk.aio.clock import monotonic
from opsdk.aio.tasks import TaskOwner
from opsdk.cluster.cluster import Cluster
from opsdk.errors import LeaderElectionLostError
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions
from opsdk.manager.leader_election.leader_elector import LeaderElector
from opsdk.structured_merge.value import JsonObject

CM = "/api/v1/namespaces/default/configmaps"


async def test_creation_timestamps_are_the_loops_time() -> None:
    """An object that is created after an hour of virtual time has that creationTimestamp."""
    async with Environment() as env:
        await asyncio.sleep(3600)
        response = await Caller(env)("POST", CM, {"metadata": {"name": "a"}})
        assert response.json["metadata"]["creationTimestamp"] == "2026-01-01T01:00:00Z"


async def test_bookmarks_come_each_minute_and_watches_end_after_their_timeout() -> None:
    """A watch gets a bookmark after a minute, one shortly before its end, and ends after `timeoutSeconds`."""
    async with Environment() as env:
        url = f"{CM}?watch=1&allowWatchBookmarks=true&timeoutSeconds=100&resourceVersion=1"
        async with Caller(env).watch(url) as events:
            while not events.empty():
                events.get_nowait()
            await asyncio.sleep(59)
            assert events.empty()
            await asyncio.sleep(3)  # it may be 1.25 s late, as in kube-apiserver
            assert events.get_nowait()["type"] == "BOOKMARK"
            await asyncio.sleep(37.9)
            assert events.get_nowait()["type"] == "BOOKMARK"  # the one shortly before the end
            assert events.empty()
            await asyncio.sleep(0.2)
            assert events.get_nowait() is None


async def test_a_service_account_token_expires() -> None:
    """A token of ten minutes is refused after an hour."""
    async with Environment() as env:
        call = Caller(env)
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await call("POST", accounts, {"metadata": {"name": "robot"}})
        token_request: JsonObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        token_request["spec"] = {"expirationSeconds": 600}
        response = await call("POST", f"{accounts}/robot/token", token_request)
        theirs = Caller(env, response.json["status"]["token"])
        review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        assert (await theirs("POST", review, body)).status == 201
        await asyncio.sleep(3600)
        assert (await theirs("POST", review, body)).status == 401


async def test_a_finished_job_is_deleted_after_its_time_to_live() -> None:
    """The TTL controller deletes a job `ttlSecondsAfterFinished` after its end."""
    job = {
        "metadata": {"name": "j"},
        "spec": {
            "ttlSecondsAfterFinished": 60,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    }
    async with Environment(controllers="cluster") as env:
        call, path = Caller(env), "/apis/batch/v1/namespaces/default/jobs"
        assert (await call("POST", path, job)).status == 201

        async def there() -> bool:
            return (await call("GET", f"{path}/j")).status == 200

        await asyncio.sleep(50)
        assert await there()
        await asyncio.sleep(20)
        assert not await there()


async def test_a_leader_that_cannot_renew_loses_its_lease() -> None:
    """The elector ends its leadership when renewals fail for the renew deadline."""
    async with Environment() as env, Cluster(env.config) as cluster, TaskOwner("test") as tasks:
        options = LeaderElectionOptions(name="lock", namespace="default", identity="me")
        elector = LeaderElector(cluster.uncached, options)
        running = tasks.start(_lost(elector), name="elector")
        await asyncio.sleep(30)
        assert elector.is_leader
        with env.faults.add(Fail(500), resource="leases"):
            await asyncio.sleep(15)
        assert not elector.is_leader
        assert await running


async def _lost(elector: LeaderElector) -> bool:
    try:
        await elector.run()
    except LeaderElectionLostError:
        return True
    return False


async def test_waits_of_a_test_take_virtual_time() -> None:
    """`eventually` and `consistently` take the seconds that they name."""
    async with Environment() as env:
        begin = monotonic()
        await env.eventually(lambda: monotonic() - begin >= 3, within=10)
        assert 3 <= monotonic() - begin < 4
        await env.consistently(lambda: monotonic() - begin < 100, during=60)
        assert 63 <= monotonic() - begin < 65
        with pytest.raises(AssertionError, match="no longer true after"):
            await env.consistently(lambda: monotonic() - begin < 70, during=60)
        with pytest.raises(AssertionError, match=r"not true within 5 s \(\d+ attempts\): .*lambda.* returned False"):
            await env.eventually(lambda: False, within=5)
