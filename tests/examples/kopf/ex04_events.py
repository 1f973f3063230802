"""Write Events about an object."""

from __future__ import annotations

from opsdk import Context, Operator
from tests.examples.kopf.kinds import Example


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("events")

    @operator.reconciler(Example)
    async def reconcile(example: Example, ctx: Context) -> None:
        ctx.event("SomeReason", "some message")
        ctx.event("OtherReason", "some warning", type="Warning")
        try:
            int(example.spec.field)
        except ValueError as error:
            ctx.event("Failed", f"some error: {error}", type="Warning")

    return operator
