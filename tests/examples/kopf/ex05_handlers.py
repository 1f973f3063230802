"""Several steps for creation, restart, update, one field, and deletion."""

from __future__ import annotations

from opsdk import Context, ControllerOptions, Operator
from opsdk.event.predicates import generation_changed
from tests.examples.kopf.kinds import Example, ExampleSpec


async def delete_first(example: Example, ctx: Context) -> None:
    """Run first at the deletion."""
    ctx.logger.info("deleted: first step")


async def delete_second(example: Example, ctx: Context) -> None:
    """Run second at the deletion."""
    ctx.logger.info("deleted: second step")


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("handlers")

    @operator.reconciler(
        Example,
        predicates=[generation_changed()],
        finalizers={"examples.opsdk.dev/first": delete_first, "examples.opsdk.dev/second": delete_second},
        options=ControllerOptions(last_reconciled="annotation"),
    )
    async def reconcile(example: Example, ctx: Context) -> None:
        before: ExampleSpec | None = ctx.last_reconciled
        if before is None:
            ctx.logger.info("created: first step")
            ctx.logger.info("created: second step")
        elif not ctx.changed():
            ctx.logger.info("resumed")
        else:
            ctx.logger.info("updated")
            if ctx.changed("spec.field"):
                ctx.logger.info("field: %s -> %s", before.field, example.spec.field)

    return operator
