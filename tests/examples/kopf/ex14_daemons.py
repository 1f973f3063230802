"""Two daemons that fail at first: one that calls a blocking function and ends, one that runs until it is cancelled."""

from __future__ import annotations

import asyncio
from collections import Counter

from opsdk import Context, Operator, TemporaryError
from opsdk.aio.blocking import blocking
from tests.examples.kopf.kinds import Example


@blocking
def ping(example: Example) -> str:
    """Stand for a library that blocks."""
    return f"ping from a thread: {example.spec.field}"


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("daemons")
    failures: Counter[tuple[str, str]] = Counter()

    def fail_three_times(name: str, example: Example) -> int:
        key = (name, example.metadata.uid)
        failures[key] += 1
        return failures[key] if failures[key] <= 3 else 0

    @operator.daemon(Example)
    async def accompany(example: Example, ctx: Context) -> None:
        if failed := fail_three_times("accompany", example):
            async with ctx.status(example) as patch:
                patch.status.message = f"failed {failed} times"
            raise TemporaryError("simulated failure", delay=1)
        for _ in range(6):
            ctx.logger.info(await ping(example))
            await asyncio.sleep(5)
        async with ctx.status(example) as patch:
            patch.status.message = "accompanying is finished"

    @operator.daemon(Example, when=lambda obj: (obj.metadata.annotations or {}).get("someannotation") == "somevalue")
    async def follow(example: Example, ctx: Context) -> None:
        if fail_three_times("follow", example):
            raise TemporaryError("simulated failure", delay=1)
        while True:
            ctx.logger.info("ping from a coroutine: %s", example.spec.field)
            await asyncio.sleep(5)

    return operator
