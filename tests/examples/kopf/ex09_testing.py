"""Write a line into the log."""

from __future__ import annotations

from opsdk import Context, Operator
from tests.examples.kopf.kinds import Example


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("testing")

    @operator.reconciler(Example)
    async def reconcile(example: Example, ctx: Context) -> None:
        ctx.logger.info("something was logged here")

    return operator
