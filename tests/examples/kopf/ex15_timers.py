"""Two timers that fire again and again while an object does not change."""

from __future__ import annotations

from opsdk import Context, Operator, Result
from tests.examples.kopf.kinds import Example


def has_changed(ctx: Context) -> bool:
    """Whether an event of the object led to the reconcile, not its timer."""
    return any(cause.event for cause in ctx.causes)


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("timers")

    @operator.reconciler(Example, name="fast")
    async def ping_fast(example: Example, ctx: Context) -> Result:
        if has_changed(ctx):
            return Result(requeue_after=5)
        ctx.logger.info("fast: %s", example.spec.field)
        return Result(requeue_after=2)

    @operator.reconciler(Example, name="slow")
    async def ping_slow(example: Example, ctx: Context) -> Result:
        if has_changed(ctx):
            return Result(requeue_after=10)
        ctx.logger.info("slow: %s", example.spec.field)
        return Result(requeue_after=4)

    return operator
