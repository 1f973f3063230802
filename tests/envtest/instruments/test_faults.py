"""Injected faults, and operators that survive them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from server_caller import Caller

from envtest.environment import Environment
from envtest.instruments.faults import Faults
from envtest.testing.effects import (
    Conflict,
    Delay,
    DoubleBookmarks,
    DropWatch,
    ExpireWatch,
    Fail,
    LateBookmarks,
    Reset,
    SlowWatch,
    StaleList,
    Truncate,
)
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.errors import (
    AlreadyExistsError,
    ConfigError,
    ConflictError,
    ConnectionLostError,
    NotFoundError,
    OpsdkError,
    ServiceUnavailableError,
    TooManyRequestsError,
    TransportError,
)
from opsdk.event.request import Request
from opsdk.rest.request import RestRequest as HttpRequest
from opsdk.rest.transport import Transport

CM = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> ConfigMap:
    """An object."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


async def raw(env: Environment, method: str, path: str, body: object = None) -> Any:
    """One request without retries."""
    content = b"" if body is None else json.dumps(body).encode()
    async with Transport(env.config) as transport:
        headers = {"content-type": "application/json"}
        return await transport.send(HttpRequest(method, path, body=content, headers=headers), retry=False)


# ------------------------------------------------------------------ rules
async def test_no_rule_no_filter() -> None:
    """A server without fault rules has no additional filter."""
    async with Environment() as env:
        before = env.server.filters.names
        assert env.faults.rules == []
        assert env.server.filters.names == before
        with env.faults.add(Fail(503)), env.faults.add(Fail(500)):
            assert env.server.filters.names == [*before, "faults"]
        assert env.server.filters.names == before
        env.faults.add(Fail(503)).remove()
        env.faults.add(Fail(503))
        env.faults.clear()
        assert env.server.filters.names == before


async def test_a_rule_matches_requests() -> None:
    """A fault rule matches requests by verb, group, resource, namespace, name and user."""
    async with Environment() as env:
        call, bob = Caller(env), env.add_user("bob", groups=["system:masters"])
        for match, hit in (
            ({"verb": "get"}, False),
            ({"verb": "create"}, True),
            ({"verb": "write"}, True),
            ({"verb": "read"}, False),
            ({"group": ""}, True),
            ({"group": "apps"}, False),
            ({"resource": "configmaps"}, True),
            ({"resource": "configmaps/status"}, False),
            ({"namespace": "kube-system"}, False),
            ({"user": "bob"}, False),
            ({"user": "admin"}, True),
        ):
            with env.faults.add(Fail(500), **match) as rule:  # type: ignore[arg-type]
                answer = await call("POST", CM, {"metadata": {"generateName": "a-"}})
                assert (answer.status == 500) is hit, match
                assert rule.hits == int(hit)
        with env.faults.add(Fail(503), name="a"):
            assert (await call("GET", f"{CM}/a")).status == 503
            assert (await call("GET", f"{CM}/b")).status == 404
            assert (await call("GET", "/version")).status == 200
        assert [r.code for r in env.audit.select(name="a")] == [503]
        assert bob.user.name == "bob"


async def test_a_rule_strikes_so_often() -> None:
    """A fault rule applies to the n-th request, at most a number of times, or with a probability from a seed."""
    async with Environment() as env:
        call = Caller(env)

        async def statuses(count: int) -> list[int]:
            return [(await call("GET", CM)).status for _ in range(count)]

        with env.faults.add(Fail(503), nth=2):
            assert await statuses(4) == [200, 503, 200, 200]
        with env.faults.add(Fail(503), times=2):
            assert await statuses(4) == [503, 503, 200, 200]
        rows = []
        for _ in range(2):
            env.faults.seed(7)
            with env.faults.add(Fail(503), probability=0.5) as rule:
                rows.append(await statuses(40))
            assert 5 < rule.hits < 35
        assert rows[0] == rows[1]
        with pytest.raises(ConfigError, match="between 0 and 1"):
            env.faults.add(Fail(503), probability=2)


async def test_simulated_controllers_are_spared_unless_named() -> None:
    """A fault affects simulated controllers only if it names their user."""
    async with Environment(controllers="cluster") as env:
        with env.faults.add(Fail(500), verb="write") as rule:
            await asyncio.sleep(60)
            assert rule.hits == 0
        await Caller(env)("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
        with env.faults.add(Reset(), user="system:kube-controller-manager", times=3) as rule:
            await Caller(env)("DELETE", "/api/v1/namespaces/n")

            async def gone() -> bool:
                return (await Caller(env)("GET", "/api/v1/namespaces/n")).status == 404

            await env.eventually(gone, within=120)


# ------------------------------------------------------------------ effects on requests
async def test_errors_are_what_a_server_sends() -> None:
    """An injected error has status, reason, message and Retry-After."""
    async with Environment() as env, Cluster(env.config) as cluster:
        client = cluster.uncached
        created = await client.create(config_map("a"))
        with env.faults.add(Conflict(), verb="update", times=2):
            for _ in range(2):
                with pytest.raises(ConflictError, match='fulfilled on configmaps "a": the object has been modified'):
                    await client.update(created)
            await client.update(created)
        with env.faults.add(Fail(429, retry_after=7), verb="get"):
            answer = await Caller(env)("GET", f"{CM}/a")
            assert (answer.status, answer.headers["retry-after"]) == (429, "7")
            assert answer.json["details"]["retryAfterSeconds"] == 7
            assert answer.json["reason"] == "TooManyRequests"
        with env.faults.add(Fail(418, "Teapot", "short and stout")):
            answer = await Caller(env)("GET", CM)
            assert (answer.status, answer.json["reason"], answer.json["message"]) == (418, "Teapot", "short and stout")
        with env.faults.add(Fail(), verb="list"), pytest.raises((ServiceUnavailableError, TooManyRequestsError)):
            await client.list(ConfigMap)


async def test_rules_add_up_in_their_order() -> None:
    """The first rule is outermost: a delay before an error delays the error."""
    async with Environment() as env:
        loop = asyncio.get_running_loop()
        env.faults.add(Delay(3, jitter=1))
        env.faults.add(Fail(500))
        begin = loop.time()
        assert (await Caller(env)("GET", CM)).status == 500
        assert 3 <= loop.time() - begin <= 4


async def test_a_reset_may_come_before_or_after_the_commit() -> None:
    """A reset before the commit writes nothing; after it, the write is done and the response lost."""
    async with Environment() as env:
        with env.faults.add(Reset(), times=1), pytest.raises(ConnectionLostError):
            await raw(env, "POST", CM, {"metadata": {"name": "a"}})
        assert (await Caller(env)("GET", f"{CM}/a")).status == 404
        with env.faults.add(Reset(after_commit=True), times=1), pytest.raises(ConnectionLostError):
            await raw(env, "POST", CM, {"metadata": {"name": "a"}})
        assert (await Caller(env)("GET", f"{CM}/a")).status == 200
        with env.faults.add(Reset(after_commit=True), verb="watch"), pytest.raises(TransportError):
            await raw(env, "GET", f"{CM}?watch=1")
        assert repr(env.plane.storage).endswith(", 0 watches>")


async def test_an_answer_that_is_cut_short() -> None:
    """A cut response ends with half of its bytes and a closed connection."""
    async with Environment() as env:
        with env.faults.add(Truncate()), pytest.raises(ConnectionLostError):
            await raw(env, "GET", CM)


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.realtime
async def test_sockets_are_cut_too(tls: bool) -> None:
    """Over TCP, a fault cuts a response completely or in half, and the next one is complete."""
    async with Environment() as env:
        web = await env.serve(tls=tls)
        user = env.add_user("bob", groups=["system:masters"]).served(web)
        async with Transport(user) as transport:
            for effect in (Reset(), Truncate()):
                with env.faults.add(effect), pytest.raises(TransportError):
                    await transport.send(HttpRequest("GET", CM), retry=False)
            assert (await transport.send(HttpRequest("GET", CM))).status == 200


# ------------------------------------------------------------------ watches
async def lines(env: Environment, effect: Any, *, query: str = "", writes: int = 3, wait: float = 0.0) -> list[Any]:
    """Return the events of a watch under a fault while objects are created; None at its end."""
    call = Caller(env)
    with env.faults.add(effect, verb="watch"):
        async with call.watch(f"{CM}?watch=1&resourceVersion={env.plane.storage.current_rv}{query}") as events:
            for _ in range(writes):
                if wait:
                    await asyncio.sleep(wait)
                await call("POST", CM, {"metadata": {"generateName": "w-"}})
            await asyncio.sleep(10)
            return [events.get_nowait() for _ in range(events.qsize())]


def kinds(found: list[Any]) -> list[str]:
    """The types of events."""
    return ["END" if e is None else e["type"] for e in found]


async def test_watches_can_drop_expire_or_slow_down() -> None:
    """A watch can end early, expire with 410, or deliver events late."""
    async with Environment() as env:
        assert kinds(await lines(env, DropWatch(after=2))) == ["ADDED", "ADDED", "END"]
        assert kinds(await lines(env, DropWatch())) == ["END"]
        expired = await lines(env, ExpireWatch(after=1))
        assert kinds(expired) == ["ADDED", "ERROR", "END"]
        assert expired[1]["object"]["code"] == 410
        assert kinds(await lines(env, SlowWatch(4.0))) == ["ADDED", "ADDED"]


async def test_bookmarks_come_twice_or_late() -> None:
    """Bookmarks can be repeated, or sent after the next event with an older version."""
    async with Environment() as env:
        query = "&allowWatchBookmarks=true"
        double = await lines(env, DoubleBookmarks(), query=query, writes=2, wait=70)
        assert kinds(double)[:4] == ["BOOKMARK", "BOOKMARK", "ADDED", "BOOKMARK"]
        late = await lines(env, LateBookmarks(), query=query, wait=70)
        assert kinds(late)[:4] == ["ADDED", "BOOKMARK", "ADDED", "BOOKMARK"]
        event, mark = (int(e["object"]["metadata"]["resourceVersion"]) for e in late[:2])
        assert mark < event


async def test_stale_lists_need_a_permissive_resource_version() -> None:
    """A list may be stale only if it accepts any version; without old state it is current."""
    async with Environment() as env:
        call = Caller(env)
        for name in "abc":
            await call("POST", CM, {"metadata": {"name": name, "labels": {"n": name}}})

        async def names(query: str) -> list[str]:
            return [i["metadata"]["name"] for i in (await call("GET", f"{CM}{query}")).json["items"]]

        with env.faults.add(StaleList(behind=1)):
            assert await names("?resourceVersion=0") == ["a", "b"]
            assert await names("?resourceVersion=0&labelSelector=n%3Da") == ["a"]
            assert await names("") == ["a", "b", "c"]
            env.faults.compact()
            assert await names("?resourceVersion=0") == ["a", "b", "c"]


# ------------------------------------------------------------------ at once
async def test_compaction_now() -> None:
    """After a compaction, older revisions are unavailable; open watches continue."""
    async with Environment() as env:
        call = Caller(env)
        old = (await call("GET", CM)).json["metadata"]["resourceVersion"]
        async with call.watch(f"{CM}?watch=1&resourceVersion={old}") as events:
            await call("POST", CM, {"metadata": {"name": "a"}})
            env.faults.compact()
            assert (await call("GET", f"{CM}?resourceVersion={old}&resourceVersionMatch=Exact")).status == 410
            assert (await events.get())["type"] == "ADDED"
            env.faults.expire_watches()
            assert (await events.get())["object"]["code"] == 410
            assert await events.get() is None


async def test_a_restart_cuts_connections_and_keeps_objects() -> None:
    """A restart breaks watches and rejects requests while it lasts, and keeps all objects."""
    async with Environment() as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(config_map("a"))
        async with Transport(env.config) as transport:
            async with transport.stream(HttpRequest("GET", f"{CM}?watch=1")) as stream:
                await anext(stream)
                restarting = asyncio.ensure_future(env.faults.restart(downtime=5))
                with pytest.raises(ConnectionLostError):
                    await anext(stream)
            with pytest.raises(ConnectionLostError):
                await transport.send(HttpRequest("GET", CM), retry=False)
            await restarting
            assert (await transport.send(HttpRequest("GET", f"{CM}/a"))).status == 200
        assert env.faults.rules == []


async def test_simulated_controllers_survive_a_restart() -> None:
    """Controllers list again after a restart: a pod that is created later runs."""
    async with Environment(controllers="cluster") as env:
        call = Caller(env)
        for number in range(2):
            await env.faults.restart(downtime=5.0 * number)
            path = "/api/v1/namespaces/default/pods"
            spec = {"containers": [{"name": "c", "image": "i"}]}
            await call("POST", path, {"metadata": {"name": f"p{number}"}, "spec": spec})
            await asyncio.sleep(10)
            assert (await call("GET", f"{path}/p{number}")).json["status"]["phase"] == "Running"


@pytest.mark.realtime
async def test_a_restart_cuts_sockets() -> None:
    """A restart ends streams and idle connections; the next request reaches the server again."""
    async with Environment() as env:
        web = await env.serve(tls=False)
        user = env.add_user("bob", groups=["system:masters"]).served(web)
        async with Transport(user) as transport:
            await transport.send(HttpRequest("GET", CM))
            async with transport.stream(HttpRequest("GET", f"{CM}?watch=1&resourceVersion=1")) as stream:
                await env.faults.restart()
                with pytest.raises(TransportError):
                    await anext(stream)
            assert (await transport.send(HttpRequest("GET", CM))).status == 200


# ------------------------------------------------------------------ an operator under faults
def copier() -> Operator:
    """A tiny operator: every ConfigMap labelled ``copy`` has a copy with its data, and says so in an annotation."""
    operator = Operator("copier")

    @operator.reconciler(ConfigMap)
    async def reconcile(request: Request) -> None:
        client = operator.client
        source = await client.get_or_none(ConfigMap, request.key)
        if source is None or "copy" not in source.metadata.labels:
            return
        expected = config_map(f"{request.name}-copy", **source.data)
        await operator.apply(expected, owner=source)
        if source.metadata.annotations.get("copied") != source.data.get("x"):
            source.metadata.annotations["copied"] = source.data["x"]
            await client.update(source)

    return operator


async def patiently(act: Callable[[], Any]) -> None:
    """Do something in spite of faults."""
    for _ in range(100):
        try:
            await act()
        except (AlreadyExistsError, NotFoundError):
            return
        except OpsdkError:
            await asyncio.sleep(0.5)
        else:
            return
    raise AssertionError("never succeeded")


async def converges(env: Environment) -> None:
    """Sources are made and changed; the copies follow. Our own client lives through restarts, too."""
    operator = copier()
    bob = env.add_user("bob", groups=["system:masters"])
    async with Cluster(bob.config) as cluster:
        working = asyncio.ensure_future(operator.start(env.config))
        client = cluster.uncached

        def source(name: str) -> ConfigMap:
            created = config_map(name, x="1")
            created.metadata.labels["copy"] = "yes"
            return created

        try:
            for name in "ab":
                await patiently(lambda name=name: client.create(source(name)))  # type: ignore[misc]
            await asyncio.sleep(2)
            await patiently(lambda: _set(client, "default/a", "2"))
            await asyncio.sleep(30)
            await env.eventually(partial(_copied, client, {"a-copy": "2", "b-copy": "1"}), within=600)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


async def _set(client: Client, key: str, value: str) -> None:
    result = await client.get(ConfigMap, key)
    result.data["x"] = value
    await client.update(result)


async def _copied(client: Client, wanted: dict[str, str]) -> None:
    result = {c.metadata.name: c for c in await client.list(ConfigMap, namespace="default")}
    assert {n: c.data["x"] for n, c in result.items() if n.endswith("-copy")} == wanted
    assert {n: c.metadata.annotations.get("copied") for n, c in result.items() if not n.endswith("-copy")} == {
        n.removesuffix("-copy"): v for n, v in wanted.items()
    }


FAULTS: dict[str, Callable[[Faults], Any]] = {
    "errors": lambda f: f.add(Fail(500), user="admin", probability=0.3),
    "unavailable": lambda f: f.add(Fail(503), user="admin", probability=0.3),
    "too many": lambda f: f.add(Fail(429, retry_after=1), user="admin", probability=0.3),
    "conflicts": lambda f: f.add(Conflict(), user="admin", verb="write", times=8),
    "delay": lambda f: f.add(Delay(0.5, jitter=2), user="admin", probability=0.5),
    "reset": lambda f: f.add(Reset(), user="admin", probability=0.3),
    "lost answers": lambda f: f.add(Reset(after_commit=True), user="admin", verb="write", probability=0.5),
    "truncated": lambda f: f.add(Truncate(after=1), user="admin", probability=0.3),
    "dropped watches": lambda f: f.add(DropWatch(after=1), user="admin", verb="watch", times=6),
    "cut watches": lambda f: f.add(DropWatch(after=1, cut=True), user="admin", verb="watch", times=6),
    "expired watches": lambda f: f.add(ExpireWatch(after=1), user="admin", verb="watch", times=6),
    "slow watches": lambda f: f.add(SlowWatch(1.0), user="admin", verb="watch"),
    "bookmarks": lambda f: (f.add(DoubleBookmarks(), verb="watch"), f.add(LateBookmarks(), verb="watch")),
    "stale lists": lambda f: f.add(StaleList(behind=3), user="admin"),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", FAULTS)
async def test_an_operator_converges_under_every_fault(fault: str, seed: int) -> None:
    """An operator converges under every fault of its requests."""
    async with Environment() as env:
        env.faults.seed(seed)
        FAULTS[fault](env.faults)
        await converges(env)
        assert all(rule.hits for rule in env.faults.rules)


@pytest.mark.parametrize("seed", range(10))
async def test_an_operator_converges_under_mixed_faults(seed: int) -> None:
    """An operator converges under several faults at once, with restarts, compactions and restores."""
    rng = random.Random(seed)
    async with Environment() as env:
        env.faults.seed(seed)
        for name in rng.sample(list(FAULTS), 3):
            FAULTS[name](env.faults)

        async def trouble() -> None:
            for _ in range(5):
                await asyncio.sleep(rng.random() * 2)
                act = rng.choice(["restart", "compact", "expire", "drop"])
                if act == "restart":
                    await env.faults.restart(downtime=rng.random() * 3)
                elif act == "compact":
                    env.faults.compact()
                elif act == "expire":
                    env.faults.expire_watches()
                else:
                    env.faults.drop_watches()
            env.faults.clear()

        troubling = asyncio.ensure_future(trouble())
        try:
            await converges(env)
        finally:
            await troubling
