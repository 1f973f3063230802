"""Children that are deleted in the reverse of their order, before their owner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from boxes import Box, BoxStatus, box, environment, records, running, writes

from opsdk import Client, Context, ControllerOptions, ObjectMeta, Operator, Request, UsageError
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.kinds import metadata_only
from opsdk.builder.arguments import OwnsSpec
from opsdk.children.ordering import AFTER_ANNOTATION, Child
from opsdk.client.patch import merge_patch
from opsdk.controller.reverse_deletion import children_finalizer

FINALIZER = "opsdk.dev/boxes.box"
HOLD = "tests.opsdk.dev/hold"
REVERSE = ControllerOptions(delete_in_reverse=True, ready_condition="Ready")


def config(name: str) -> ConfigMap:
    """Return a child."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"a": "b"})


def secret(name: str) -> Secret:
    """Return a child of another kind."""
    return Secret(metadata=ObjectMeta(name=name, namespace="default"))


async def hold(client: Client, *kinds: Any) -> None:
    """Keep each child in its deletion, as the finalizer of another controller does."""
    for kind in kinds:
        for child in await client.list(kind, namespace="default"):
            if child.metadata.owner_references:
                await client.patch(child, merge_patch({"metadata": {"finalizers": [HOLD]}}))


async def let_go(client: Client, kind: Any, name: str) -> None:
    """End the deletion of a child."""
    child = await client.get(kind, f"default/{name}")
    await client.patch(child, merge_patch({"metadata": {"finalizers": []}}))


async def deleting(client: Client, *kinds: Any) -> set[str]:
    """Return the names of the children that are being deleted."""
    children = [child for kind in kinds for child in await client.list(kind, namespace="default")]
    return {child.metadata.name for child in children if child.metadata.deletion_timestamp is not None}


async def test_children_are_deleted_in_reverse_each_gone_before_the_next() -> None:
    """A chain and a leaf: what comes last goes first, and the owner when nothing is left."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap, metadata_only(Secret)], options=REVERSE)
    async def reconcile(obj: Box, ctx: Context) -> None:
        creds = await ctx.apply(secret("creds"))
        db = await ctx.apply(config("db"), after=[creds])
        await ctx.apply_all([config("free"), Child(config("probe"))])
        await ctx.apply(config("web"), after=[db])

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        assert (await client.get(Box, "default/a")).metadata.finalizers == [FINALIZER]
        assert not writes(records(operator)[-1])
        web = await client.get(ConfigMap, "default/web")
        assert web.metadata.annotations[AFTER_ANNOTATION] == "ConfigMap default/db, Secret default/creds"
        await hold(client, ConfigMap, Secret)
        await asyncio.sleep(1)
        await client.delete(box())
        await asyncio.sleep(60)
        assert await deleting(client, ConfigMap, Secret) == {"free", "web", "probe"}
        for name in ("free", "probe"):
            await let_go(client, ConfigMap, name)
        await asyncio.sleep(60)
        assert await deleting(client, ConfigMap, Secret) == {"web"}
        last = records(operator)[-1]
        assert last.result == "waiting"
        assert last.detail == f"ConfigMap default/web: waits for finalizers {HOLD}; 2 children come after"
        status = (await client.get(Box, "default/a")).status
        assert isinstance(status, BoxStatus)
        assert (status.conditions[0].status, status.conditions[0].reason) == ("False", "Deleting")
        await let_go(client, ConfigMap, "web")
        await asyncio.sleep(1)
        assert await deleting(client, ConfigMap, Secret) == {"db"}
        await let_go(client, ConfigMap, "db")
        await asyncio.sleep(1)
        assert await deleting(client, ConfigMap, Secret) == {"creds"}
        assert await client.get_or_none(Box, "default/a") is not None
        await let_go(client, Secret, "creds")
        await asyncio.sleep(1)
        assert await client.get_or_none(Box, "default/a") is None


async def test_the_order_outlives_a_restart_and_a_child_that_is_lost() -> None:
    """The order is on the children, with those at a distance: a new process deletes them in it."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap], options=REVERSE)
    async def reconcile(obj: Box, ctx: Context) -> None:
        first, second, third = config("first"), config("second"), config("third")
        await ctx.apply_all([Child(third, after=[second]), Child(second, after=[first]), first])

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await hold(client, ConfigMap)
        obj = await client.get(Box, "default/a")
        await client.delete(obj)
        await asyncio.sleep(1)
        # A foreign client removes the child in the middle.
        await let_go(client, ConfigMap, "second")
        await client.delete(config("second"))
        await asyncio.sleep(60)
        assert await deleting(client, ConfigMap) == {"third"}


async def test_other_finalizers_come_first() -> None:
    """A finalizer of the program that is not done keeps the children: it may need them."""
    operator = Operator("boxes")
    done = False

    async def back_up(obj: Box, ctx: Context) -> None:
        if not done:
            await ctx.apply(config("backup"), ready=lambda _: done)

    options = ControllerOptions(delete_in_reverse=True, max_interval=10)

    @operator.reconciler(Box, owns=[ConfigMap], finalizers={"tests.opsdk.dev/backup": back_up}, options=options)
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply(config("db"))

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(box())
        await asyncio.sleep(60)
        assert (await client.get(ConfigMap, "default/db")).metadata.deletion_timestamp is None
        done = True
        await asyncio.sleep(60)
        assert await client.get_or_none(ConfigMap, "default/db") is None
        assert await client.get_or_none(ConfigMap, "default/backup") is None
        assert await client.get_or_none(Box, "default/a") is None


async def test_a_child_of_another_kind_is_refused() -> None:
    """A child that the deletion would not find is named at its apply."""
    operator = Operator("boxes")
    errors: list[UsageError] = []

    @operator.reconciler(Box, owns=[ConfigMap], options=REVERSE)
    async def reconcile(obj: Box, ctx: Context) -> None:
        with pytest.raises(
            UsageError, match=r"delete_in_reverse would not delete Secret default/x: add owns=\[Secret"
        ) as e:
            await ctx.apply(secret("x"))
        with pytest.raises(UsageError, match="delete_in_reverse would not delete Secret default/x"):
            await ctx.apply_all([config("y"), secret("x")])
        errors.append(e.value)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
    assert errors


def test_wrong_declarations_are_refused() -> None:
    """Each says what to write, with file and line."""
    with pytest.raises(UsageError, match="delete_in_reverse is 'yes': write True or False"):
        ControllerOptions(delete_in_reverse="yes")  # type: ignore[arg-type]
    with pytest.raises(
        UsageError, match=r"test_reverse_deletion.py:\d+: delete_in_reverse needs a reconciled kind and"
    ):

        @Operator("boxes").reconciler(Box, options=REVERSE)
        async def childless(obj: Box) -> None: ...


async def test_a_reconciler_of_requests_is_refused() -> None:
    """A reconciler of requests is refused, because it would create the children again during the deletion."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[OwnsSpec(kind=ConfigMap)], options=REVERSE)
    async def reconcile(request: Request) -> None: ...

    with pytest.raises(
        UsageError, match=r"needs a reconciler that takes the object \(.*test_reverse_deletion.py:\d+\)"
    ):
        async with environment.Environment() as env:
            await operator.start(env.config)


def test_the_permissions_and_the_finalizer_are_declared() -> None:
    """The manifests let the operator delete children, and `opsdk doctor` knows the finalizer."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap, Deployment], options=REVERSE)
    async def reconcile(obj: Box, ctx: Context) -> None: ...

    rules = str(operator.rules())
    assert "delete configmaps" in rules
    assert "delete deployments.apps" in rules
    assert "patch boxes.tests.opsdk.dev" in rules
    assert operator.finalizer_names() == {FINALIZER}
    assert len(children_finalizer("x" * 80, "y")) == len("opsdk.dev/") + 63
