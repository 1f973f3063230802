"""Boxes with ordered children, a controller that makes the children ready, and the law of their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Any

from boxes import Box

import envtest
from opsdk import Client, Cluster, Context, ControllerOptions, ObjectMeta, Operator, crd_for
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.children.ordering import Child
from opsdk.client.patch import merge_patch
from opsdk.recipes import is_deleting

BEFORE = {"db": ["creds"], "cache": ["creds"], "web": ["db", "cache", "creds"]}
"""The children that come before each, at any distance."""
UP = "self.data.?seen.orValue('') == self.data.size"
OPTIONS = ControllerOptions(delete_in_reverse=True, ready_condition="Ready", max_concurrent_reconciles=2)


def child(obj: Box, role: str) -> ConfigMap:
    """Return a child that its controller has to see."""
    return ConfigMap(metadata=ObjectMeta(name=f"{obj.metadata.name}-{role}"), data={"size": str(obj.spec.size)})


def make_set_operator() -> Operator:
    """An operator whose children are a set with an order."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap, Secret], options=OPTIONS)
    async def reconcile(obj: Box, ctx: Context) -> None:
        creds = Secret(metadata=ObjectMeta(name=f"{obj.metadata.name}-creds"))
        db, cache = child(obj, "db"), child(obj, "cache")
        await ctx.apply_all(
            [
                creds,
                Child(db, after=[creds], ready=UP),
                Child(cache, after=[creds], ready=UP),
                Child(child(obj, "web"), after=[db, cache], ready=UP),
            ]
        )

    return operator


def make_sequence_operator() -> Operator:
    """The same children, one after the other."""
    operator = Operator("boxes")

    @operator.reconciler(Box, owns=[ConfigMap, Secret], options=OPTIONS)
    async def reconcile(obj: Box, ctx: Context) -> None:
        creds = await ctx.apply(Secret(metadata=ObjectMeta(name=f"{obj.metadata.name}-creds")))
        db = await ctx.apply(child(obj, "db"), after=[creds], ready=UP)
        cache = await ctx.apply(child(obj, "cache"), after=[creds], ready=UP)
        await ctx.apply(child(obj, "web"), after=[db, cache], ready=UP)

    return operator


@asynccontextmanager
async def boxes() -> AsyncIterator[Any]:
    """An environment with a controller that makes ConfigMaps ready."""
    async with envtest.Environment(crds=[crd_for(Box)]) as env, Cluster(env.config) as cluster:
        env.journal.start()
        task = asyncio.create_task(see_children(cluster.uncached))
        try:
            yield env
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def see_children(client: Client) -> None:
    """Write into each ConfigMap which size it has seen, every two seconds."""
    while True:
        await asyncio.sleep(2)
        for config in await client.list(ConfigMap, namespace="default"):
            size = config.data.get("size")
            if size and config.data.get("seen") != size and not is_deleting(config):
                patch = {"metadata": {"resourceVersion": config.metadata.resource_version}, "data": {"seen": size}}
                try:
                    await client.patch(config, merge_patch(patch), field_owner="children")
                except Exception:  # noqa: BLE001 - it was changed or deleted meanwhile
                    continue


def broken_order(journal: Iterable[Any], deleted: Collection[str]) -> list[str]:
    """Return what breaks the order: a child comes when those before it have been ready, and goes before them.

    Args:
        journal: the writes of the server.
        deleted: the names of the children that the operator deleted.
    """
    problems = list[str]()
    existing, ready, ending = set[str](), set[str](), set[str]()
    for entry in journal:
        name, resource = entry.ref.name, entry.ref.resource
        parent, _, role = name.rpartition("-")
        if resource == "boxes" and entry.after is not None and "deletionTimestamp" in entry.after["metadata"]:
            ending.add(name)
        if resource not in ("configmaps", "secrets") or not parent.startswith("box-"):
            continue
        if entry.before is None:
            if missing := {f"{parent}-{other}" for other in BEFORE.get(role, ())} - ready:
                problems.append(f"{name} was created before {missing} were ready")
            existing.add(name)
        if entry.after is None:
            existing.discard(name)
            after = {f"{parent}-{other}" for other, its in BEFORE.items() if role in its} & existing
            if after and parent in ending and name in deleted:
                problems.append(f"{name} was deleted before {after}")
        elif role == "creds" or entry.after["data"].get("seen") == entry.after["data"].get("size"):
            ready.add(name)
    return problems
