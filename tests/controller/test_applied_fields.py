"""Fields of objects of other owners: applied under a field manager of their own, never created, and taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from boxes import Box, box, environment, records, running, writes
from slow_cases import mostly_slow

from opsdk import (
    BlockingContext,
    Client,
    Cluster,
    ConflictError,
    Context,
    ControllerOptions,
    NotFoundError,
    ObjectMeta,
    Operator,
    Unstructured,
    UsageError,
    crd_for,
)
from opsdk.api.core.v1 import ConfigMap, Node
from opsdk.builder.arguments import references
from opsdk.children.applier import Applier
from opsdk.children.field_applier import FieldApplier
from opsdk.client.patch import merge_patch
from opsdk.controller.applied_fields import FieldsOf
from opsdk.errors import InvalidError
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.rules import RbacRule
from opsdk.recipes.conditions import get_condition
from tests.controller.kills import Killer, supervised

MARK = "example.com/box"


def marked(name: str, **annotations: str) -> ConfigMap:
    """Return one annotation of a ConfigMap."""
    return ConfigMap(metadata=ObjectMeta(name=name, annotations=annotations or {MARK: "1"}))


def foreign(name: str, **data: str) -> ConfigMap:
    """Return the object of another owner."""
    meta = ObjectMeta(name=name, namespace="default", annotations={"theirs": "x"})
    return ConfigMap(metadata=meta, data=data or {"a": "b"})


def make_operator(wanted: Callable[[Box], list[Any]], **options: Any) -> Operator:
    """Return an operator that applies the fields that `wanted` returns."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[FieldsOf(ConfigMap)], options=ControllerOptions(**options))
    async def reconcile(obj: Box, ctx: Context) -> None:
        for fields in wanted(obj):
            await ctx.apply_fields(fields)

    return operator


async def annotations_of(client: Client, name: str) -> dict[str, str]:
    """Return the annotations of a ConfigMap."""
    return dict((await client.get(ConfigMap, f"default/{name}")).metadata.annotations)


async def test_fields_are_applied_repaired_moved_and_taken_back() -> None:
    """The whole life: one annotation, no owner, no write at rest, and nothing is left at the end."""
    names = ["one"]
    operator = make_operator(lambda _: [marked(name) for name in names])
    async with running(operator) as client:
        for name in ("one", "two"):
            await client.create(foreign(name))
        await client.create(box())
        await asyncio.sleep(5)
        live = await client.get(ConfigMap, "default/one")
        assert dict(live.metadata.annotations) == {"theirs": "x", MARK: "1"}
        assert not live.metadata.owner_references
        assert "boxes/box:default:a" in [each.manager for each in live.metadata.managed_fields]
        await client.patch(foreign("one"), merge_patch({"metadata": {"annotations": {MARK: None}}}))
        await asyncio.sleep(5)
        assert (await annotations_of(client, "one"))[MARK] == "1"
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(5)
        assert not writes(records(operator)[-1])
        names[:] = ["two"]
        await client.patch(box(), merge_patch({"spec": {"size": 3}}))
        await asyncio.sleep(5)
        assert await annotations_of(client, "one") == {"theirs": "x"}
        assert await annotations_of(client, "two") == {"theirs": "x", MARK: "1"}
        await client.delete(box())
        await asyncio.sleep(5)
        assert await client.get_or_none(Box, "default/a") is None
        assert await annotations_of(client, "two") == {"theirs": "x"}
        live = await client.get(ConfigMap, "default/two")
        assert not any("boxes" in each.manager for each in live.metadata.managed_fields)


async def test_an_absent_object_is_never_created() -> None:
    """An apply of fields of an absent object raises `NotFoundError`, and the object appears only by its owner."""
    errors: list[Exception] = []
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[FieldsOf(ConfigMap)])
    async def reconcile(obj: Box, ctx: Context) -> None:
        try:
            await ctx.apply_fields(marked("late"))
        except NotFoundError as error:
            errors.append(error)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert await client.get_or_none(ConfigMap, "default/late") is None
        assert "ConfigMap default/late does not exist, and ctx.apply_fields creates nothing" in str(errors[0])
        await client.create(foreign("late"))
        await asyncio.sleep(5)
        assert (await annotations_of(client, "late"))[MARK] == "1"


@pytest.mark.parametrize("again", [False, True])
async def test_an_object_that_goes_before_the_request_is_not_created(again: bool) -> None:
    """Between read and request, the object is deleted, or created again: the apply is refused as not found."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        client = outside.uncached
        await client.create(foreign("one"))
        execute = outside.uncached.executor.execute

        async def racing(operation: Any) -> Any:
            if type(operation).__name__ == "Apply":
                await client.delete(foreign("one"))
                if again:
                    await client.create(foreign("one", new="yes"))
            return await execute(operation)

        racer = Client(_Executor(racing, outside.uncached.executor))
        applier = FieldApplier(racer, field_owner="boxes")
        desired = marked("one")
        desired.metadata.namespace = "default"
        with pytest.raises(NotFoundError, match="ConfigMap default/one does not exist"):
            await applier.apply_fields(desired, managers=["boxes"])
        live = await client.get_or_none(ConfigMap, "default/one")
        assert live is None or MARK not in live.metadata.annotations
        assert (live is not None) is again


class _Executor:
    """An executor whose operations go through a function."""

    def __init__(self, execute: Any, inner: Any) -> None:
        self.execute, self._inner = execute, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_two_objects_have_fields_of_one_object() -> None:
    """What one reconciled object no longer applies takes nothing from another one."""
    gone: set[str] = set()
    operator = make_operator(
        lambda obj: [] if obj.metadata.name in gone else [marked("one", **{f"{MARK}-{obj.metadata.name}": "1"})]
    )
    async with running(operator) as client:
        await client.create(foreign("one"))
        await client.create(box("a"))
        await client.create(box("b"))
        await asyncio.sleep(5)
        assert set(await annotations_of(client, "one")) == {"theirs", f"{MARK}-a", f"{MARK}-b"}
        gone.add("a")
        await client.patch(box("a"), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(5)
        assert set(await annotations_of(client, "one")) == {"theirs", f"{MARK}-b"}


async def test_a_kind_has_children_references_and_fields() -> None:
    """One controller may own objects of a kind, reference others, and apply fields of a third one."""
    operator = Operator("boxes")
    referenced = references(ConfigMap, by=lambda _: "one")

    @operator.reconciler(Box, owns=[ConfigMap, FieldsOf(ConfigMap)], watches=[referenced])
    async def reconcile(obj: Box, ctx: Context) -> None:
        source = await ctx.require(ConfigMap, "one")
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="child"), data=dict(source.data)))
        await ctx.apply_fields(marked("two"))

    async with running(operator) as client:
        for name in ("one", "two"):
            await client.create(foreign(name))
        await client.create(box())
        await asyncio.sleep(5)
        await client.patch(foreign("two"), merge_patch({"metadata": {"annotations": {MARK: None}}}))
        await client.patch(foreign("one"), merge_patch({"data": {"a": "c"}}))
        await asyncio.sleep(5)
        assert (await annotations_of(client, "two"))[MARK] == "1"
        assert (await client.get(ConfigMap, "default/child")).data == {"a": "c"}


async def test_a_failed_reconcile_takes_nothing_back() -> None:
    """A reconcile that raises before it applied all fields leaves those of the last success."""
    broken = False

    def wanted(_: Box) -> list[Any]:
        if broken:
            raise OSError("no route")
        return [marked("one")]

    operator = make_operator(wanted)
    async with running(operator) as client:
        await client.create(foreign("one"))
        await client.create(box())
        await asyncio.sleep(5)
        broken = True
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(5)
        assert (await annotations_of(client, "one"))[MARK] == "1"


@pytest.mark.slow
async def test_a_new_process_takes_back_what_the_former_one_applied() -> None:
    """The record on the object outlives the process; the object to take back from may be gone."""
    names = ["one", "two"]
    async with environment.Environment() as env, Cluster(env.config) as outside:
        client = outside.uncached
        await client.create(Unstructured.from_tree(crd_for(Box)))
        for name in names:
            await client.create(foreign(name))
        await client.create(box())
        for turn in range(2):
            operator = make_operator(lambda _: [marked(name) for name in names])
            task = asyncio.create_task(operator.start(env.config))
            await asyncio.sleep(5)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if turn == 0:
                assert (await annotations_of(client, "one"))[MARK] == "1"
                await client.delete(foreign("two"))
                names.clear()
        assert await annotations_of(client, "one") == {"theirs": "x"}
        assert not [key for key in (await client.get(Box, "default/a")).metadata.annotations if "applied" in key]


async def life_of_fields(at: int) -> tuple[list[list[dict[str, str]]], Killer]:
    """Create, change and delete a box, and kill its process at one await. Returns both annotations."""
    killer, stages = Killer(at), []

    def process() -> Operator:
        return make_operator(lambda obj: [marked("one" if obj.spec.size == 1 else "two")])

    async with environment.Environment(crds=[crd_for(Box)]) as env, Cluster(env.config) as outside:
        client = outside.uncached
        for name in ("one", "two"):
            await client.create(foreign(name))
        async with supervised(process, env.config, killer):
            await asyncio.sleep(1)
            obj = await client.create(box())
            for step in (
                lambda: client.get(Box, "default/a"),
                lambda: client.patch(obj, merge_patch({"spec": {"size": 2}})),
                lambda: client.delete(obj),
            ):
                await step()
                await asyncio.sleep(25)
                stages.append([await annotations_of(client, name) for name in ("one", "two")])
            assert await client.get_or_none(Box, "default/a") is None
    return stages, killer


# Larger than the number of awaits of an undisturbed run, which the first test checks.
AWAITS = 38


@pytest.mark.parametrize("at", mostly_slow(range(AWAITS), every=4))
async def test_a_killed_process_leaves_no_fields(at: int) -> None:
    """Wherever a process ends, the next one has the fields where they belong, and none is left in the end."""
    stages, killer = await life_of_fields(at)
    theirs, ours = {"theirs": "x"}, {"theirs": "x", MARK: "1"}
    assert stages == [[ours, theirs], [theirs, ours], [theirs, theirs]]
    assert killer.killed or not 0 < at <= killer.count
    if not at:
        assert 10 < killer.count < AWAITS


async def test_a_status_with_conditions_is_written_in_the_same_pass() -> None:
    """The record changes the reconciled object: a status that the pass writes afterwards is no conflict."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[FieldsOf(ConfigMap)])
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply_fields(marked("one"))
        async with ctx.status(obj) as patch:
            patch.set_condition("Marked", True, "Marked")

    async with running(operator) as client:
        await client.create(foreign("one"))
        await client.create(box())
        await asyncio.sleep(5)
        status = (await client.get(Box, "default/a")).status
        assert status is not None
        assert get_condition(status.conditions, "Marked") is not None
        assert [record.result for record in records(operator) if record.result == "error"] == []
        assert len(records(operator)) <= 3  # the box, and the ConfigMap once more


async def test_a_blocking_reconciler_applies_fields() -> None:
    """The context of threads has the method too."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[FieldsOf(ConfigMap)])
    def reconcile(obj: Box, ctx: BlockingContext) -> None:
        ctx.apply_fields(marked("one"))

    async with running(operator) as client:
        await client.create(foreign("one"))
        await client.create(box())
        await asyncio.sleep(5)
        assert (await annotations_of(client, "one"))[MARK] == "1"


async def test_misuse_says_what_to_do() -> None:
    """A kind that is not declared, two applies of one object, a daemon, and ownerReferences are usage errors."""
    errors: list[str] = []
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[FieldsOf(ConfigMap)])
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply_fields(marked("one"))
        for wrong in (marked("one"), Node(metadata=ObjectMeta(name="n")), with_finalizer()):
            try:
                await ctx.apply_fields(wrong)
            except UsageError as error:
                errors.append(str(error))

    def with_finalizer() -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name="two", finalizers=["x/y"]))

    async with running(operator) as client:
        await client.create(foreign("one"))
        await client.create(box())
        await asyncio.sleep(5)
        assert "applied twice in one reconcile" in errors[0]
        assert "add FieldsOf(Node) to owns" in errors[1]
        assert "cannot contain ownerReferences or finalizers" in errors[2]
    with pytest.raises(UsageError, match=r"owns=\[FieldsOf\(ConfigMap\)\]"):
        await Context(request=None).apply_fields(marked("one"))
    with pytest.raises(UsageError, match="needs a reconciled kind"):
        operator.reconciler(name="x", owns=[FieldsOf(ConfigMap)])


async def test_a_partial_apply_that_creates_says_what_does_not() -> None:
    """An apply of some fields of an absent object names the call that creates nothing."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        tree = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"}}
        partial = Unstructured.from_tree({**tree, "spec": {"replicas": 3}})
        with pytest.raises(InvalidError) as caught:
            await Applier(outside.uncached, field_owner="boxes").apply(partial)
        assert "call ctx.apply_fields" in caught.value.__notes__[0]


async def test_without_force_a_field_of_another_manager_is_a_conflict() -> None:
    """`force=False` takes nothing over."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        await outside.uncached.create(foreign("one", a="theirs"))
        desired = ConfigMap(metadata=ObjectMeta(name="one", namespace="default"), data={"a": "ours"})
        with pytest.raises(ConflictError):
            await FieldApplier(outside.uncached, field_owner="boxes").apply_fields(
                desired, managers=["boxes"], force=False
            )
        live = await FieldApplier(outside.uncached, field_owner="boxes").apply_fields(desired, managers=["boxes"])
        assert live.data == {"a": "ours"}


async def test_former_field_managers_are_taken_back() -> None:
    """An operator with a new name owns the fields alone: what it leaves out is removed."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        await outside.uncached.create(foreign("one"))
        desired = marked("one", old="1", **{MARK: "1"})
        desired.metadata.namespace = "default"
        await FieldApplier(outside.uncached, field_owner="boxes").apply_fields(desired, managers=["former"])
        del desired.metadata.annotations["old"]
        await FieldApplier(outside.uncached, field_owner="boxes").apply_fields(desired, managers=["new", "former"])
        assert await annotations_of(outside.uncached, "one") == {"theirs": "x", MARK: "1"}


def test_the_declaration_implies_the_permissions() -> None:
    """Reads and patches of the kind, and patches of the reconciled kind for finalizer and record."""
    operator = make_operator(lambda _: [])
    needed = [RbacRule("get list watch patch", ConfigMap), RbacRule("get list watch patch", Box)]
    assert not RuleSet(each for rule in needed for each in rule.permissions()) - operator.rules()
    assert "opsdk.dev/boxes.box" in operator.finalizer_names()
