"""Two replicas, of which one works."""

from __future__ import annotations

from opsdk import Context, Operator, OperatorOptions
from tests.examples.kopf.kinds import Example


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("peering", OperatorOptions(leader_election=True, leader_election_namespace="default"))

    @operator.reconciler(Example)
    async def reconcile(example: Example, ctx: Context) -> None:
        ctx.logger.info("handled")

    return operator
