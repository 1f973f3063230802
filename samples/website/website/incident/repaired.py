"""Release 1.1.1 of the website operator: its Deployments have the label ``app.kubernetes.io/version``."""

from opsdk import Context, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Service
from website.api import Website
from website.children import config_map, deployment, is_rolled_out, service

VERSION = "app.kubernetes.io/version"
operator = Operator("website-operator")


def version_of(image: str) -> str:
    """Return the tag of an image. The host of its registry may have a port, and a digest may follow the tag."""
    name, _, _ = image.partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    return tag


@operator.reconciler(Website, owns=[Deployment, Service, ConfigMap])
async def reconcile(site: Website, ctx: Context) -> None:
    """Apply the child objects of one Website, and report its state."""
    desired = deployment(site)
    desired.metadata.labels[VERSION] = version_of(site.spec.image)
    await ctx.apply(config_map(site))
    await ctx.apply(service(site))
    live = await ctx.apply(desired)
    ready, replicas = is_rolled_out(live, site), live.status.ready_replicas or 0
    async with ctx.status(site) as patch:
        patch.status.ready_replicas = replicas
        patch.status.image = site.spec.image if ready else patch.status.image
        message = f"{replicas} of {site.spec.replicas} replicas are ready"
        patch.set_condition("Ready", ready, "Available" if ready else "RollingOut", message)
