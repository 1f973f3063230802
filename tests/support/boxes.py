"""A kind with conditions, and an operator that runs against the embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import field

from opsdk import (
    Client,
    Cluster,
    Condition,
    GroupVersionKind,
    Model,
    Object,
    ObjectMeta,
    Operator,
    Unstructured,
    crd_for,
)
from opsdk.controller.journal import ReconcileRecord

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


class BoxSpec(Model):
    """A box's size."""

    size: int = 1


class BoxStatus(Model):
    """A box's state."""

    size: int = 0
    observed_generation: int = 0
    conditions: list[Condition] = field(default_factory=list)


class Box(Object[BoxSpec, BoxStatus]):
    """A kind with conditions."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Box")


def box(name: str = "a", **meta: Any) -> Box:
    """Return a box in the default namespace."""
    return Box(metadata=ObjectMeta(name=name, namespace="default", **meta), spec=BoxSpec())


@asynccontextmanager
async def running(operator: Operator, *kinds: type[Object[Any, Any]]) -> AsyncIterator[Client]:
    """Run the operator against a server with the kinds, and return a client beside it."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        for kind in kinds or (Box,):
            await outside.uncached.create(Unstructured.from_tree(crd_for(kind)))
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(1)
        try:
            yield outside.uncached
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def records(operator: Operator, name: str = "a") -> list[ReconcileRecord]:
    """Return the journal's records of one name."""
    return list(operator.journal.find(name=name))


def writes(record: ReconcileRecord) -> list[str]:
    """Return verb and subresource of each write."""
    return [f"{r.verb} {r.subresource}".strip() for r in record.requests if r.verb not in ("get", "list")]
