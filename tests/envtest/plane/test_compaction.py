"""Laws of `envtest.plane.compaction`."""

from __future__ import annotations

import asyncio

import pytest
from server_caller import Caller

from envtest.__main__ import parser
from envtest.environment import Environment
from opsdk.testing.loop import DeadlockError, VirtualLoop

CM = "/api/v1/namespaces/default/configmaps"


async def _fill(call: Caller, count: int) -> str:
    """Create objects, and return the revision of the last one."""
    created = [await call("POST", CM, {"metadata": {"name": f"c{n}"}}) for n in range(count)]
    revision: str = created[-1].json["metadata"]["resourceVersion"]
    return revision


async def test_continue_tokens_expire() -> None:
    """A continue token lives for one to two intervals; then the 410 has a token to continue with."""
    async with Environment() as env:
        call = Caller(env)
        await _fill(call, 3)
        token = (await call("GET", f"{CM}?limit=1")).json["metadata"]["continue"]
        await call("DELETE", f"{CM}/c2")
        await asyncio.sleep(599)
        assert (await call("GET", f"{CM}?limit=1&continue={token}")).status == 200
        await asyncio.sleep(1)
        expired = (await call("GET", f"{CM}?limit=1&continue={token}")).json
        assert (expired["code"], expired["reason"]) == (410, "Expired")
        rest = await call("GET", f"{CM}?continue={expired['metadata']['continue']}")
        assert [o["metadata"]["name"] for o in rest.json["items"]] == ["c1"]


async def test_lists_at_old_revisions_expire_and_watches_go_on() -> None:
    """A list at an exact old revision is a 410; a watch from that revision still gets every change."""
    async with Environment(compaction_interval=10) as env:
        call = Caller(env)
        revision = await _fill(call, 1)
        await call("DELETE", f"{CM}/c0")
        exact = f"{CM}?resourceVersion={revision}&resourceVersionMatch=Exact"
        assert (await call("GET", exact)).status == 200
        await asyncio.sleep(21)
        assert (await call("GET", exact)).status == 410
        async with call.watch(f"{CM}?watch=1&resourceVersion={revision}") as events:
            assert (await events.get())["type"] == "DELETED"


async def test_compaction_can_be_off() -> None:
    """With an interval of 0, old revisions stay."""
    async with Environment(compaction_interval=0) as env:
        call = Caller(env)
        revision = await _fill(call, 1)
        await call("DELETE", f"{CM}/c0")
        await asyncio.sleep(10**5)
        exact = await call("GET", f"{CM}?resourceVersion={revision}&resourceVersionMatch=Exact")
        assert (exact.status, len(exact.json["items"])) == (200, 1)


def test_compaction_hides_no_deadlock() -> None:
    """The timer ends when nothing is left to compact, so deadlocks are still found."""

    async def main() -> None:
        async with Environment() as env:
            await _fill(Caller(env), 2)
            await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(DeadlockError):
        runner.run(main())


@pytest.mark.parametrize(("text", "seconds"), [("5m0s", 300.0), ("90s", 90.0), ("0", 0.0), ("0s", 0.0)])
def test_the_option_is_a_duration(text: str, seconds: float) -> None:
    """``serve --etcd-compaction-interval`` accepts kube-apiserver's durations."""
    assert parser().parse_args(["serve", "--etcd-compaction-interval", text]).etcd_compaction_interval == seconds
    assert parser().parse_args(["serve"]).etcd_compaction_interval == 300
