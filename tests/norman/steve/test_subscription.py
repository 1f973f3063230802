"""Sessions of subscribe over queues, in virtual time, on the embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from stevekit import config_map, grant, revoke, rule, running_cluster

import envtest
from opsdk.api.core.v1 import ConfigMap
from opsdk.apiserver.auth.user import User
from opsdk.client.client import Client
from opsdk.errors import ConnectionLostError
from opsdk.norman.errors import NormanError
from opsdk.norman.sessions import MAX_WAITING
from opsdk.norman.steve import subscription
from opsdk.norman.steve.api import SteveApi
from opsdk.norman.steve.resources import SteveUrls
from opsdk.norman.steve.subscription import SubscribeSession
from opsdk.norman.steve.watches import SubscribeFrame, UserWatches
from opsdk.structured_merge.value import JsonObject

ADMIN = User(name="admin", groups=("system:masters",))
ANN = User(name="ann")


class Peer:
    """The client's end of a session."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def say(self, **frame: Any) -> None:
        self.sent.put_nowait(msgspec.json.encode(frame))

    async def take(self, message: str) -> None:
        self.received.put_nowait(msgspec.json.decode(message))

    async def hear(self, name: str) -> dict[str, Any]:
        """The next message, which must have this name."""
        async with asyncio.timeout(60):
            message = await self.received.get()
        assert message["name"] == name, message
        return message

    async def silence(self, seconds: float) -> None:
        """Nothing arrives for a while, but pings."""
        await asyncio.sleep(seconds)
        while not self.received.empty():
            assert self.received.get_nowait()["name"] == "ping"


@asynccontextmanager
async def subscribed(user: User) -> AsyncIterator[tuple[Peer, Client, SteveApi]]:
    """A session of a user, and the admin's client."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, SteveApi(cluster) as api:
        peer = Peer()
        session = SubscribeSession(UserWatches(api, user, SteveUrls("http://steve")), peer.take, version="1")
        running = asyncio.create_task(session.run(peer.sent.get))
        try:
            yield peer, cluster.uncached, api
        finally:
            peer.sent.put_nowait(None)
            await running


async def change(client: Client, key: str, size: str) -> ConfigMap:
    """Set a value of a ConfigMap."""
    obj = await client.get(ConfigMap, key)
    obj.data["size"] = size
    return await client.update(obj)


async def test_a_watch_sends_objects_from_start_to_stop() -> None:
    """Messages carry the fields of the frame; a second frame with the same key changes nothing."""
    async with subscribed(ADMIN) as (peer, client, _):
        peer.say(resourceType="configmap", namespace="default", selector="!x")
        started = await peer.hear("resource.start")
        assert started == {
            "name": "resource.start",
            "resourceType": "configmap",
            "namespace": "default",
            "selector": "!x",
        }
        peer.say(resourceType="configmap", namespace="default", selector="!x")
        await config_map(client, "kube-system", "other")
        await config_map(client, "default", "a")
        created = await peer.hear("resource.create")
        assert (created["data"]["id"], created["data"]["type"]) == ("default/a", "configmap")
        assert created["revision"] == created["data"]["metadata"]["resourceVersion"]
        await change(client, "default/a", "1")
        assert (await peer.hear("resource.change"))["data"]["data"] == {"size": "1"}
        await client.delete(ConfigMap, "default/a")
        assert (await peer.hear("resource.remove"))["data"]["id"] == "default/a"
        peer.say(resourceType="configmap", namespace="default", selector="!x", stop=True)
        await peer.hear("resource.stop")
        await config_map(client, "default", "b")
        await peer.silence(5)


async def test_a_watch_resumes_at_a_resource_version() -> None:
    """It sends what came since; a version before the cache, or of no server, is an error that says to list again."""
    async with subscribed(ADMIN) as (peer, client, api):
        await api.list_of(api.schema_for(ADMIN, "configmap"))
        created = await config_map(client, "default", "a")
        await config_map(client, "default", "b")
        peer.say(resourceType="configmaps", resourceVersion=created.metadata.resource_version)
        await peer.hear("resource.start")
        assert (await peer.hear("resource.create"))["data"]["id"] == "default/b"
        for version in ("1", "-1", "x", "9" * 40):
            peer.say(resourceType="configmaps", resourceVersion=version, id="default/a")
            assert "list again" in (await peer.hear("resource.error"))["data"]["error"]
            await peer.hear("resource.stop")


async def test_a_user_whose_permissions_are_taken_away_gets_a_stop_and_nothing_more() -> None:
    """Every watch ends with the change of the permissions; starting it again is refused."""
    async with subscribed(ANN) as (peer, client, _):
        await grant(client, "ann", rule("get", "watch", names=["a"]), namespace="default")
        await asyncio.sleep(1)
        peer.say(resourceType="configmap")
        await peer.hear("resource.start")
        await config_map(client, "default", "b")
        await config_map(client, "default", "a")
        assert (await peer.hear("resource.create"))["data"]["id"] == "default/a"
        await revoke(client, "ann", namespace="default")
        await peer.hear("resource.stop")
        await change(client, "default/a", "secret")
        await peer.silence(5)
        peer.say(resourceType="configmap")
        assert "failed to find schema" in (await peer.hear("resource.error"))["data"]["error"]
        await peer.hear("resource.stop")


async def test_a_user_who_may_read_but_not_watch_is_refused() -> None:
    """A subscription needs the permission to watch."""
    async with subscribed(ANN) as (peer, client, _):
        await grant(client, "ann", rule("list"))
        await asyncio.sleep(1)
        peer.say(resourceType="configmap")
        assert "may not watch configmap" in (await peer.hear("resource.error"))["data"]["error"]


async def test_notifications_have_no_objects_and_come_at_most_once_in_the_debounce_time() -> None:
    """The first comes at once, the last revision is never lost."""
    async with subscribed(ADMIN) as (peer, client, _):
        peer.say(resourceType="configmap", mode="resource.changes", debounceMs=2000)
        await peer.hear("resource.start")
        await config_map(client, "default", "a")
        first = await peer.hear("resource.changes")
        assert "data" not in first
        for size in range(9):
            last = await change(client, "default/a", str(size))
        second = await peer.hear("resource.changes")
        assert second["revision"] == last.metadata.resource_version
        await peer.silence(10)


async def test_counts_are_sent_when_objects_come_or_go() -> None:
    """Changed counts are sent at most every five seconds."""
    async with subscribed(ADMIN) as (peer, client, api):
        before = (await api.counts(ADMIN))["configmap"].count
        peer.say(resourceType="count")
        await peer.hear("resource.start")
        await config_map(client, "default", "a")
        message = await peer.hear("resource.change")
        assert message["data"]["counts"]["configmap"]["summary"]["count"] == before + 1
        assert list(message["data"]["counts"]) == ["configmap"]
        await change(client, "default/a", "1")
        await peer.silence(20)


async def test_pings_show_that_the_session_lives_and_foreign_frames_are_errors() -> None:
    """A ping comes every 30 seconds; a message that is not a frame changes nothing."""
    async with subscribed(ADMIN) as (peer, _, _api):
        peer.sent.put_nowait(b"[")
        peer.say(resourceType=5)
        for _ in range(2):
            assert "not a subscription" in (await peer.hear("resource.error"))["data"]["error"]
        peer.say(resourceType="configmap", selector="a=(")
        assert "'selector'" in (await peer.hear("resource.error"))["data"]["error"]
        await peer.hear("resource.stop")
        assert (await peer.hear("ping"))["data"] == {"version": "1"}


class FakeSource:
    """A source with endless events."""

    def __init__(
        self, count: int = 10_000, error: NormanError | None = None, data: dict[str, Any] | None = None
    ) -> None:
        self.count = count
        self.data = data or {}
        self.error = error
        self.opened = 0

    def on_access_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def watch(self, frame: SubscribeFrame) -> AsyncGenerator[JsonObject, None]:
        async def events() -> AsyncGenerator[JsonObject, None]:
            for number in range(self.count):
                self.opened += 1
                yield frame.message("resource.change", revision=number, data=self.data)
            if self.error is not None:
                raise self.error

        return events()


async def test_a_client_that_does_not_read_holds_up_its_watches_only_so_far() -> None:
    """Memory is bounded in bytes: the source is read as the client reads."""
    data = "x" * 10_000
    source, gate = FakeSource(data={"data": data}), asyncio.Event()

    async def send(message: str) -> None:
        await gate.wait()

    frames: asyncio.Queue[bytes | None] = asyncio.Queue()
    frames.put_nowait(b'{"resourceType":"pod"}')
    running = asyncio.create_task(SubscribeSession(source, send).run(frames.get))
    await asyncio.sleep(5)
    assert source.opened * len(data) <= MAX_WAITING + 2 * len(data)
    gate.set()
    await asyncio.sleep(5)
    assert source.opened == source.count
    frames.put_nowait(None)
    await running


async def test_a_frame_has_a_limit() -> None:
    """A frame that is too long or too deep is an error that does not repeat it."""
    peer = Peer()
    running = asyncio.create_task(SubscribeSession(FakeSource(1), peer.take).run(peer.sent.get))
    peer.say(resourceType="pod", selector="x" * 400_000)
    error = await peer.hear("resource.error")
    assert error == {"name": "resource.error", "data": {"error": "a frame has at most 8 KiB"}}
    peer.sent.put_nowait(b'{"a":' + b"[" * 8000)
    assert "not a subscription" in (await peer.hear("resource.error"))["data"]["error"]
    peer.sent.put_nowait(None)
    await running


@pytest.mark.parametrize("mode", ["", "resource.changes"])
async def test_an_error_of_the_source_ends_the_watch_with_a_message(mode: str) -> None:
    """An error of the source is sent, then resource.stop."""
    peer = Peer()
    session = SubscribeSession(FakeSource(0, NormanError("gone", status=410)), peer.take)
    running = asyncio.create_task(session.run(peer.sent.get))
    peer.say(resourceType="pod", mode=mode)
    await peer.hear("resource.start")
    assert (await peer.hear("resource.error"))["data"] == {"error": "gone"}
    await peer.hear("resource.stop")
    peer.sent.put_nowait(None)
    await running


async def test_a_session_has_a_limit_of_watches_and_ends_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session has a limit of watches; a lost connection ends it without an error."""
    monkeypatch.setattr(subscription, "_MAX_WATCHES", 1)
    peer = Peer()
    session = SubscribeSession(FakeSource(1), peer.take)
    running = asyncio.create_task(session.run(peer.sent.get))
    peer.say(resourceType="a")
    peer.say(resourceType="b")
    assert "at most 1 watches" in (await peer.hear("resource.error"))["data"]["error"]
    peer.sent.put_nowait(None)
    await running

    async def lost(message: Any) -> None:
        raise ConnectionLostError("closed")

    frames: asyncio.Queue[bytes | None] = asyncio.Queue()
    frames.put_nowait(b'{"resourceType":"pod"}')
    running = asyncio.create_task(SubscribeSession(FakeSource(), lost).run(frames.get))
    await asyncio.sleep(1)
    frames.put_nowait(None)
    await running
