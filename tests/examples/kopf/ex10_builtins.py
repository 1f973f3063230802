"""Delete each Pod half a minute after its creation, except those of the system."""

from __future__ import annotations

import asyncio

from opsdk import Context, Operator
from opsdk.api.core.v1 import Pod


def is_ours(pod: Pod) -> bool:
    """Whether the Pod is in a namespace of users."""
    return not pod.metadata.namespace.startswith("kube-")


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("pod-killer")

    @operator.daemon(Pod, when=is_ours)
    async def kill(pod: Pod, ctx: Context) -> None:
        ctx.logger.info("the pod ends in 30 s")
        await asyncio.sleep(30)
        await ctx.client.delete(pod, missing_ok=True)

    return operator
