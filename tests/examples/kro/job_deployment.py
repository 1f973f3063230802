"""A Job, and a Deployment after it."""

from __future__ import annotations

from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.batch.v1 import Job, JobSpec
from opsdk.api.core.v1 import Container, PodSpec, PodTemplateSpec
from tests.examples.parts import deployment


class JobDeploymentSpec(Model):
    """How long the job takes."""

    delay_in_seconds: int = 30


class JobDeployment(Object[JobDeploymentSpec, Model]):
    """A job, and a Deployment after it."""

    gvk = GroupVersionKind("examples.opsdk.dev", "v1", "JobDeployment")


def make_operator() -> Operator:
    """The Deployment follows when the job is complete."""
    operator = Operator("job-deployments")

    @operator.reconciler(JobDeployment, owns=[Job, Deployment])
    async def reconcile(obj: JobDeployment, ctx: Context) -> None:
        sleeper = Container(name="sleeper", image="busybox", command=["sleep", str(obj.spec.delay_in_seconds)])
        template = PodTemplateSpec(spec=PodSpec(restart_policy="Never", containers=[sleeper]))
        job = Job(metadata=ObjectMeta(name=f"{obj.metadata.name}-job"), spec=JobSpec(template=template))
        await ctx.apply(job, ready=True)
        await ctx.apply(deployment(obj.metadata.name, Container(name="web", image="nginx")))

    return operator
