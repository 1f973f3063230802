"""A worker between two databases."""

from __future__ import annotations

from opsdk import Context, GroupVersionKind, Model, Object, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Container, EnvVar
from tests.examples.parts import deployment


class WorkerAppSpec(Model):
    """Where the worker finds its databases."""

    redis_endpoint: str = ""
    postgres_endpoint: str = ""


class WorkerAppStatus(Model):
    """The replicas that are available."""

    available_replicas: int = 0


class WorkerApp(Object[WorkerAppSpec, WorkerAppStatus]):
    """A worker between two databases."""

    gvk = GroupVersionKind("examples.opsdk.dev", "v1", "WorkerApp")


def make_operator() -> Operator:
    """A Deployment whose state is that of the worker."""
    operator = Operator("worker-apps")

    @operator.reconciler(WorkerApp, owns=[Deployment])
    async def reconcile(app: WorkerApp, ctx: Context) -> None:
        env = {"REDIS_HOST": app.spec.redis_endpoint, "POSTGRES_HOST": app.spec.postgres_endpoint}
        container = Container(name="worker", image="worker", env=[EnvVar(name=k, value=v) for k, v in env.items()])
        worker = await ctx.apply(deployment(f"{app.metadata.name}-worker", container), ready=True)
        async with ctx.status(app) as patch:
            patch.status.available_replicas = worker.status.available_replicas or 0

    return operator
