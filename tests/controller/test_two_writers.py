"""One writer for each condition, finalizer and field: the reconciler wins, and a clash of declarations is an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from boxes import Box, BoxStatus, box, environment, records, running, writes
from hypothesis import given
from hypothesis import strategies as st

from opsdk import (
    BlockingContext,
    Client,
    Cluster,
    Condition,
    Context,
    ControllerOptions,
    Operator,
    OperatorOptions,
    Unstructured,
    UsageError,
    crd_for,
)
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.gvk import GroupKind, ObjectKey
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import deep_copy, to_dict
from opsdk.children.graph import ChildState
from opsdk.children.ordering import ChildIdentity
from opsdk.client.client import SubResourceClient
from opsdk.client.generated_blocking import BlockingSubResourceClient
from opsdk.client.patch import MergeFrom, json_patch, merge_patch
from opsdk.controller.progress import ChildRecord, Progress
from opsdk.controller.steps.condition_writer import is_own_text
from opsdk.recipes import set_condition

UNSTRUCTURED = unstructured_kind("tests.opsdk.dev/v1", "Box")


async def by_patch(obj: Any, ctx: Context) -> None:
    """The usual way."""
    async with ctx.status(obj) as patch:
        patch.set_condition("Ready", False, "PasswordMissing", "the Secret has no password")


async def by_recipe(obj: Any, ctx: Context) -> None:
    """The function for lists of conditions, and a status update."""
    if set_condition(obj.status.conditions, "Ready", False, "PasswordMissing", observed_generation=1):
        await ctx.client.status().update(obj)


async def by_list(obj: Any, ctx: Context) -> None:
    """A new list for each pass."""
    time = obj.metadata.creation_timestamp
    async with ctx.status(obj) as patch:
        own = Condition(type="Ready", status="False", reason="PasswordMissing", last_transition_time=time)
        patch.status.conditions = [*(c for c in patch.status.conditions if c.type != "Ready"), own]


async def by_thread(obj: Any, ctx: Context) -> None:
    """In a thread, as plain reconcilers run."""
    async with ctx.status(obj) as patch:
        await asyncio.to_thread(patch.set_condition, "Ready", False, "PasswordMissing", "the Secret has no password")


async def by_dict(obj: Any, ctx: Context) -> None:
    """A class without a schema."""
    async with ctx.status(obj) as patch:
        patch.set_condition("Ready", False, "PasswordMissing", "the Secret has no password")


NOT_READY = {
    "type": "Ready",
    "status": "False",
    "reason": "PasswordMissing",
    "message": "the Secret has no password",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def raw(obj: Any) -> dict[str, Any]:
    """The status with the condition as a tree."""
    return {"apiVersion": "tests.opsdk.dev/v1", "kind": "Box", "metadata": {"name": obj.metadata.name}} | {
        "status": {"size": 1, "conditions": [NOT_READY]}
    }


def whole(obj: Any) -> Unstructured:
    """The object as a tree, with another status."""
    tree = to_dict(obj)
    return Unstructured.from_tree({**tree, "status": raw(obj)["status"]})


async def by_merge_patch(obj: Any, ctx: Context) -> None:
    """A raw merge patch."""
    await ctx.client.status().patch(obj, merge_patch({"status": raw(obj)["status"]}))


async def by_json_patch(obj: Any, ctx: Context) -> None:
    """A raw JSON patch of the whole status."""
    await ctx.client.status().patch(obj, json_patch([{"op": "add", "path": "/status", "value": raw(obj)["status"]}]))


async def by_json_patch_of_an_item(obj: Any, ctx: Context) -> None:
    """A raw JSON patch of one item, after the list is there."""
    if obj.status is None or not obj.status.conditions:
        await by_json_patch(obj, ctx)
        return
    operation = {"op": "replace", "path": "/status/conditions/0", "value": NOT_READY}
    await ctx.client.status().patch(obj, json_patch([operation]))


async def by_merge_from(obj: Any, ctx: Context) -> None:
    """The difference to a copy."""
    base = deep_copy(obj)
    obj.status = msgspec.convert(raw(obj)["status"], BoxStatus)
    await ctx.client.status().patch(obj, MergeFrom(base))


async def by_typed_update(obj: Any, ctx: Context) -> None:
    """An update of the whole status."""
    obj.status = msgspec.convert(raw(obj)["status"], BoxStatus)
    await ctx.client.status().update(obj)


async def by_unstructured_update(obj: Any, ctx: Context) -> None:
    """An update of the whole status as a tree."""
    await ctx.client.status().update(whole(obj))


async def by_apply(obj: Any, ctx: Context) -> None:
    """A server-side apply of the status."""
    tree = raw(obj)
    tree["metadata"]["namespace"] = "default"
    await ctx.client.status().apply(Unstructured.from_tree(tree), field_owner="me", force=True)


async def by_body(obj: Any, ctx: Context) -> None:
    """An update whose body is another object."""
    await ctx.client.status().update(obj, whole(obj))


async def by_uncached_client(obj: Any, ctx: Context) -> None:
    """The client that reads from the server."""
    await ctx.cluster.uncached.status().patch(obj, merge_patch({"status": raw(obj)["status"]}))


RAW_WAYS = [
    by_merge_patch,
    by_json_patch,
    by_json_patch_of_an_item,
    by_merge_from,
    by_typed_update,
    by_unstructured_update,
    by_apply,
    by_body,
    by_uncached_client,
]


def test_the_ways_of_writing_a_status_are_all_of_the_client() -> None:
    """The tests know each method of a subresource that writes, so a new one needs a test."""
    verbs = {name for name in vars(SubResourceClient) if not name.startswith("_")}
    assert verbs == {"get", "create", "update", "patch", "apply"}
    assert {name for name in dir(BlockingSubResourceClient) if not name.startswith("_")} >= verbs


async def reasons(client: Client) -> dict[str, str]:
    """The reasons of the conditions of box a."""
    status = (await client.get(Box, "default/a")).status
    return {c.type: c.reason for c in status.conditions} if status is not None else {}


WAYS = [by_patch, by_recipe, by_list, by_thread, by_dict]


@pytest.mark.parametrize("set_ready", WAYS)
@pytest.mark.parametrize("other", ["", "Stalled"])
async def test_the_reconciler_wins(set_ready: Callable[[Any, Context], Awaitable[None]], other: str) -> None:
    """A condition that the reconciler sets in a pass stays, does not flap, and costs no write at rest."""
    operator = Operator("boxes")
    options = ControllerOptions(ready_condition="Ready", error_condition=other)

    async def reconcile(obj: Box, ctx: Context) -> None:
        if set_ready is by_recipe and obj.status is None:
            async with ctx.status(obj):
                return
        await set_ready(obj, ctx)

    async def reconcile_dict(obj: Unstructured, ctx: Context) -> None:
        await set_ready(obj, ctx)

    if set_ready is by_dict:
        operator.reconciler(UNSTRUCTURED, options=options)(reconcile_dict)
    else:
        operator.reconciler(Box, options=options)(reconcile)
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        for number in range(4):
            await client.patch(box(), merge_patch({"metadata": {"labels": {"size": str(number)}}}))
            await asyncio.sleep(5)
            if number == 0:  # some ways need a status to begin with
                continue
            assert (await reasons(client))["Ready"] == "PasswordMissing"
            assert writes(records(operator)[-1]) == []


@pytest.mark.parametrize("write", RAW_WAYS)
@pytest.mark.parametrize("blocking", [False, True])
async def test_a_raw_write_of_the_reconciler_wins(
    write: Callable[[Any, Context], Awaitable[None]], blocking: bool
) -> None:
    """A condition in a request of the reconciler stays and does not flap, also where the request changes nothing."""
    operator = Operator("boxes")
    options = ControllerOptions(ready_condition="Ready", error_condition="Stalled")

    async def reconcile(obj: Box, ctx: Context) -> None:
        await write(obj, ctx)

    def reconcile_in_thread(obj: Box, ctx: BlockingContext) -> None:
        ctx.run(write(obj, ctx.target))

    operator.reconciler(Box, options=options)(reconcile_in_thread if blocking else reconcile)
    async with running(operator) as client:
        await client.create(box())
        reasons_shown = set()
        for number in range(4):
            await client.patch(box(), merge_patch({"metadata": {"labels": {"size": str(number)}}}))
            for _ in range(10):
                await asyncio.sleep(0.5)
                reasons_shown.add((await reasons(client)).get("Ready"))
        assert reasons_shown - {None} == {"PasswordMissing"}
        assert len(records(operator)) < 10


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("PasswordMissing", "the Secret has no password"),
        # Reasons of opsdk, with a message of the reconciler.
        ("Waiting", "no quota is left"),
        ("Ready", "serves 3 hosts"),
        ("ChildFailed", "The child of a neighbour failed"),
    ],
)
async def test_a_new_process_keeps_a_raw_condition(reason: str, message: str) -> None:
    """After a restart, a condition that the reconciler writes again without a change is still its own."""
    condition = {**NOT_READY, "reason": reason, "message": message}
    async with environment.Environment(crds=[crd_for(Box)]) as env, Cluster(env.config) as outside:
        client = outside.uncached
        await client.create(box())
        messages = set()
        for _ in range(2):
            operator = Operator("boxes")
            operator.reconciler(Box, options=ControllerOptions(ready_condition="Ready"))(_raw_reconciler(condition))
            task = asyncio.create_task(operator.start(env.config))
            for _ in range(20):
                await asyncio.sleep(0.2)
                status = to_dict(await client.get(UNSTRUCTURED, "default/a")).get("status") or {}
                messages |= {each["message"] for each in status.get("conditions", ()) if each["type"] == "Ready"}
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert messages == {message}


def _raw_reconciler(condition: dict[str, Any]) -> Any:
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.client.status().patch(obj, merge_patch({"status": {"conditions": [condition]}}))

    return reconcile


RECORDS = st.builds(
    ChildRecord,
    name=st.sampled_from(["ConfigMap default/a", "Namespace a", "ClusterRole system:a", "bucket", "dns_record"]),
    state=st.sampled_from([ChildState.WAITING, ChildState.FAILED, ChildState.DELETING, ChildState.PENDING]).map(
        lambda state: state.value
    ),
    message=st.text(max_size=20),
)


@given(st.lists(RECORDS, max_size=9))
def test_each_text_of_opsdk_is_known_as_its_own(children: list[ChildRecord]) -> None:
    """Whatever the children are, a process recognises the condition that a former one wrote."""
    progress = Progress()
    for number, record in enumerate(children):
        progress.record(ChildIdentity(GroupKind("", "X"), ObjectKey("default", str(number))), record)
    verdict = progress.verdict()
    assert is_own_text(verdict.reason, verdict.message)


async def test_a_list_that_carries_the_condition_of_opsdk_says_nothing() -> None:
    """A raw write of another condition has that of opsdk in its list: opsdk still writes its own."""
    operator = Operator("boxes")

    @operator.reconciler(Box, options=ControllerOptions(ready_condition="Ready", error_condition="Stalled"))
    async def reconcile(obj: Box, ctx: Context) -> None:
        other = {**NOT_READY, "type": "Other", "reason": f"Size{obj.spec.size}"}
        others = [item for item in (to_dict(obj).get("status") or {}).get("conditions", []) if item["type"] != "Other"]
        await ctx.client.status().patch(obj, merge_patch({"status": {"conditions": [*others, other]}}))
        if obj.spec.size == 2:
            raise OSError("no route")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert await reasons(client) == {"Other": "Size1", "Ready": "Ready"}
        for size, ready in ((2, "OSError"), (3, "Ready"), (2, "OSError")):
            await client.patch(box(), merge_patch({"spec": {"size": size}}))
            await asyncio.sleep(5)
            conditions = await reasons(client)
            assert (conditions["Other"], conditions["Ready"]) == (f"Size{size}", ready)


async def test_a_reconciler_that_says_nothing_leaves_the_condition_to_opsdk() -> None:
    """A later pass without the condition gets that of opsdk; another condition of the reconciler changes nothing."""
    operator = Operator("boxes")

    @operator.reconciler(Box, options=ControllerOptions(ready_condition="Ready"))
    async def reconcile(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.set_condition("Other", True, "Fine")
            if obj.spec.size == 1:
                patch.set_condition("Ready", False, "PasswordMissing")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert await reasons(client) == {"Other": "Fine", "Ready": "PasswordMissing"}
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(5)
        assert await reasons(client) == {"Other": "Fine", "Ready": "Ready"}


async def test_an_error_condition_of_the_reconciler_wins() -> None:
    """A reconciler that sets the condition for errors itself keeps it after a success and after a failure."""
    operator = Operator("boxes")
    failing = False

    @operator.reconciler(Box, options=ControllerOptions(error_condition="Stalled"))
    async def reconcile(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.set_condition("Stalled", True, "WaitsForUser")
        if failing:
            raise OSError("no route")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert await reasons(client) == {"Stalled": "WaitsForUser"}
        failing = True
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(5)
        assert await reasons(client) == {"Stalled": "WaitsForUser"}


@pytest.mark.slow
async def test_a_daemon_writes_no_condition_of_the_operator() -> None:
    """The controller of a daemon has no part in the conditions that the options of the operator ask for."""
    options = ControllerOptions(ready_condition="Ready", error_condition="Stalled")
    operator = Operator("boxes", OperatorOptions(controller=options))

    @operator.daemon(Box)
    async def watch(obj: Box, ctx: Any) -> None:
        await asyncio.sleep(1e6)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert await reasons(client) == {}


async def keep(obj: Box, ctx: Context) -> None:
    """A finalizer, or a reconciler."""


CLASHES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"options": ControllerOptions(ready_condition="Ready")},
        {"options": ControllerOptions(ready_condition="Ready")},
        "one and two both write the condition 'Ready' of Box",
    ),
    (
        {"options": ControllerOptions(ready_condition="Ready")},
        {"options": ControllerOptions(error_condition="Ready")},
        "one and two both write the condition 'Ready' of Box",
    ),
    (
        {"finalizers": {"example.com/a": keep}},
        {"finalizers": {"example.com/b": keep, "example.com/a": keep}},
        "one and two both write the finalizer 'example.com/a' of Box",
    ),
]


@pytest.mark.parametrize(("first", "second", "message"), CLASHES)
def test_two_controllers_of_a_kind_do_not_share(first: dict[str, Any], second: dict[str, Any], message: str) -> None:
    """Two controllers that write one condition or one finalizer are an error with file and line."""
    operator = Operator("boxes")
    operator.reconciler(Box, name="one", **first)(keep)
    with pytest.raises(UsageError, match=message) as error:
        operator.reconciler(Box, name="two", **second)(keep)
    assert str(error.value).startswith(f"{Path(__file__)}:")
    operator.reconciler(Box, name="three")(keep)


def test_the_finalizer_of_opsdk_is_its_own() -> None:
    """A finalizer with the name of opsdk's own one for children is an error."""
    operator = Operator("boxes")
    with pytest.raises(UsageError, match="opsdk adds the finalizer"):
        operator.reconciler(
            Box,
            name="one",
            owns=[ConfigMap],
            finalizers={"opsdk.dev/boxes.one": keep},
            options=ControllerOptions(delete_in_reverse=True),
        )(keep)
