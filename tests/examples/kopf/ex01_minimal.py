"""Print the spec, and write a message into the status."""

from __future__ import annotations

from opsdk import Context, Operator
from tests.examples.kopf.kinds import Example


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("minimal")

    @operator.reconciler(Example)
    async def reconcile(example: Example, ctx: Context) -> None:
        ctx.logger.info("here we are: %s", example.spec)
        async with ctx.status(example) as patch:
            patch.status.message = "hello world"

    return operator
