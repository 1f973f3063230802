"""An operator inside an application: both run in one event loop."""

from __future__ import annotations

import asyncio

from opsdk import Cluster, Context, ObjectMeta, Operator, RestConfig
from tests.examples.kopf.kinds import Example, ExampleSpec


def make_operator(created: str, deleted: str) -> Operator:
    """Return the operator."""
    operator = Operator("embedded")

    async def say_goodbye(example: Example, ctx: Context) -> None:
        ctx.logger.info(deleted, example.metadata.name)

    @operator.reconciler(Example, finalizers={"examples.opsdk.dev/goodbye": say_goodbye})
    async def say_hello(example: Example, ctx: Context) -> None:
        ctx.logger.info(created, example.metadata.name)

    return operator


async def main(config: RestConfig, steps: int = 3) -> None:
    """Start the operator, do the application's work, and stop the operator."""
    operator = make_operator(created="hello, %s", deleted="good bye, %s")
    operator.prepare(config)
    async with asyncio.TaskGroup() as tasks, Cluster(config) as cluster:
        tasks.create_task(operator.start_prepared())
        await operator.manager.wait_elected()
        for step in range(steps):
            meta = ObjectMeta(name=f"example-{step}", namespace="default")
            example = await cluster.uncached.create(Example(metadata=meta, spec=ExampleSpec()))
            await asyncio.sleep(1)
            await cluster.uncached.delete(example)
            await asyncio.sleep(1)
        operator.manager.stop()
