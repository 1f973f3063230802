"""The journal of writes, and its assertions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from envtest.instruments.journal import Journal
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cluster.cluster import Cluster
from opsdk.engine.differences import differences
from opsdk.engine.writes import Ref
from opsdk.structured_merge.value import JsonObject

CM = "/api/v1/namespaces/default/configmaps"


def named(name: str, **more: Any) -> JsonObject:
    """An object."""
    return {"metadata": {"name": name}, **more}


async def test_every_write_has_its_writer() -> None:
    """The journal has user, field manager, verb, object and difference of each write, and no reads or rejections."""
    async with Environment() as env:
        call, bob = Caller(env), env.add_user("bob", groups=["system:masters"])
        journal = env.journal
        await Caller(env, bob.token)("POST", f"{CM}?fieldManager=op", named("a", data={"x": "1"}))
        await call("PUT", f"{CM}/a", named("a", data={"x": "2", "y": "3"}))
        await call("PUT", f"{CM}/a", named("a", metadata={"name": "b"}))
        await call("GET", CM)
        await call("DELETE", f"{CM}/a")
        created, changed, gone = journal
        assert (created.writer.user, created.writer.manager, created.verb) == ("bob", "op", "create")
        assert created.ref == Ref("", "configmaps", "default", "a")
        assert (changed.writer.user, changed.writer.manager, changed.verb) == ("admin", "tests", "update")
        assert [str(d) for d in changed.diff] == ["data.x: '1' -> '2'", "data.y: absent -> '3'"]
        assert gone.verb == "delete"
        assert gone.revision == created.revision + 2 == journal.last
        assert journal.select(user="bob") == [created]
        assert journal.select(after=created.revision, name="a", resource="configmaps", verb="delete") == [gone]
        assert "admin (as tests): update configmaps default/a: data.x: '1' -> '2'" in str(changed)


async def test_the_journal_records_from_its_first_use_on() -> None:
    """Tests without a journal have no filter and no listener for it."""
    async with Environment() as env:
        before = env.server.filters.names
        await Caller(env)("POST", CM, named("a"))
        journal = env.journal
        assert len(journal) == 0
        assert env.server.filters.names == [*before, "journal"]
        journal.stop()
        journal.stop()
        await Caller(env)("POST", CM, named("b"))
        assert len(journal) == 0
        assert env.server.filters.names == before


async def test_a_write_budget_counts_one_users_writes() -> None:
    """A write budget names the writer that exceeds it; a budget for one user ignores other writers."""
    async with Environment() as env:
        call, bob = Caller(env), env.add_user("bob", groups=["system:masters"])
        theirs = Caller(env, bob.token)
        async with env.writes(max=1, user="bob") as budget:
            await theirs("POST", CM, named("a"))
            await call("POST", CM, named("b"))
        assert [e.ref.name for e in budget.entries] == ["a"]
        with pytest.raises(AssertionError, match=r"(?s)2 writes, none allowed:.*bob \(as tests\): create.*default/c"):  # noqa: PT012
            async with env.no_writes():
                await theirs("POST", CM, named("c"))
                await call("POST", CM, named("d"))
        async with env.no_writes(resource="secrets"):
            await call("POST", CM, named("e"))
        with pytest.raises(KeyError):  # noqa: PT012
            async with env.no_writes():
                await call("POST", CM, named("f"))
                raise KeyError("the test's own failure is the one that is told")


async def test_a_restore_is_no_write() -> None:
    """A restore is in the journal, but does not count in a budget."""
    async with Environment() as env:
        snapshot = env.snapshot()
        await Caller(env)("POST", CM, named("a"))
        async with env.no_writes():
            env.restore(snapshot)
        assert [e.verb for e in env.journal] == ["restore"]


async def test_a_hot_loop_is_found() -> None:
    """A hot loop is one writer that writes one object repeatedly without other writers."""
    async with Environment() as env:
        call, bob = Caller(env), env.add_user("bob", groups=["system:masters"])
        journal, theirs = env.journal, Caller(env, bob.token)
        await call("POST", CM, named("a"))
        for number in range(3):
            await theirs("PUT", f"{CM}/a", named("a", data={"x": str(number)}))
        [loop] = journal.hot_loops()
        assert "bob (as tests) wrote configmaps default/a 3 times (revisions" in str(loop)
        with pytest.raises(AssertionError, match="wrote configmaps default/a 3 times"):
            journal.assert_calm()
        assert journal.hot_loops(at_least=4) == []
        assert journal.hot_loops(user="admin") == []


@pytest.mark.parametrize("early", [True, False])
async def test_the_environments_start_is_calm(early: bool) -> None:
    """Writes of the start and of simulated controllers are not reported as loops; other loops are."""
    env = Environment(controllers="cluster")
    if early:
        assert len(env.journal) == 0
    async with env:
        journal = env.journal
        await asyncio.sleep(60)
        assert len(journal) > 0
        journal.assert_calm()
        call = Caller(env)
        for number in range(3):
            await call(
                "PATCH", "/api/v1/nodes/node-1", {"metadata": {"labels": {"x": str(number)}}}, content_type=MERGE
            )
        with pytest.raises(AssertionError, match=r"admin .*wrote nodes node-1 3 times"):
            journal.assert_calm()


async def test_reacting_to_others_is_no_loop() -> None:
    """Writes after changes of other writers are not a loop."""
    async with Environment() as env:
        call, bob = Caller(env), env.add_user("bob", groups=["system:masters"])
        journal = env.journal
        await call("POST", CM, named("in"))
        await call("POST", CM, named("out"))
        for number in range(5):
            await call("PUT", f"{CM}/in", named("in", data={"x": str(number)}))
            await Caller(env, bob.token)("PUT", f"{CM}/out", named("out", data={"x": str(number)}))
        journal.assert_calm()


async def test_writes_that_change_nothing_are_counted() -> None:
    """Repeated writes without change get no revision but count as a hot loop."""
    async with Environment() as env:
        call, journal = Caller(env), env.journal
        await call("POST", CM, named("a", data={"x": "1"}))
        for _ in range(3):
            await call("PUT", f"{CM}/a", named("a", data={"x": "1"}))
        assert len(journal) == 1
        [loop] = journal.hot_loops()
        assert str(loop) == "admin sent 3 writes of configmaps default/a that changed nothing"
        journal.clear()
        assert journal.hot_loops() == []


async def test_a_fight_over_a_field_is_found() -> None:
    """A fight is two writers that take one field from each other."""
    async with Environment() as env:
        call, bob = Caller(env), env.add_user("bob", groups=["system:masters"])
        journal, theirs = env.journal, Caller(env, bob.token)
        await call("POST", CM, named("a", data={"x": "0", "calm": "1"}))
        for _ in range(2):
            await call("PUT", f"{CM}/a", named("a", data={"x": "ours", "calm": "1"}))
            await theirs("PUT", f"{CM}/a", named("a", data={"x": "theirs", "calm": "1"}))
        [fight] = journal.fights()
        assert (fight.path, len(fight.moves)) == ("data.x", 4)
        assert "data.x goes back and forth: admin (as tests) set 'ours' at" in str(fight)
        assert "bob (as tests) set 'theirs' at" in str(fight)


async def test_the_journal_is_bounded() -> None:
    """The oldest entries are dropped; the count stays."""
    from envtest.instruments.journal import Journal

    async with Environment() as env:
        journal = Journal(env.server, env.plane.storage, limit=3)
        journal.start()
        for number in range(5):
            await Caller(env)("POST", CM, named(f"c{number}"))
        assert [e.ref.name for e in journal] == ["c2", "c3", "c4"]
        assert journal.count == 5
        assert [e.ref.name for e in journal.since(4)] == ["c4"]
        assert journal.since(5) == []
        journal.stop()


async def test_waiting_for_a_revision() -> None:
    """`wait_for` returns at once for a past revision; its error shows the storage's revision."""
    async with Environment() as env:
        stored = (await Caller(env)("POST", CM, named("a"))).json
        await env.wait_for(stored["metadata"]["resourceVersion"])
        with pytest.raises(AssertionError, match=r"not true within 1 s .*the storage is at"):
            await env.wait_for(int(stored["metadata"]["resourceVersion"]) + 1, within=1)


async def test_the_owners_of_fields() -> None:
    """The journal lists the fields of each manager."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", f"{CM}?fieldManager=one", named("a", data={"x": "1"}))
        obj = {"apiVersion": "v1", "kind": "ConfigMap", **named("a", data={"y": "2"})}
        await call("PATCH", f"{CM}/a?fieldManager=two", obj, content_type="application/apply-patch+yaml")
        owned = env.owners((await call("GET", f"{CM}/a")).json)
        assert owned == {"one": ["data", "data.x"], "two": ["data.y"]}


def test_differences_leave_out_bookkeeping() -> None:
    """Lists of equal length are compared by element, others as a whole; 1 is not true."""
    before = {"metadata": {"resourceVersion": "1", "managedFields": [1]}, "l": [{"a": 1}], "m": [1], "n": 1}
    after = {"metadata": {"resourceVersion": "2"}, "l": [{"a": 2}], "m": [1, 2], "n": True}
    assert [str(d) for d in differences(before, after)] == [
        "l[0].a: 1 -> 2",
        "m: [1] -> [1, 2]",
        "n: 1 -> True",
    ]
    assert differences(before, before) == []
    assert len(str(differences({}, {"a": "x" * 500})[0])) < 100


async def test_the_counts_of_idle_writes_are_bounded() -> None:
    """`Journal.idle` keeps the newest objects up to its limit."""
    async with Environment() as env, Cluster(env.config) as cluster:
        journal = Journal(env.server, env.plane.storage, limit=2)
        journal.start()
        for name in ("a", "b", "c"):
            obj = await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
            await cluster.uncached.update(obj)
            await cluster.uncached.update(obj)
        journal.stop()
    assert [(path.rpartition("/")[2], count) for (_, path), count in journal.idle.items()] == [("b", 2), ("c", 2)]


async def test_a_second_start_records_nothing_twice() -> None:
    """A second start does not record twice; after a stop, a start records again."""
    async with Environment() as env, Cluster(env.config) as cluster:
        journal = env.journal
        for number in range(2):
            journal.start()
            journal.start()
            await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name=f"c{number}", namespace="default")))
            assert journal.count == number + 1
            journal.stop()
