"""A reconciler's context, its status patches and its finalizers, against the embedded server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from boxes import Box, BoxSpec, BoxStatus, box, records, running, writes
from client_fakes import Site, SiteStatus, site
from msgspec import field

from opsdk import (
    Condition,
    Context,
    GroupVersionKind,
    MergeFrom,
    Model,
    Object,
    ObjectMeta,
    Operator,
    Request,
    Result,
    Unstructured,
    UsageError,
)
from opsdk.aio.clock import utc_now
from opsdk.api.apps.v1 import Deployment, DeploymentCondition
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import deep_copy
from opsdk.children.drift import Drift
from opsdk.client.patch import merge_patch
from opsdk.controller.options import ControllerOptions
from opsdk.event.predicates import matches_labels, on

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


# ------------------------------------------------------------------ status
async def test_a_status_is_written_once_and_only_with_its_difference() -> None:
    """The first reconcile writes it with time and generation; later ones send nothing."""
    operator = Operator("boxes")
    runs = 0

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> Result:
        nonlocal runs
        runs += 1
        async with ctx.status(obj) as patch:
            patch.status.size = obj.spec.size
            changed = patch.set_condition("Ready", True, "Fits", "it fits")
        assert changed == (runs == 1)
        return Result(requeue_after=60)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        first = await client.get(Box, "default/a")
        assert first.status is not None
        assert (first.status.size, first.status.observed_generation) == (1, 1)
        (condition,) = first.status.conditions
        assert (condition.status, condition.reason, condition.observed_generation) == ("True", "Fits", 1)
        await asyncio.sleep(600)
        assert runs > 5
        assert (await client.get(Box, "default/a")).metadata.resource_version == first.metadata.resource_version
        assert [writes(record) for record in records(operator)][:3] == [["patch status"], [], []]


async def test_a_block_that_raises_writes_nothing() -> None:
    """The status is as it was, and the exception is the reconcile's."""
    operator = Operator("boxes")

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.status.size = 7
            raise ValueError("mine")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        assert (await client.get(Box, "default/a")).status is None
        first = records(operator)[0]
        assert (first.result, writes(first)) == ("error", [])
        assert "mine" in first.detail


async def test_a_changed_list_conflicts_instead_of_replacing_another_writers_items() -> None:
    """A condition that another writer adds between read and write stays: the patch conflicts and is retried."""
    operator = Operator("boxes")
    interfere: list[Callable[[], Any]] = []

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.set_condition("Ready", True, "Fits")
            if interfere:
                await interfere.pop()()

    async with running(operator) as client:

        async def add_foreign() -> None:
            obj = await client.get(Box, "default/a")
            before = deep_copy(obj)
            obj.status = BoxStatus(
                conditions=[Condition(type="Foreign", status="True", reason="Other", last_transition_time=utc_now())]
            )
            await client.status().patch(obj, MergeFrom(before))

        interfere.append(add_foreign)
        await client.create(box())
        await asyncio.sleep(5)
        obj = await client.get(Box, "default/a")
        assert obj.status is not None
        assert {c.type for c in obj.status.conditions} == {"Ready", "Foreign"}
        assert [r.status for r in records(operator)[0].requests if r.verb == "patch"] == [200, 409]


async def test_the_status_of_unstructured_and_built_in_objects() -> None:
    """Unstructured objects get conditions as JSON; a built-in status is written without conditions of our class."""
    operator = Operator("boxes")

    @operator.reconciler(unstructured_kind("tests.opsdk.dev/v1", "Box"), name="trees")
    async def trees(obj: Unstructured, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.status["size"] = 3
            patch.set_condition("Ready", False, "Small")
            assert patch.get_condition("Ready") is not None

    @operator.reconciler(Deployment)
    async def deployments(obj: Deployment, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.status.replicas = 2
            patch.status.conditions = [DeploymentCondition(type="Available", status="True")]
            with pytest.raises(UsageError, match="are not of opsdk's class Condition"):
                patch.set_condition("Ready", True, "No")

    async with running(operator) as client:
        await client.create(box())
        tree = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        }
        await client.create(Unstructured.from_tree(tree))
        await asyncio.sleep(1)
        status = (await client.get(Box, "default/a")).status
        assert status is not None
        assert (status.size, status.conditions[0].reason) == (3, "Small")
        assert (await client.get(Deployment, "default/web")).status.replicas == 2


# ------------------------------------------------------------------ apply and events
async def test_children_are_owned_and_live_in_the_owners_namespace() -> None:
    """apply() sets the owner and the namespace; owner=None sets the namespace only."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="child"), data={"size": str(obj.spec.size)}))
        free = ConfigMap(metadata=ObjectMeta(name="free", namespace="kube-system"), data={})
        await ctx.apply(free, owner=None)
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="near"), data={}), owner=None)
        ctx.event("Filled", "the box is full")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(2)
        child = await client.get(ConfigMap, "default/child")
        assert [(o.kind, o.name, o.controller) for o in child.metadata.owner_references] == [("Box", "a", True)]
        assert not (await client.get(ConfigMap, "kube-system/free")).metadata.owner_references
        assert not (await client.get(ConfigMap, "default/near")).metadata.owner_references
        (event,) = await client.list(Event, namespace="default", field_selector="reason=Filled")
        assert event.regarding.name == "a"
        await client.delete(child)
        await asyncio.sleep(2)
        assert (await client.get(ConfigMap, "default/child")).metadata.uid != child.metadata.uid


async def test_a_request_reconciler_names_the_owner() -> None:
    """Without an object, apply() requires owner=... and event() requires regarding=...."""
    operator = Operator("boxes")
    messages: list[str] = []

    @operator.reconciler(Box)
    async def reconcile(request: Request, ctx: Context) -> None:
        for call in (
            lambda: ctx.apply(ConfigMap(metadata=ObjectMeta(name="x", namespace="default"))),
            lambda: asyncio.sleep(0, ctx.event("A", "b")),
        ):
            with pytest.raises(UsageError) as raised:
                await call()
            messages.append(str(raised.value))

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
    assert "pass owner=" in messages[0]
    assert "regarding=" in messages[1]


async def test_the_deadline_is_that_of_the_reconcile() -> None:
    """`remaining` falls to zero, when the reconcile is cancelled; without a limit there is none."""
    operator = Operator("boxes")
    times: list[float | None] = []

    @operator.reconciler(Box, options=ControllerOptions(reconciliation_timeout=30))
    async def limited(obj: Box, ctx: Context) -> None:
        times.append(ctx.remaining)
        try:
            await asyncio.sleep(100)
        finally:
            times.append(ctx.remaining)

    @operator.reconciler(Box, name="free")
    async def free(obj: Box, ctx: Context) -> None:
        times.append(ctx.remaining)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(31)
    assert sorted(map(str, times[:3])) == ["0.0", "30.0", "None"]


async def test_children_that_are_no_longer_desired_are_pruned_and_drift_is_as_declared() -> None:
    """apply_all() deletes what a smaller spec leaves out; LEAVE keeps the value of another manager."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        parts = [ConfigMap(metadata=ObjectMeta(name=f"part-{n}"), data={"n": str(n)}) for n in range(obj.spec.size)]
        await ctx.apply_all(parts, prune=[ConfigMap], drift=Drift.LEAVE)

    async with running(operator) as client:
        foreign = ConfigMap(metadata=ObjectMeta(name="foreign", namespace="default"))
        await client.create(foreign)
        obj = box()
        obj.spec.size = 3
        await client.create(obj)
        await asyncio.sleep(1)
        part = await client.get(ConfigMap, "default/part-0")
        before = deep_copy(part)
        part.data["n"] = "theirs"
        await client.patch(part, MergeFrom(before), field_owner="somebody")
        before = deep_copy(obj)
        obj.spec.size = 1
        await client.patch(obj, MergeFrom(before))
        await asyncio.sleep(1)
        maps = {m.metadata.name: m.data for m in await client.list(ConfigMap, namespace="default")}
        maps.pop("kube-root-ca.crt", None)
        assert maps == {"foreign": {}, "part-0": {"n": "theirs"}}
        reasons = [request.reason for record in records(operator) for request in record.requests]
        assert any("no longer desired" in reason for reason in reasons)


# ------------------------------------------------------------------ the object form
@pytest.mark.behaviour(89)
async def test_an_object_that_is_gone_or_being_deleted_is_not_reconciled() -> None:
    """The object form sees only objects that shall exist; the request form sees every request."""
    operator = Operator("boxes")
    objects: list[str] = []
    requests: list[str] = []

    @operator.reconciler(Box)
    async def objects_only(obj: Box) -> None:
        objects.append(f"{obj.metadata.name} {obj.spec.size}")

    @operator.reconciler(Box, name="requests")
    async def every_request(request: Request) -> None:
        requests.append(request.name)

    async with running(operator) as client:
        await client.create(box(finalizers=["example.com/hold"]))
        await asyncio.sleep(1)
        obj = await client.get(Box, "default/a")
        await client.delete(obj)
        await asyncio.sleep(1)
        obj = await client.get(Box, "default/a")
        before = deep_copy(obj)
        obj.metadata.finalizers = []
        await client.patch(obj, MergeFrom(before))
        await asyncio.sleep(1)
    assert objects == ["a 1"]
    assert requests == ["a", "a", "a"]


# ------------------------------------------------------------------ finalizers
@pytest.mark.behaviour(139, better="They run in the order of their registration.")
async def test_finalizers_run_in_order_and_a_failing_one_stays() -> None:
    """Finalizers are added in one write; on deletion each one that succeeds is removed, even if another fails."""
    operator = Operator("boxes")
    calls: list[str] = []
    down = True

    async def first(obj: Box, ctx: Context) -> None:
        calls.append("first")
        if down:
            raise RuntimeError("the account cannot be closed")

    async def second(obj: Box, ctx: Context) -> None:
        assert ctx.object is obj
        calls.append("second")

    @operator.reconciler(Box, finalizers={"example.com/first": first, "example.com/second": second})
    async def reconcile(obj: Box, ctx: Context) -> None:
        assert obj.metadata.finalizers == ["example.com/first", "example.com/second"]
        calls.append("reconcile")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        obj = await client.get(Box, "default/a")
        assert obj.metadata.finalizers == ["example.com/first", "example.com/second"]
        assert writes(records(operator)[0]) == ["patch"]
        assert set(calls) == {"reconcile"}
        calls.clear()
        await client.delete(obj)
        await asyncio.sleep(0.001)
        assert (await client.get(Box, "default/a")).metadata.finalizers == ["example.com/first"]
        assert calls[:2] == ["first", "second"]
        down = False
        await asyncio.sleep(100)
        assert await client.get_or_none(Box, "default/a") is None
    assert calls.count("second") == 1
    assert "reconcile" not in calls


@pytest.mark.parametrize("where", ["predicates", "event_filter"])
async def test_a_deletion_passes_predicates_to_finalizers(where: str) -> None:
    """Predicates that drop every update, and labels that no longer match, do not leave the object in its deletion."""
    operator = Operator("boxes")
    cleaned: list[str] = []

    async def clean(obj: Box, ctx: Context) -> None:
        cleaned.append(obj.metadata.name)

    dropping: Any = {where: [matches_labels("tier=web"), on(update=False)]}

    @operator.reconciler(Box, finalizers={"example.com/clean": clean}, **dropping)
    async def reconcile(obj: Box, ctx: Context) -> None: ...

    async with running(operator) as client:
        obj = box()
        obj.metadata.labels["tier"] = "web"
        await client.create(obj)
        await asyncio.sleep(1)
        obj = await client.get(Box, "default/a")
        obj.metadata.labels.clear()
        await client.update(obj)
        await asyncio.sleep(1)
        reconciles = len(records(operator))
        await client.delete(obj)
        await asyncio.sleep(1)
        assert cleaned == ["a"]
        assert await client.get_or_none(Box, "default/a") is None
        # The removal of the finalizer and the end of the object are events that the predicates drop.
        assert len(records(operator)) == reconciles + 1


@pytest.mark.parametrize("by_request", [False, True])
async def test_a_finalizer_that_waits_stays(by_request: bool) -> None:
    """A result keeps the finalizer and says when it is called again, in both forms; no error is counted."""
    operator = Operator("boxes")
    calls: list[float] = []

    async def slow(obj: Box, ctx: Context) -> Result | None:
        calls.append(asyncio.get_running_loop().time())
        return Result(requeue_after=30) if len(calls) < 3 else None

    async def event_only(obj: Box, ctx: Context) -> Result | None:
        return Result() if len(calls) < 3 else None

    async def by_object(obj: Box, ctx: Context) -> None:
        """Do nothing."""

    async def of_request(request: Request, ctx: Context) -> None:
        """Do nothing."""

    finalizers = {"example.com/slow": slow, "example.com/event": event_only}
    operator.reconciler(Box, finalizers=finalizers)(of_request if by_request else by_object)  # type: ignore[arg-type]
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(Box, "default/a")
        await asyncio.sleep(1)
        obj = await client.get(Box, "default/a")
        assert obj.metadata.finalizers == ["example.com/slow", "example.com/event"]
        await asyncio.sleep(120)
        assert await client.get_or_none(Box, "default/a") is None
    assert [later - earlier for earlier, later in itertools.pairwise(calls)] == pytest.approx([30, 30], abs=1)
    assert {record.result for record in records(operator)} <= {"success", "requeue_after"}


async def test_a_finalizer_must_return_none_or_a_result() -> None:
    """A finalizer function with another return value fails with that value, and the finalizer stays."""
    operator = Operator("boxes")

    async def wrong(obj: Box, ctx: Context) -> str:
        return "done"

    @operator.reconciler(Box, finalizers={"example.com/wrong": wrong})
    async def reconcile(obj: Box, ctx: Context) -> None:
        """Do nothing."""

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(Box, "default/a")
        await asyncio.sleep(1)
        assert (await client.get(Box, "default/a")).metadata.finalizers == ["example.com/wrong"]
    assert any("returned 'done': return None, or a Result to wait" in record.detail for record in records(operator))


# ------------------------------------------------------------------ causes and the journal
async def test_the_journal_says_why_each_reconcile_ran_and_what_it_did() -> None:
    """Create, own status write, child event, retry and timer are causes; reads and writes have versions."""
    operator = Operator("boxes")
    failures = 1

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> Result:
        nonlocal failures
        await ctx.client.get_or_none(ConfigMap, "default/missing")
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="child"), data={"size": str(obj.spec.size)}))
        if failures:
            failures -= 1
            raise RuntimeError("not yet")
        return Result(requeue_after=50)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        first, second, *_ = records(operator)
        assert [str(cause)[: len("Box create default/a at ")] for cause in first.causes] == ["Box create default/a at "]
        assert (first.result, first.attempt, second.attempt) == ("error", 0, 1)
        assert {cause.source for cause in second.causes} == {"retry", "ConfigMap"}
        assert any("not yet" in cause.detail for cause in second.causes)
        assert [(read.key, bool(read.resource_version)) for read in first.reads[:2]] == [
            ("default/a", True),
            ("default/missing", False),
        ]
        (request,) = first.requests
        assert (request.verb, request.key, request.status) == ("apply", "default/child", 200)
        assert request.resource_version
        assert second.result == "requeue_after"
        await client.delete(await client.get(ConfigMap, "default/child"))
        await asyncio.sleep(1)
        # The timer of the reconcile before was combined with the deletion.
        assert [c.event or c.source for c in records(operator)[-2].causes] == ["delete"]
        await asyncio.sleep(50)
        assert [cause.source for cause in records(operator)[-1].causes] == ["requeue_after"]
        text = str(first)
        assert "cause    Box create default/a" in text
        assert "request  apply" in text


async def test_the_context_has_the_causes_and_the_ids_of_the_log() -> None:
    """Several events before one reconcile are all causes of it; the id differs for each attempt."""
    operator = Operator("boxes")
    contexts: list[Context] = []
    gate = asyncio.Event()

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        contexts.append(ctx)
        await gate.wait()

    async with running(operator) as client:
        obj = await client.create(box())
        await asyncio.sleep(1)
        for size in range(2, 5):
            before = deep_copy(obj)
            obj.spec.size = size
            await client.patch(obj, MergeFrom(before))
        await asyncio.sleep(1)
        gate.set()
        await asyncio.sleep(1)
    first, second = contexts
    assert [(c.event, c.events) for c in first.causes] == [("create", 1)]
    assert [(c.event, c.events, c.resource_version) for c in second.causes] == [
        ("update", 3, obj.metadata.resource_version)
    ]
    assert first.reconcile_id != second.reconcile_id
    assert second.logger.name == "opsdk.reconcile.box"


async def test_a_missing_status_without_defaults_raises_usage_error() -> None:
    """A status with required fields cannot be created from nothing."""

    class Strict(Model):
        phase: str

    class Odd(Object[BoxSpec, Strict]):
        gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Odd")

    operator = Operator("odds")
    errors: list[str] = []

    @operator.reconciler(Odd)
    async def reconcile(obj: Odd, ctx: Context) -> None:
        with pytest.raises(UsageError) as raised:
            async with ctx.status(obj):
                pass
        errors.append(str(raised.value))

    async with running(operator, Odd) as client:
        await client.create(Odd(metadata=ObjectMeta(name="a", namespace="default"), spec=BoxSpec()))
        await asyncio.sleep(1)
    assert "give each field of Strict a default" in errors[0]


async def test_status_patches_leave_fields_of_other_versions_alone() -> None:
    """A status field that the class does not know survives."""
    operator = Operator("sites")

    @operator.reconciler(Site)
    async def reconcile(obj: Site, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.status.ready = 5

    async with running(operator, Site) as client:
        await client.create(site(namespace="default"))
        await asyncio.sleep(1)
        assert (await client.get(Site, "default/a")).status == SiteStatus(ready=5)


class GradedCondition(Condition):
    """A condition of a newer version."""

    severity: str = ""


class GradedStatus(Model):
    """A newer version of a box's status."""

    size: int = 0
    observed_generation: int = 0
    conditions: list[GradedCondition] = field(default_factory=list)


class GradedBox(Object[BoxSpec, GradedStatus]):
    """A newer version of a box."""

    gvk = Box.gvk
    plural = "boxes"


async def test_status_patches_leave_fields_of_list_items_alone() -> None:
    """A merge patch replaces the list, so its items keep what their class does not know."""
    condition = {"type": "Ready", "status": "False", "reason": "New", "message": "", "severity": "low"}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    operator = Operator("boxes")

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        if obj.status is not None:
            async with ctx.status(obj) as patch:
                patch.set_condition("Ready", True, "Done")

    async with running(operator, GradedBox) as client:
        stored = await client.create(box())
        await client.status().patch(stored, merge_patch({"status": {"conditions": [condition]}}))
        await asyncio.sleep(1)
        (written,) = (await client.get(unstructured_kind(Box.gvk.api_version, "Box"), "default/a"))["status"][
            "conditions"
        ]
        assert (written["status"], written["severity"]) == ("True", "low")
