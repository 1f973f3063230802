"""List the running Pods from an index, every five seconds."""

from __future__ import annotations

from opsdk import Context, Operator
from opsdk.api.core.v1 import Pod
from tests.examples.kopf.kinds import Example


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("indexing")

    @operator.setup
    def indices(operator: Operator) -> None:
        operator.cluster.cache.index_field(Pod, "phase", lambda pod: [pod.status.phase or "Unknown"])

    @operator.daemon(Example, every=5)
    async def list_running(example: Example, ctx: Context) -> None:
        pods = [
            pod.metadata
            for namespace in ("default", "kube-system")
            for pod in await ctx.client.list(Pod, namespace=namespace, field_selector={"phase": "Running"})
        ]
        async with ctx.status(example) as patch:
            patch.status.running_pods = sorted(f"{meta.namespace}::{meta.name}" for meta in pods)

    return operator
