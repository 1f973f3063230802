"""Trace contexts in annotations, on a whole server in this process: which writes carry one, and its effects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from envtest.testing.effects import Fail
from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import KubeObject
from opsdk.base.traceparent import TRACEPARENT_ANNOTATION
from opsdk.children.applier import Applier
from opsdk.client.client import Client
from opsdk.client.patch import MergeFrom, json_patch, merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.errors import AlreadyExistsError, InvalidError
from opsdk.telemetry.records import Record, Requested, TelemetryHook, WriteStarted

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


class NumberedWrites(TelemetryHook):
    """Gives each write a trace context with the next number, and counts requests."""

    follows_writes = True

    def __init__(self) -> None:
        self.started: list[WriteStarted] = []
        self.requests = 0
        self.is_silent = False

    @contextmanager
    def write(self, started: WriteStarted) -> Iterator[Mapping[str, str]]:
        """Yield the next context."""
        self.started.append(started)
        yield {} if self.is_silent else {"traceparent": numbered(len(self.started))}

    def record(self, record: Record) -> None:
        """Count the writes that are sent."""
        self.requests += isinstance(record, Requested) and record.method != "GET"


def numbered(number: int) -> str:
    """The trace context of a write."""
    return f"00-{number:032x}-{number:016x}-01"


@asynccontextmanager
async def traced_client() -> AsyncIterator[tuple[Client, NumberedWrites, Any]]:
    """A client of a fresh server whose hook follows writes."""
    hook = NumberedWrites()
    async with environment.Environment() as env, Cluster(env.config, hook=hook) as cluster:
        await cluster.uncached.get_or_none(ConfigMap, "default/none")  # discovery
        yield cluster.uncached, hook, env


def config(name: str = "a", **data: str) -> ConfigMap:
    """A config map."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


def trace_of(obj: KubeObject) -> str | None:
    """The annotation of an object."""
    return obj.metadata.annotations.get(TRACEPARENT_ANNOTATION)


# ------------------------------------------------------------------ which writes carry it
async def test_writes_that_change_an_object_carry_their_trace_context() -> None:
    """A create, an update and a patch of changes each replace the context of the write before."""
    async with traced_client() as (client, hook, _):
        live = await client.create(config(x="1"))
        assert trace_of(live) == numbered(1)
        live.data["x"] = "2"
        await client.update(live)
        assert (trace_of(live), live.data["x"]) == (numbered(2), "2")
        live.data["x"] = "3"
        await client.patch(live, MergeFrom())
        assert (trace_of(live), live.data["x"]) == (numbered(3), "3")
        assert [started.verb for started in hook.started] == ["create", "update", "patch"]
        first = hook.started[0]
        assert (first.group, first.kind, first.namespace, first.name) == ("", "ConfigMap", "default", "a")


Write = Callable[[Client, ConfigMap], Coroutine[Any, Any, object]]


async def _own_finalizer(client: Client, live: ConfigMap) -> None:
    live.metadata.finalizers = ["example.com/a"]
    await client.patch(live, MergeFrom(optimistic_lock=True))


async def _dry_run(client: Client, live: ConfigMap) -> None:
    live.data["x"] = "2"
    await client.update(live, dry_run=True)


@pytest.mark.parametrize(
    "write",
    [
        lambda client, live: client.update(live),
        lambda client, live: client.patch(live, MergeFrom()),
        lambda client, live: client.patch(live, merge_patch({"data": {"x": "1"}})),
        lambda client, live: client.patch(live, json_patch([{"op": "add", "path": "/data/x", "value": "1"}])),
        lambda client, live: client.apply(config(x="1"), field_owner="me"),
        _dry_run,
        _own_finalizer,
    ],
    ids=["update", "merge from", "merge patch", "JSON patch", "apply", "dry run", "finalizer"],
)
async def test_other_writes_leave_the_annotation_alone(write: Write) -> None:
    """A write without a known effect, a dry run and housekeeping keep the context of the write before."""
    async with traced_client() as (client, hook, _):
        live = await client.create(config(x="1"))
        await write(client, live)
        assert len(hook.started) == 1
        assert trace_of(await client.get(ConfigMap, "default/a")) == numbered(1)


@pytest.mark.parametrize("write", ["update", "merge from"])
async def test_a_write_without_effect_stays_one(write: str) -> None:
    """The server stores nothing, so no event follows that would reconcile the object again."""
    async with traced_client() as (client, _, __):
        live = await client.create(config(x="1"))
        version = live.metadata.resource_version
        await (client.update(live) if write == "update" else client.patch(live, MergeFrom()))
        assert live.metadata.resource_version == version


async def test_heartbeats_and_status_carry_none() -> None:
    """Leases, the status subresource and a scale are written as before."""
    async with traced_client() as (client, hook, _):
        lease = await client.create(Lease(metadata=ObjectMeta(name="a", namespace="default")))
        lease.spec.holder_identity = "me"
        await client.update(lease)
        assert trace_of(lease) is None
        namespace = await client.get(Namespace, "default")
        namespace.status.phase = "Active"
        await client.status().update(namespace)
        assert trace_of(namespace) is None
        assert hook.started == []


async def test_a_hook_without_a_context_changes_nothing() -> None:
    """Outside a reconcile, and for a hook that does not follow writes, the body is the object."""

    class Silent(TelemetryHook):
        follows_writes = True

    for hook in (Silent(), TelemetryHook()):
        async with environment.Environment() as env, Cluster(env.config, hook=hook) as cluster:
            assert trace_of(await cluster.uncached.create(config(x="1"))) is None


async def test_the_same_difference_is_annotated_once_in_ten_minutes() -> None:
    """A difference that comes back may have no effect without the annotation."""
    async with traced_client() as (client, hook, _):
        live = await client.create(config(x="1"))
        for attempt in range(3):
            live.data["x"] = "2"
            await client.patch(live, MergeFrom())
            await client.patch(await client.get(ConfigMap, "default/a"), merge_patch({"data": {"x": "1"}}))
            live = await client.get(ConfigMap, "default/a")
            assert trace_of(live) == numbered(2), attempt
        await asyncio.sleep(601)
        live.data["x"] = "2"
        await client.patch(live, MergeFrom())
        assert trace_of(live) == numbered(3)
        assert len(hook.started) == 3


async def test_a_write_without_a_context_is_no_repetition() -> None:
    """Only what carried a context counts, not the same change outside a reconcile."""
    async with traced_client() as (client, hook, _):
        hook.is_silent = True
        live = await client.create(config(x="1"))
        live.data["x"] = "2"
        await client.patch(live, MergeFrom())
        await client.patch(live, merge_patch({"data": {"x": "1"}}))
        hook.is_silent = False
        live.data["x"] = "2"
        await client.patch(live, MergeFrom())
        assert trace_of(live) == numbered(3)


# ------------------------------------------------------------------ refused writes
async def test_a_refused_annotation_is_left_out_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    """The write succeeds without it, and later writes of the kind do not try again."""
    async with traced_client() as (client, hook, env):
        env.faults.add(Fail(422, "Invalid"), verb="create", resource="configmaps", times=1)
        assert trace_of(await client.create(config(x="1"))) is None
        assert "the server refuses the annotation" in caplog.text
        requests = hook.requests
        assert trace_of(await client.create(config("b"))) is None
        assert (hook.requests, len(hook.started)) == (requests + 1, 1)


async def test_a_write_that_is_refused_anyway_raises_its_own_error() -> None:
    """An invalid object says so; other objects of the kind are annotated as before."""
    async with traced_client() as (client, hook, _):
        bad = ConfigMap(metadata=ObjectMeta(name="Not A Name", namespace="default"))
        with pytest.raises(InvalidError, match=r"metadata\.name"):
            await client.create(bad)
        assert trace_of(bad) is None
        await client.create(config())
        with pytest.raises(AlreadyExistsError):
            await client.create(config())
        assert len(hook.started) == 3


# ------------------------------------------------------------------ children
async def test_an_annotated_child_does_not_differ() -> None:
    """Neither the same applier, nor one after a restart, nor one of another operator writes because of it."""
    async with traced_client() as (client, hook, _):
        applier = Applier(client, field_owner="me")
        live = await applier.apply(config(x="1"))
        assert trace_of(live) == numbered(1)
        version = live.metadata.resource_version
        for again in (applier, Applier(client, field_owner="me")):
            assert await again.pending(config(x="1")) is None
            assert (await again.apply(config(x="1"))).metadata.resource_version == version
        live = await applier.apply(config(x="2"))
        assert (trace_of(live), live.data) == (numbered(2), {"x": "2"})
        other = Applier(client, field_owner="other")
        both = ConfigMap(metadata=ObjectMeta(name="a", namespace="default", labels={"b": "c"}))
        await other.apply(both)
        before = hook.requests
        await applier.apply(config(x="2"))
        await other.apply(both)
        assert hook.requests == before


async def test_an_applier_annotates_only_what_it_knows_to_change() -> None:
    """The first write of a process after a restart, and a write without `force`, carry none: it might be the effect."""
    async with traced_client() as (client, hook, _):
        await Applier(client, field_owner="me").apply(config(x="1"))
        restarted = Applier(client, field_owner="me")
        live = await restarted.apply(config(x="2"))
        assert (trace_of(live), len(hook.started)) == (None, 1)
        live = await restarted.apply(config(x="3"), force=False)
        assert (trace_of(live), len(hook.started)) == (None, 1)
        assert trace_of(await restarted.apply(config(x="4"))) == numbered(2)
        other = Applier(client, field_owner="other")
        labelled = ConfigMap(metadata=ObjectMeta(name="a", namespace="default", labels={"b": "c"}))
        await other.apply(labelled, force=False)  # the annotation is not a conflict
        assert trace_of(await client.get(ConfigMap, "default/a")) == numbered(2)


async def test_a_copied_context_is_not_desired() -> None:
    """A child that copies its owner's annotations is applied without the owner's context."""
    async with traced_client() as (client, hook, _):
        applier = Applier(client, field_owner="me")
        for number in (7, 8):
            child = config(x="1")
            child.metadata.annotations = {TRACEPARENT_ANNOTATION: numbered(number)}
            live = await applier.apply(child)
            assert (trace_of(live), len(hook.started)) == (numbered(1), 1)


async def test_a_change_by_another_writer_is_repaired_with_the_context_of_the_repair() -> None:
    """Drift is a cause of its own, and others may write the annotation without being undone."""
    async with traced_client() as (client, hook, _):
        applier = Applier(client, field_owner="me")
        await applier.apply(config(x="1"))
        live = await client.get(ConfigMap, "default/a")
        foreign = {"metadata": {"annotations": {TRACEPARENT_ANNOTATION: numbered(99)}}}
        await client.patch(live, merge_patch(foreign))
        before = hook.requests
        assert trace_of(await applier.apply(config(x="1"))) == numbered(99)
        assert hook.requests == before
        await client.patch(live, merge_patch({"data": {"x": "9"}}))
        assert trace_of(await applier.apply(config(x="1"))) == numbered(2)
