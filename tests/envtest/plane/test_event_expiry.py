"""Events expire an hour after their last write through either API; other objects stay."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from server_caller import Caller

from envtest.environment import Environment
from envtest.plane.event_expiry import EVENTS, EventExpiry
from opsdk.aio.clock import monotonic
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import KeyExistsError, KeyNotFoundError, Remove
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.loop import VirtualLoop

PATH = "/api/v1/namespaces/default/events"
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "update", "delete", "advance"]), st.integers(0, 3), st.integers(1, 90)),
    max_size=30,
)


def event(name: str) -> JsonObject:
    """One about nothing much."""
    return {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "Any", "message": "x"}


async def mark(number: int, current: JsonObject | None) -> JsonObject | Remove:
    """A change to what is there."""
    if current is None:
        raise KeyNotFoundError("it is gone")
    return {**current, "mark": number}


@given(STEPS)
def test_what_is_there_was_written_within_the_hour(steps: list[tuple[str, int, int]]) -> None:
    """Stored Events are those whose last write is younger than their time to live."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(assert_expires_like_the_model(steps))


async def assert_expires_like_the_model(steps: list[tuple[str, int, int]]) -> None:
    """Run the steps, and compare the stored events with the model after each step."""
    storage = MemoryStorage()
    expiry = EventExpiry(storage, ttl=100.0)
    expiry.start()
    storage.create_now("core/configmaps/default/a", {"metadata": {"name": "a"}})
    written: dict[str, float] = {}
    for number, (step, which, seconds) in enumerate(steps):
        key = f"{EVENTS}default/{which}"
        # The storage's own laws are tested elsewhere: what it refuses is not written.
        with suppress(KeyExistsError, KeyNotFoundError):
            match step:
                case "create":
                    storage.create_now(key, {"metadata": {"name": str(which)}})
                    written[key] = monotonic()
                case "update":
                    await storage.guaranteed_update(key, partial(mark, number))
                    written[key] = monotonic()
                case "delete":
                    storage.delete_now(key)
                    del written[key]
                case _:
                    await asyncio.sleep(seconds)
        written = {k: when for k, when in written.items() if when + 100 > monotonic()}
        assert {k for k, _ in storage.list_now(EVENTS).items} == written.keys()
    assert len(storage.list_now("core/configmaps/").items) == 1
    expiry.close()
    storage.create_now(f"{EVENTS}default/late", {"metadata": {"name": "late"}})
    await asyncio.sleep(1000)
    assert storage.list_now(EVENTS).items


async def test_watchers_see_expired_events() -> None:
    """Watchers get a deletion for an expired Event; one that was written again lives for another hour."""
    async with Environment() as env:
        call = Caller(env)
        for name in ("a", "b"):
            assert (await call("POST", PATH, event(name))).status == 201
        await asyncio.sleep(1800)
        patch = {"count": 2}
        await call("PATCH", f"{PATH}/b", patch, content_type="application/merge-patch+json")
        async with call.watch(f"{PATH}?watch=1&timeoutSeconds=3000") as events:
            while not events.empty():
                events.get_nowait()
            await asyncio.sleep(1801)
            events_sent = events.get_nowait()
            assert events_sent is not None
            assert (events_sent["type"], events_sent["object"]["metadata"]["name"]) == ("DELETED", "a")
        remaining = await call("GET", PATH)
        assert [item["metadata"]["name"] for item in remaining.json["items"]] == ["b"]
        await asyncio.sleep(1800)
        assert (await call("GET", PATH)).json["items"] == []


async def test_restored_events_have_their_hour() -> None:
    """A restored Event lives for an hour after the restore."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", PATH, event("a"))
        snapshot = env.snapshot()
        await asyncio.sleep(3601)
        assert (await call("GET", PATH)).json["items"] == []
        env.restore(snapshot)
        assert len((await call("GET", PATH)).json["items"]) == 1
        await asyncio.sleep(3601)
        assert (await call("GET", PATH)).json["items"] == []
