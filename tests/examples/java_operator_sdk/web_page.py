"""A page that nginx serves, with an Ingress if it is exposed."""

from __future__ import annotations

from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Container, Service
from opsdk.api.networking.v1 import Ingress
from tests.examples.parts import deployment, ingress, service


class WebPageSpec(Model):
    """The page, and whether it has an Ingress."""

    html: str = ""
    exposed: bool = False


class WebPageStatus(Model):
    """The ConfigMap of the page."""

    html_config_map: str = ""


class WebPage(Object[WebPageSpec, WebPageStatus]):
    """A page that nginx serves."""

    gvk = GroupVersionKind("examples.opsdk.dev", "v1", "WebPage")


def make_operator() -> Operator:
    """ConfigMap, Deployment, Service, and an Ingress for an exposed page."""
    operator = Operator("web-pages")

    @operator.reconciler(WebPage, owns=[ConfigMap, Deployment, Service, Ingress])
    async def reconcile(page: WebPage, ctx: Context) -> None:
        name = page.metadata.name
        html = ConfigMap(metadata=ObjectMeta(name=f"{name}-html"), data={"index.html": page.spec.html})
        served = deployment(name, Container(name="nginx", image="nginx:1.17"))
        children = [html, served, service(name, 80)] + ([ingress(name)] if page.spec.exposed else [])
        await ctx.apply_all(children, prune=[Ingress])
        async with ctx.status(page) as patch:
            patch.status.html_config_map = html.metadata.name

    return operator
