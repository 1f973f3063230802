"""A Deployment with a Service and an Ingress after it."""

from __future__ import annotations

from opsdk import Context, ControllerOptions, GroupVersionKind, Model, Object, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Container, ContainerPort, Service
from opsdk.api.networking.v1 import Ingress
from opsdk.children.ordering import Child
from tests.examples.parts import deployment, ingress, service


class WebAppSpec(Model):
    """Image, port, size, and which children there are."""

    image: str = "nginx"
    port: int = 8080
    replicas: int = 1
    has_service: bool = True
    has_ingress: bool = False


class WebAppStatus(Model):
    """The replicas that are available."""

    available_replicas: int = 0


class WebApp(Object[WebAppSpec, WebAppStatus]):
    """A Deployment with a Service and an Ingress after it."""

    gvk = GroupVersionKind("examples.opsdk.dev", "v1", "WebApp")


def make_operator() -> Operator:
    """Service and Ingress follow when the Deployment is available."""
    operator = Operator("web-apps")

    @operator.reconciler(WebApp, owns=[Deployment, Service, Ingress], options=ControllerOptions(delete_in_reverse=True))
    async def reconcile(app: WebApp, ctx: Context) -> None:
        name, spec = app.metadata.name, app.spec
        container = Container(name="web", image=spec.image, ports=[ContainerPort(container_port=spec.port)])
        web = deployment(name, container, spec.replicas)
        entry, route = Child(service(name, spec.port), after=[web]), Child(ingress(name), after=[web])
        chosen = [*([entry] if spec.has_service else []), *([route] if spec.has_ingress else [])]
        await ctx.apply_all([Child(web, ready=True), *chosen], prune=[Service, Ingress])
        async with ctx.status(app) as patch:
            patch.status.available_replicas = spec.replicas

    return operator
