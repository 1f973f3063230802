"""Create a Pod from fields of the spec, and write its uid into the status."""

from __future__ import annotations

from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import Container, EnvVar, Pod, PodSpec
from tests.examples.kopf.kinds import Example


def pod_of(example: Example) -> Pod:
    """Return the Pod of this generation: most fields of a Pod cannot change, so a new spec needs a new Pod."""
    script = f'echo "FIELD=$FIELD"; sleep {example.spec.duration}'
    container = Container(
        name="main",
        image="busybox",
        command=["sh", "-x", "-c", script],
        env=[EnvVar(name="FIELD", value=example.spec.field or "default-value")],
    )
    name = f"{example.metadata.name}-{example.metadata.generation}"
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(containers=[container]))


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("children")

    @operator.reconciler(Example, owns=[Pod])
    async def reconcile(example: Example, ctx: Context) -> None:
        pods = await ctx.apply_all([pod_of(example)], prune=[Pod])
        async with ctx.status(example) as patch:
            patch.status.children = [pod.metadata.uid for pod in pods]

    return operator
