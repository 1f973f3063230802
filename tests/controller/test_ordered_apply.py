"""Children with an order: the wait until they are ready, its condition, and what resumes it."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from boxes import Box, box, records, running, writes

from opsdk import (
    Client,
    Condition,
    Context,
    ControllerOptions,
    ObjectMeta,
    Operator,
    Request,
    Result,
    Unstructured,
    UsageError,
)
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core.v1 import ConfigMap, Container, PodSpec, PodTemplateSpec
from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.object import to_dict
from opsdk.children.ordering import Child
from opsdk.children.readiness import judge_ready
from opsdk.client.patch import merge_patch
from opsdk.errors import NotReadyError
from opsdk.recipes.summaries import SummaryState

READY = ControllerOptions(ready_condition="Ready")


def config(name: str, **data: str) -> ConfigMap:
    """Return a child that a test makes ready by its data."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


def deployment(name: str) -> Deployment:
    """Return a Deployment of one replica."""
    labels = {"app": name}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="c", image="i")])
    )
    spec = DeploymentSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template)
    return Deployment(metadata=ObjectMeta(name=name), spec=spec)


async def ready_condition(client: Client) -> Condition | None:
    """Return the condition Ready of box a."""
    status = (await client.get(Box, "default/a")).status
    return next((c for c in status.conditions if c.type == "Ready"), None) if status else None


async def make_available(client: Client, name: str, *, observed: bool = True) -> None:
    """Write the status of a Deployment as its controller would."""
    live = await client.get(Deployment, f"default/{name}")
    status = {
        "observedGeneration": live.metadata.generation if observed else 0,
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
    }
    await client.status().patch(live, merge_patch({"status": status}))


async def say_up(client: Client, name: str) -> None:
    """Make a ConfigMap ready."""
    await client.patch(config(name), merge_patch({"data": {"state": "up"}}))


UP = "has(self.data.state) && self.data.state == 'up'"


# ------------------------------------------------------------------ one child
async def test_a_child_of_a_list_is_judged_by_its_kind() -> None:
    """The items of a list have neither apiVersion nor kind; the object that was decoded from one has both."""
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    tree = {**to_dict(deployment("db")), "status": {"observedGeneration": 1, **counts}}
    item = json.dumps({key: tree[key] for key in ("metadata", "spec", "status")})
    listed = decode(item.encode(), kind_of(Deployment))
    for ready in (True, "self.apiVersion == 'apps/v1' && self.kind == 'Deployment'"):
        assert judge_ready(listed, ready).state is SummaryState.CURRENT


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, "in progress: its controller has set no condition yet"),
        ({"conditions": []}, "in progress: its controller has set no condition yet"),
        ({"conditions": [{"type": "Ready", "status": "False", "reason": "R"}]}, "in progress: R"),
        ({"conditions": [{"type": "Ready", "status": "True", "reason": "R"}]}, "current"),
        ({"conditions": [{"type": "Seen", "status": "True", "reason": "R"}]}, "current"),
    ],
)
def test_a_custom_resource_whose_class_has_conditions_needs_one(status: Any, expected: str) -> None:
    """A new Certificate is not ready before its controller has seen it; kstatus calls it current."""
    tree = {**to_dict(box()), "status": status}
    assert str(judge_ready(decode(json.dumps(tree).encode(), kind_of(Box)), True)) == expected
    assert judge_ready(Unstructured.from_tree({**tree, "status": None}), True).state is SummaryState.CURRENT
    deleted = {**tree, "metadata": {**tree["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert judge_ready(decode(json.dumps(deleted).encode(), kind_of(Box)), True).state is SummaryState.TERMINATING


async def test_a_child_that_is_not_ready_ends_the_reconcile_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """No error, no retry: a condition and the journal say what it waits for, and the child's event resumes it."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[Deployment, ConfigMap], options=READY)
    async def reconcile(obj: Box, ctx: Context) -> None:
        db = await ctx.apply(deployment("db"), ready=True)
        assert db.status is not None
        assert db.status.available_replicas == 1
        await ctx.apply(config("web", url=db.metadata.name))

    with caplog.at_level(logging.INFO, logger="opsdk"):
        async with running(operator) as client:
            await client.create(box())
            await asyncio.sleep(300)
            # The child's creation is an event of its own, which finds the same state.
            assert [record.result for record in records(operator)] == ["waiting", "waiting"]
            assert writes(records(operator)[0]) == ["apply", "patch status"]
            assert writes(records(operator)[1]) == []
            expected = "Deployment default/db: the controller has not observed it yet"
            assert records(operator)[0].detail == expected
            condition = await ready_condition(client)
            assert condition is not None
            assert (condition.status, condition.reason, condition.message) == ("False", "Waiting", expected)
            assert condition.observed_generation == 1
            assert await client.get_or_none(ConfigMap, "default/web") is None
            await make_available(client, "db")
            await asyncio.sleep(1)
            assert await client.get_or_none(ConfigMap, "default/web") is not None
            condition = await ready_condition(client)
            assert condition is not None
            assert (condition.status, condition.reason, condition.message) == (
                "True",
                "Ready",
                "1 of 1 children are ready",
            )
            await asyncio.sleep(300)
            assert writes(records(operator)[-1]) == []
            assert all(record.attempt == 0 for record in records(operator))
    assert not [line for line in caplog.records if line.levelno >= logging.WARNING and line.name != "opsdk.apiserver"]


def answer(obj: ConfigMap) -> bool:
    """Return whether a ConfigMap is up."""
    return obj.data.get("state") == "up"


@pytest.mark.parametrize(
    ("ready", "message"),
    [
        (UP, "ConfigMap default/db: has(self.data.state) && self.data.state == 'up' is false"),
        ("self.data.state == 'up'", "ConfigMap default/db: self.data.state == 'up': no such key: state"),
        (answer, "ConfigMap default/db: answer returned False"),
    ],
)
async def test_an_expression_or_a_function_decides(ready: Any, message: str) -> None:
    """A child is ready when its CEL expression is true, or when the function returns True."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply(config("db", size="1"), ready=ready)
        await ctx.apply(config("web"))

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert records(operator)[-1].detail == message
        await say_up(client, "db")
        await asyncio.sleep(1)
        assert await client.get_or_none(ConfigMap, "default/web") is not None
        assert records(operator)[-1].result == "success"


async def test_a_spec_that_is_not_observed_is_not_ready() -> None:
    """An expression over the status of the last generation does not count for the new one."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[Deployment])
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply(deployment("db"), ready="self.status.availableReplicas == 1")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await make_available(client, "db")
        await asyncio.sleep(1)
        assert records(operator)[-1].result == "success"
        live = await client.get(Deployment, "default/db")
        await client.patch(live, merge_patch({"spec": {"minReadySeconds": 1}}))
        await asyncio.sleep(1)
        assert records(operator)[-1].detail == "Deployment default/db: generation 2 is not observed yet, only 1"


async def test_a_failed_child_has_a_reason_of_its_own() -> None:
    """The condition tells a child that failed from one that only takes time."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[Deployment], options=READY)
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply(deployment("db"), ready=True)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        live = await client.get(Deployment, "default/db")
        failure = {"type": "ReplicaFailure", "status": "True", "reason": "Quota", "message": "exceeded quota"}
        status = {"observedGeneration": 1, "conditions": [failure]}
        await client.status().patch(live, merge_patch({"status": status}))
        await asyncio.sleep(1)
        condition = await ready_condition(client)
        assert condition is not None
        assert (condition.reason, condition.message) == ("ChildFailed", "Deployment default/db: exceeded quota")
        assert records(operator)[-1].result == "waiting"


# ------------------------------------------------------------------ user code around the wait
async def _swallow(ctx: Context) -> None:
    try:
        await ctx.apply(config("db"), ready=UP)
    except Exception:  # noqa: BLE001 - what a test is about
        raise AssertionError("caught") from None


async def _catch_on_purpose(ctx: Context) -> None:
    try:
        await ctx.apply(config("db"), ready=UP)
    except NotReadyError:
        await ctx.apply(config("other"))


async def _in_a_task_group(ctx: Context) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.apply(config("db"), ready=UP))
        group.create_task(ctx.apply(config("db2"), ready=UP))


async def _gathered(ctx: Context) -> None:
    await asyncio.gather(ctx.apply(config("db"), ready=UP), ctx.apply(config("other")))


async def _in_a_status_block(ctx: Context) -> None:
    async with ctx.status(ctx.object) as patch:
        patch.status.size = 7
        await ctx.apply(config("db"), ready=UP)


@pytest.mark.parametrize("step", [_swallow, _catch_on_purpose, _in_a_task_group, _gathered, _in_a_status_block])
async def test_the_wait_survives_user_code(step: Any) -> None:
    """User code around an apply does not lose its wait: the condition is written, and the reconcile resumes."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap], options=READY)
    async def reconcile(obj: Box, ctx: Context) -> None:
        await step(ctx)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert {record.result for record in records(operator)} == {"waiting"}
        condition = await ready_condition(client)
        assert condition is not None
        assert condition.reason == "Waiting"
        obj = await client.get(Box, "default/a")
        assert obj.status is not None
        assert obj.status.size == 0  # a block that raises writes nothing
        for name in ("db", "db2", "other"):
            if await client.get_or_none(ConfigMap, f"default/{name}") is not None:
                await say_up(client, name)
        await asyncio.sleep(5)
        assert records(operator)[-1].result == "success"


async def test_a_failure_beside_a_wait_is_a_failure() -> None:
    """A group with an error and a wait fails with the error alone, and is retried."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        raise BaseExceptionGroup("both", [NotReadyError("db"), ValueError("broken")])

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        last = records(operator)[-1]
        assert last.result == "error"
        assert "broken" in last.detail
        assert "NotReadyError" not in last.detail


async def test_a_failure_keeps_ready_for_the_same_generation() -> None:
    """A passing error does not make a ready object unready; one that never was ready says why."""
    operator = Operator("boxes")
    broken = True

    @operator.reconciler(Box, options=ControllerOptions(ready_condition="Ready", max_interval=10))
    async def reconcile(obj: Box) -> None:
        if broken:
            raise OSError("no route")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        condition = await ready_condition(client)
        assert condition is not None
        assert (condition.status, condition.reason, condition.message) == ("False", "OSError", "no route")
        broken = False
        await asyncio.sleep(20)
        condition = await ready_condition(client)
        assert condition is not None
        assert (condition.status, condition.message) == ("True", "the last reconcile succeeded")
        broken = True
        await asyncio.sleep(20)
        condition = await ready_condition(client)
        assert condition is not None
        assert condition.status == "True"
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(20)
        condition = await ready_condition(client)
        assert condition is not None
        assert (condition.status, condition.observed_generation) == ("False", 2)


async def test_a_failure_before_the_children_are_checked_is_not_ready() -> None:
    """A failed pass keeps the condition only if it has found each child ready that the condition counts."""
    operator = Operator("boxes")
    fails_after: int | None = None

    @operator.reconciler(Box, owns=[ConfigMap], options=ControllerOptions(ready_condition="Ready", max_interval=10))
    async def reconcile(obj: Box, ctx: Context) -> None:
        for number, name in enumerate(("a", "b", "")):
            if number == fails_after:
                raise OSError("no route")
            if name:
                await ctx.apply(config(name), ready=UP)

    async with running(operator) as client:
        await client.create(box())
        for name in ("a", "b"):
            await asyncio.sleep(1)
            await say_up(client, name)
        conditions = []
        for number in (None, 2, 1, None, 0):
            fails_after = number
            await asyncio.sleep(70)
            condition = await ready_condition(client)
            assert condition is not None
            conditions.append((condition.status, condition.message))
    ready = ("True", "2 of 2 children are ready")
    assert conditions == [ready, ready, ("False", "no route"), ready, ("False", "no route")]


async def test_a_finalizer_may_wait_for_a_child() -> None:
    """A finalizer that applies a job keeps the object until the job is done."""
    operator = Operator("boxes")

    async def clean_up(obj: Box, ctx: Context) -> None:
        await ctx.apply(config("cleanup"), ready=UP)

    @operator.reconciler(Box, owns=[ConfigMap], finalizers={"tests.opsdk.dev/clean": clean_up}, options=READY)
    async def reconcile(obj: Box, ctx: Context) -> None: ...

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(box())
        await asyncio.sleep(60)
        assert records(operator)[-1].result == "waiting"
        condition = await ready_condition(client)
        assert condition is not None
        assert condition.reason == "Waiting"
        await say_up(client, "cleanup")
        await asyncio.sleep(1)
        assert await client.get_or_none(Box, "default/a") is None


async def test_a_longest_interval_holds_while_a_child_is_not_ready() -> None:
    """`max_interval` reconciles a waiting object too, so a function that looks elsewhere is asked again."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap], options=ControllerOptions(max_interval=10))
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply(config("db"), ready=lambda _: asyncio.get_running_loop().time() > 60)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(100)
        assert records(operator)[-1].result == "success"


async def test_a_result_beside_a_wait_is_kept() -> None:
    """A reconciler that catches the wait may still ask for a time."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> Result | None:
        try:
            await ctx.apply(config("db"), ready=UP)
        except NotReadyError:
            return Result(requeue_after=10)
        return None

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(95)
        assert 9 <= len(records(operator)) <= 12


# ------------------------------------------------------------------ sets
async def test_children_of_a_set_are_applied_in_order_and_in_parallel() -> None:
    """A diamond: both sides start together, and the last one when both are ready. Then nothing is sent."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap], options=READY)
    async def reconcile(obj: Box, ctx: Context) -> None:
        root, west, east, last = (config(name) for name in ("root", "west", "east", "last"))
        live = await ctx.apply_all(
            [
                Child(last, after=[west, east]),
                Child(west, after=[root], ready=UP),
                Child(east, after=[root], ready=UP),
                Child(root, ready=UP),
            ]
        )
        assert [member.metadata.name for member in live] == ["last", "west", "east", "root"]

    async def names() -> set[str]:
        maps = await client.list(ConfigMap, namespace="default")
        return {m.metadata.name for m in maps} & {"root", "west", "east", "last"}

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        assert await names() == {"root"}
        assert [(r.name, r.state) for r in records(operator)[-1].children] == [
            ("ConfigMap default/root", "waiting"),
            ("ConfigMap default/last", "pending"),
            ("ConfigMap default/west", "pending"),
            ("ConfigMap default/east", "pending"),
        ]
        await say_up(client, "root")
        await asyncio.sleep(1)
        assert await names() == {"root", "west", "east"}
        await say_up(client, "west")
        await asyncio.sleep(1)
        assert await names() == {"root", "west", "east"}
        condition = await ready_condition(client)
        assert condition is not None
        assert condition.message == f"ConfigMap default/east: {UP}: no such key: data; 1 child comes after"
        await say_up(client, "east")
        await asyncio.sleep(1)
        assert await names() == {"root", "west", "east", "last"}
        condition = await ready_condition(client)
        assert condition is not None
        assert condition.message == "3 of 3 children are ready"
        before = len(records(operator))
        await asyncio.sleep(600)
        assert len(records(operator)) == before


async def test_a_failure_stops_only_what_comes_after_it() -> None:
    """The other branch is applied; two failures are a group."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        bad, bad2, good = config("Not_A_Name"), config("Also_Not"), config("good")
        await ctx.apply_all([bad, bad2, Child(config("late"), after=[bad]), good, Child(config("next"), after=[good])])

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        maps = {m.metadata.name for m in await client.list(ConfigMap, namespace="default")}
        assert {"good", "next"} <= maps
        assert "late" not in maps
        last = records(operator)[-1]
        assert last.result == "error"
        states = {child.name.partition("/")[2]: child.state for child in last.children}
        assert states == {
            "Not_A_Name": "failed",
            "Also_Not": "failed",
            "good": "applied",
            "next": "applied",
            "late": "pending",
        }


async def test_a_set_prunes_when_its_children_are_ready() -> None:
    """A former child goes after its successor is ready, not before."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply_all([Child(config(f"v{obj.spec.size}"), ready=UP)], prune=[ConfigMap])

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await say_up(client, "v1")
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(1)
        assert await client.get_or_none(ConfigMap, "default/v1") is not None
        await say_up(client, "v2")
        await asyncio.sleep(1)
        assert await client.get_or_none(ConfigMap, "default/v1") is None


async def test_after_names_what_was_applied_before() -> None:
    """A child of `ctx.apply` waits for those that it names, also where the wait of one was caught."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        db = config("db")
        try:
            await ctx.apply(db, ready=UP)
        except NotReadyError:
            await ctx.apply(config("free"))
        await ctx.apply(config("web"), after=[db])

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        assert await client.get_or_none(ConfigMap, "default/free") is not None
        assert await client.get_or_none(ConfigMap, "default/web") is None
        web = records(operator)[-1].children[-1]
        assert (web.name, web.state, web.after) == ("ConfigMap default/web", "pending", ("ConfigMap default/db",))
        await say_up(client, "db")
        await asyncio.sleep(1)
        assert await client.get_or_none(ConfigMap, "default/web") is not None


# ------------------------------------------------------------------ wrong values
async def _async_ready(_: Any) -> bool:
    return True


def _none_ready(_: Any) -> Any:
    return None


A, B = config("a"), config("b")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda ctx: ctx.apply(A, ready="self.x ="), "ready of ConfigMap default/a is not a CEL expression"),
        (lambda ctx: ctx.apply(A, ready="1 + 1"), "is not a CEL expression with a bool: its type is int"),
        (lambda ctx: ctx.apply(A, ready=3), "ready of ConfigMap default/a is 3: write True, a CEL expression, or"),
        (lambda ctx: ctx.apply(A, ready=_async_ready), "ready function of ConfigMap default/a is async"),
        (lambda ctx: ctx.apply(A, ready=_none_ready), "ready function _none_ready returned None: return True or False"),
        (lambda ctx: ctx.apply(deployment("x"), ready=True), r"resume the reconcile: add owns=\[Deployment\]"),
        (lambda ctx: ctx.apply(A, after=[B]), "has not applied: apply ConfigMap default/b before it"),
        (lambda ctx: ctx.apply(A, after=B), r"after of ConfigMap default/a is .*: write a list of children, after=\["),
        (lambda ctx: ctx.apply(A, after=["b"]), "'b' is not a child: pass an object"),
        (lambda ctx: ctx.apply_all([Child(A), A]), "ConfigMap default/a is in the set twice"),
        (lambda ctx: ctx.apply_all([Child(A, after=[B])]), "comes after ConfigMap default/b, which is not in the set"),
        (
            lambda ctx: ctx.apply_all([Child(A, after=[B]), Child(B, after=[A])]),
            "the order of the children is a cycle: ConfigMap default/. after",
        ),
        (lambda ctx: ctx.apply_all([Child(Child(A))]), "is a Child already: pass its object"),
        (lambda ctx: ctx.apply_all([Child("a")]), "'a' is not a child: pass an object"),
    ],
)
async def test_a_wrong_order_is_refused(step: Any, message: str) -> None:
    """Each wrong value is a `UsageError` that says what to write."""
    operator = Operator("boxes")
    errors: list[UsageError] = []

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        with pytest.raises(UsageError, match=message) as raised:
            await step(ctx)
        errors.append(raised.value)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
    assert errors


def invalid(**options: Any) -> Any:
    """Return a function that makes the options."""
    return lambda: ControllerOptions(**options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (invalid(ready_condition="not good"), "ready_condition is 'not good': name a condition"),
        (invalid(ready_condition=True), "ready_condition is True: name a condition"),
        (invalid(ready_condition="Up", error_condition="Up"), "error_condition and ready_condition are both 'Up'"),
    ],
)
def test_a_wrong_condition_is_refused(make: Any, message: str) -> None:
    """The options refuse it where they are made."""
    with pytest.raises(UsageError, match=message):
        make()


def test_a_ready_condition_needs_conditions() -> None:
    """A kind without conditions, or no kind, is refused with file and line."""
    operator = Operator("boxes")
    with pytest.raises(UsageError, match=r"test_ordered_apply.py:\d+: ready_condition='Ready' needs conditions in"):

        @operator.reconciler(ConfigMap, options=READY)
        async def maps(obj: ConfigMap) -> None: ...

    with pytest.raises(UsageError, match=r"test_ordered_apply.py:\d+: ready_condition needs a reconciled kind"):

        @operator.reconciler(name="kindless", options=READY)
        async def kindless(request: Request) -> None: ...
