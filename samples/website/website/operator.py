"""The reconciler."""

from __future__ import annotations

from opsdk import Context, ObjectMeta, Operator, OperatorOptions
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Service
from opsdk.rbac.rules import applies, deletes, patches_status, records_events
from website.api import FINALIZER, Website
from website.children import config_map, deployment, is_rolled_out, service

DIRECTORY = "demo.opsdk.dev/directory"
"""The label of directory entries: ConfigMaps without an owner, so the finalizer must delete them."""


async def reconcile(site: Website, ctx: Context) -> None:
    """Apply the child objects of one Website, and report its state."""
    await ctx.apply(directory_entry(site), owner=None)
    await ctx.apply(config_map(site))
    await ctx.apply(service(site))
    live = await ctx.apply(deployment(site))
    ready, replicas = is_rolled_out(live, site), live.status.ready_replicas or 0
    async with ctx.status(site) as patch:
        patch.status.ready_replicas = replicas
        patch.status.image = site.spec.image if ready else patch.status.image
        message = f"{replicas} of {site.spec.replicas} replicas are ready"
        changed = patch.set_condition("Ready", ready, "Available" if ready else "RollingOut", message)
    if ready and changed:
        ctx.event("Available", f"serves {site.spec.image}")


async def leave_directory(site: Website, ctx: Context) -> None:
    """Delete the directory entry of a Website that is being deleted."""
    await ctx.client.delete(directory_entry(site), missing_ok=True)


def directory_entry(site: Website) -> ConfigMap:
    """Return the site's entry in the directory of its namespace."""
    name, namespace = f"directory-{site.metadata.name}", site.metadata.namespace
    meta = ObjectMeta(name=name, namespace=namespace, labels={DIRECTORY: "true"})
    return ConfigMap(metadata=meta, data={"site": site.metadata.name, "image": site.spec.image})


def make_operator(options: OperatorOptions | None = None) -> Operator:
    """Return the operator with its reconciler."""
    operator = Operator("website-operator", options)
    finalizers = {FINALIZER: leave_directory}
    writes = applies(Deployment, Service, ConfigMap)
    rbac = [writes, deletes(ConfigMap), patches_status(Website), records_events()]
    operator.reconciler(Website, owns=[Deployment, Service, ConfigMap], finalizers=finalizers, rbac=rbac)(reconcile)
    return operator
