"""Handlers of an operator that was migrated from kopf: what they are called for, and what is kept on the objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import envtest
from opsdk import Cluster, Context, Operator, TemporaryError, TerminalError, Unstructured
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.client.patch import merge_patch
from opsdk.event.predicates import of_object
from opsdk.migration import kopf_handlers
from opsdk.migration.kopf_record import (
    HandlerProgress,
    KopfNames,
    differences,
    essence_of,
    last_handled,
    progress_of,
    time_of,
)
from opsdk.testing.running import running

CONFIG = unstructured_kind("v1", "ConfigMap")
HANDLED = "kopf.zalando.org/last-handled-configuration"


def config_map(name: str = "a", **data: str) -> Unstructured:
    """Return a ConfigMap."""
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}
    return Unstructured.from_tree(tree)


class World:
    """An operator with one `ChangeCall`, whose handlers write down that they were called."""

    def __init__(self, env: envtest.Environment, user: Cluster, calls: list[str]) -> None:
        self.env, self.user, self.calls = env, user, calls

    async def read(self) -> Unstructured:
        """Return the ConfigMap."""
        return await self.user.uncached.get(CONFIG, "default/a")

    async def record(self) -> Any:
        """Return the record of the handled state; None without one."""
        text = ((await self.read()).metadata.annotations or {}).get(HANDLED)
        return None if text is None else json.loads(text)


def make_operator(body: Callable[[kopf_handlers.ChangeCall], Any]) -> Operator:
    """Return an operator whose reconciler calls `body`."""
    operator, kind = Operator("migrated"), kopf_handlers.KopfKind()

    @operator.reconciler(CONFIG)
    async def reconcile(config: Unstructured, ctx: Context) -> None:
        if config.metadata.name != "a":
            return
        async with kopf_handlers.ChangeCall(config, ctx, kind) as change:
            await body(change)

    return operator


@asynccontextmanager
async def world(body: Callable[[kopf_handlers.ChangeCall, list[str]], Any], obj: Unstructured) -> AsyncIterator[World]:
    """Run an operator with one object."""
    calls: list[str] = []
    operator = make_operator(lambda change: body(change, calls))
    async with envtest.Environment() as env, Cluster(env.config) as user:
        await user.uncached.create(obj)
        async with running(operator, env):
            yield World(env, user, calls)


async def reasons(change: kopf_handlers.ChangeCall, calls: list[str]) -> None:
    """Write down creation, update and resumption."""
    if change.is_create:
        await change.call("created", lambda: calls.append("created"))
    if change.is_update:
        await change.call("updated", lambda diff: calls.append(f"updated {diff}"), diff=change.diff)
    if change.is_resume:
        await change.call("resumed", lambda: calls.append("resumed"))


async def test_a_creation_is_handled_once() -> None:
    """A new object is a creation; its record is the essence, and the next reconciles call nothing."""
    async with world(reasons, config_map(k="1")) as it:
        await asyncio.sleep(10)
        assert it.calls == ["created"]
        assert await it.record() == {"data": {"k": "1"}}


async def test_an_object_of_kopf_is_not_created_again() -> None:
    """The record that kopf left makes an object handled: it is resumed once, and changed by later updates."""
    obj = config_map(k="1")
    obj.metadata.annotations = {HANDLED: '{"data":{"k":"1"}}\n'}
    async with world(reasons, obj) as it:
        await asyncio.sleep(10)
        assert it.calls == ["resumed"]
        await it.user.uncached.patch(await it.read(), merge_patch({"data": {"k": "2"}}))
        await asyncio.sleep(10)
        assert it.calls == ["resumed", "updated (DiffItem(operation='change', field=('data', 'k'), old='1', new='2'),)"]
        assert await it.record() == {"data": {"k": "2"}}


async def test_a_change_while_no_operator_ran_is_an_update() -> None:
    """The difference to kopf's record is handled as an update at the start, and the object is resumed, too."""
    obj = config_map(k="2")
    obj.metadata.annotations = {HANDLED: '{"data":{"k":"1"}}\n'}
    async with world(reasons, obj) as it:
        await asyncio.sleep(10)
        assert [call.split()[0] for call in it.calls] == ["updated", "resumed"]


async def test_what_kopf_finished_before_is_not_repeated() -> None:
    """A creation that kopf began is completed: handlers that succeeded are not called again."""
    obj = config_map()
    progress = '{"started":"2026-01-01T00:00:00.000000","purpose":"create","retries":1,"success":true,"failure":false}'
    obj.metadata.annotations = {"kopf.zalando.org/first": progress}

    async def body(change: kopf_handlers.ChangeCall, calls: list[str]) -> None:
        if change.is_create:
            await change.call("first", lambda: calls.append("first"))
            await change.call("second", lambda: calls.append("second"))

    async with world(body, obj) as it:
        await asyncio.sleep(10)
        assert it.calls == ["second"]
        assert set((await it.read()).metadata.annotations) == {HANDLED}


async def test_a_failed_handler_is_retried_alone() -> None:
    """A retry calls only the handler that failed, after its delay, with the number of its calls."""
    begun: list[float] = []

    async def body(change: kopf_handlers.ChangeCall, calls: list[str]) -> None:
        def fail_twice(retry: int) -> dict[str, int]:
            calls.append(f"second {retry}")
            if retry < 2:
                raise TemporaryError("not yet", delay=5)
            return {"retries": retry}

        async def first() -> None:
            begun.append(asyncio.get_running_loop().time())
            calls.append("first")

        if change.is_create:
            await change.call("first", first)
            await change.call("second", fail_twice, retry=change.retry("second"))

    async with world(body, config_map()) as it:
        await asyncio.sleep(4)
        assert it.calls == ["first", "second 0"]
        assert await it.record() is None
        await asyncio.sleep(20)
        assert it.calls == ["first", "second 0", "second 1", "second 2"]
        assert set((await it.read()).metadata.annotations) == {HANDLED}


@pytest.mark.parametrize("options", [{"retries": 2, "backoff": 1}, {"timeout": 2, "backoff": 1.5}])
async def test_retries_and_timeout_bound_the_calls(options: dict[str, float]) -> None:
    """After its retries or its timeout a handler has failed for good, and the change counts as handled."""

    async def body(change: kopf_handlers.ChangeCall, calls: list[str]) -> None:
        def fail() -> None:
            calls.append("fail")
            raise ValueError("broken")

        if change.is_create:
            await change.call("fail", fail, **options)

    async with world(body, config_map()) as it:
        await asyncio.sleep(60)
        assert it.calls == ["fail", "fail"]
        assert await it.record() == {}


async def test_a_permanent_error_ends_only_its_handler() -> None:
    """`TerminalError` fails one handler; the others are called, and the change counts as handled."""

    async def body(change: kopf_handlers.ChangeCall, calls: list[str]) -> None:
        def give_up() -> None:
            raise TerminalError("never")

        if change.is_create:
            await change.call("give_up", give_up)
            await change.call("other", lambda: calls.append("other"))

    async with world(body, config_map()) as it:
        await asyncio.sleep(60)
        assert it.calls == ["other"]
        assert await it.record() == {}


async def test_an_object_without_watching_handlers_gets_no_record() -> None:
    """Kopf keeps no record of objects that no filter matches, and neither does the migrated operator."""

    async def body(change: kopf_handlers.ChangeCall, calls: list[str]) -> None:
        change.is_watched = change.matches(labels={"watched": kopf_handlers.PRESENT})
        calls.append(change.reason)

    async with world(body, config_map()) as it:
        await asyncio.sleep(10)
        assert it.calls == ["create"]
        assert await it.record() is None
        await it.user.uncached.patch(await it.read(), merge_patch({"metadata": {"labels": {"watched": ""}}}))
        await asyncio.sleep(10)
        assert await it.record() == {"metadata": {"labels": {"watched": ""}}}


async def test_a_deletion_that_waits_for_kopf_is_finished() -> None:
    """An object with kopf's finalizer calls the handlers of the deletion until they succeed, and goes."""
    operator, kind, calls = Operator("migrated"), kopf_handlers.KopfKind(), []
    marker = "kopf.zalando.org/KopfFinalizerMarker"

    def fail_once(retry: int) -> None:
        calls.append(retry)
        if not retry:
            raise TemporaryError("not yet", delay=5)

    async def finalize(config: Unstructured, ctx: Context) -> None:
        async with kopf_handlers.ChangeCall(config, ctx, kind) as change:
            assert change.reason == "delete"
            await change.call("gone", fail_once, retry=change.retry("gone"))

    @operator.reconciler(
        CONFIG, finalizers={marker: finalize}, predicates=[of_object(lambda o: o.metadata.name == "a")]
    )
    async def reconcile(config: Unstructured, ctx: Context) -> None: ...

    obj = config_map()
    obj.metadata.finalizers = [marker]
    async with envtest.Environment() as env, Cluster(env.config) as user:
        await user.uncached.delete(await user.uncached.create(obj))
        async with running(operator, env):
            await asyncio.sleep(60)
            assert calls == [0, 1]
            assert await user.uncached.get_or_none(CONFIG, "default/a") is None


async def test_a_malformed_record_stops_the_object() -> None:
    """A record that is not JSON calls no handler: a guess could create everything a second time."""
    obj = config_map()
    obj.metadata.annotations = {HANDLED: "{"}
    async with world(reasons, obj) as it:
        await asyncio.sleep(60)
        assert it.calls == []


async def test_the_patch_is_written_with_the_record() -> None:
    """What a handler puts into the patch reaches the object; a change of labels is a later update, as in kopf."""

    async def body(change: kopf_handlers.ChangeCall, calls: list[str]) -> None:
        def mark(patch: kopf_handlers.KopfPatch) -> None:
            patch.metadata.labels["marked"] = "yes"

        if change.is_create:
            await change.call("mark", mark, patch=change.patch)
        if change.is_update:
            await change.call("updated", lambda: calls.append("updated"))

    async with world(body, config_map()) as it:
        await asyncio.sleep(10)
        assert (await it.read()).metadata.labels == {"marked": "yes"}
        assert it.calls == ["updated"]
        assert await it.record() == {"metadata": {"labels": {"marked": "yes"}}}


async def test_adopted_children_have_owner_name_namespace_and_labels() -> None:
    """`adopt` fills what the child lacks, in a thread and in the loop, and keeps what it has."""
    children: list[Any] = []

    async def body(change: kopf_handlers.ChangeCall, calls: list[str]) -> None:
        def adopt() -> None:
            child: Any = {"metadata": {"labels": {"own": "1"}}}
            kopf_handlers.adopt(child)
            kopf_handlers.post_event(change.body, reason="Adopted")
            children.append(child)

        async def adopt_named() -> None:
            child: Any = {"metadata": {"name": "mine", "namespace": "other"}}
            kopf_handlers.adopt([child], owner=change.body)
            children.append(child)

        if change.is_create:
            await change.call("adopt", adopt)
            await change.call("adopt_named", adopt_named)

    obj = config_map()
    obj.metadata.labels = {"app": "x"}
    async with world(body, obj) as it:
        await asyncio.sleep(10)
        uid = (await it.read()).metadata.uid
    first, second = children
    reference = first["metadata"].pop("ownerReferences")
    assert [each["uid"] for each in reference] == [uid]
    assert first["metadata"] == {"generateName": "a-", "namespace": "default", "labels": {"own": "1", "app": "x"}}
    assert second["metadata"]["ownerReferences"] == reference
    assert (second["metadata"]["name"], second["metadata"]["namespace"]) == ("mine", "other")


async def test_a_daemon_ends_by_its_flag() -> None:
    """A daemon that waits for `stopped` ends its work when its object goes, as a coroutine and in a thread."""
    ends: list[str] = []
    operator, kind = Operator("daemons"), kopf_handlers.KopfKind()

    async def wait(stopped: kopf_handlers.Stopped) -> None:
        while not stopped:
            await stopped.wait(5)
        ends.append("async")

    def block(stopped: kopf_handlers.BlockingStopped) -> None:
        while not stopped:
            stopped.wait(5)
        ends.append("thread")

    @operator.daemon(CONFIG, when=lambda config: config.metadata.name == "a")
    async def run_wait(config: Unstructured, ctx: Context) -> None:
        async with kopf_handlers.ObjectCall(config, ctx, kind) as call:
            await call.call("wait", wait, stopped=call.stopped)

    @operator.daemon(CONFIG, when=lambda config: config.metadata.name == "a")
    async def run_block(config: Unstructured, ctx: Context) -> None:
        async with kopf_handlers.ObjectCall(config, ctx, kind) as call:
            await call.call("block", block, stopped=call.blocking_stopped)

    async with envtest.Environment() as env, Cluster(env.config) as user:
        obj = await user.uncached.create(config_map())
        async with running(operator, env):
            await asyncio.sleep(30)
            assert ends == []
            await user.uncached.delete(obj)
            await asyncio.sleep(30)
            assert sorted(ends) == ["async", "thread"]


# ------------------------------------------------------------------ the record
def test_the_essence_has_no_system_fields() -> None:
    """Status, system metadata and the records of kopf operators do not count; extra fields do."""
    annotations = {HANDLED: "{}", "other.org/kopf-managed": "yes", "other.org/made": "{}", "mine": "1"}
    tree = {
        "apiVersion": "v1",
        "kind": "Site",
        "metadata": {"name": "a", "uid": "1", "labels": {"l": "1"}, "annotations": annotations},
        "spec": {"size": 1},
        "status": {"phase": "Ready", "other": 1},
    }
    common = {"spec": {"size": 1}, "metadata": {"labels": {"l": "1"}, "annotations": {"mine": "1"}}}
    assert essence_of(tree) == common
    assert essence_of(tree, ["status.phase", "status.missing"]) == {**common, "status": {"phase": "Ready"}}


def test_progress_is_read_from_annotations_and_the_status() -> None:
    """Progress is where kopf's storages keep it; a malformed one counts as none."""
    progress = {"started": "2026-01-01T00:00:00", "retries": 2, "success": False}
    names = KopfNames()
    status = {"metadata": {}, "status": {"kopf": {"progress": {"make": progress}}}}
    assert progress_of(status, "make", names).retries == 2
    annotated = {"metadata": {"annotations": {"kopf.zalando.org/make": json.dumps(progress)}}}
    assert progress_of(annotated, "make", names).retries == 2
    for text in ("{", "[]", '{"retries":"x"}', "null"):
        assert progress_of({"metadata": {"annotations": {"kopf.zalando.org/make": text}}}, "make", names) == (
            HandlerProgress()
        )


@pytest.mark.parametrize("text", ["[]", "1", "{", ""])
def test_a_record_must_be_an_object(text: str) -> None:
    """Everything else is an error that says what to do."""
    with pytest.raises(TerminalError, match="remove it"):
        last_handled({"metadata": {"annotations": {HANDLED: text}}}, KopfNames())


def test_differences_name_added_changed_and_removed_values() -> None:
    """Dicts are compared by member, lists as a whole."""
    old, new = {"a": 1, "b": {"c": [1]}, "gone": 0}, {"a": 1, "b": {"c": [2]}, "new": 0}
    assert [tuple(item) for item in differences(old, new)] == [
        ("change", ("b", "c"), [1], [2]),
        ("remove", ("gone",), 0, None),
        ("add", ("new",), None, 0),
    ]
    assert [tuple(item) for item in differences(None, new)] == [("add", (), None, new)]


def test_a_long_id_is_cut_with_a_digest() -> None:
    """The name part of an annotation has at most 63 characters."""
    key = KopfNames().annotation("x" * 80)
    assert len(key.partition("/")[2]) <= 63
    assert time_of("yesterday") is None
