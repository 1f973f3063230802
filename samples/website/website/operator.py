"""The reconciler."""

from __future__ import annotations

from opsdk import MergeFrom, ObjectMeta, Operator, OperatorOptions, Request, deep_copy
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Service
from opsdk.recipes import add_finalizer, is_condition_true, is_deleting, remove_finalizer, set_condition
from website.api import FINALIZER, Website, WebsiteStatus
from website.children import config_map, deployment, is_rolled_out, service

DIRECTORY = "demo.opsdk.dev/directory"
"""The label of directory entries: ConfigMaps that nobody owns, so taking them out is the finalizer's work."""


class WebsiteReconciler:
    """Makes a Website's world as it wants it."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    async def reconcile(self, request: Request) -> None:
        """Look at one Website."""
        client = self.operator.client
        site = await client.get_or_none(Website, request.key)
        if site is None:
            return
        if is_deleting(site):
            await self._clean_up(site)
            return
        before = deep_copy(site)
        if add_finalizer(site, FINALIZER):
            await client.patch(site, MergeFrom(before, optimistic_lock=True))
        await self.operator.ensure(directory_entry(site))
        await self.operator.ensure(config_map(site), owner=site)
        await self.operator.ensure(service(site), owner=site)
        live = await self.operator.ensure(deployment(site), owner=site)
        await self._tell(site, live)

    async def _tell(self, site: Website, live: Deployment) -> None:
        """Write the status, if it changed, and an Event when the site becomes ready or stops being so."""
        before = deep_copy(site)
        status = site.status = site.status or WebsiteStatus()
        ready = is_rolled_out(live, site)
        was_ready = is_condition_true(status.conditions, "Ready")
        status.ready_replicas = live.status.ready_replicas or 0
        status.observed_generation = site.metadata.generation
        if ready:
            status.image = site.spec.image
        set_condition(
            status.conditions,
            "Ready",
            ready,
            "Available" if ready else "RollingOut",
            f"{status.ready_replicas} of {site.spec.replicas} replicas are ready",
            observed_generation=site.metadata.generation,
        )
        if before.status != site.status:
            await self.operator.client.status().patch(site, MergeFrom(before))
        if ready and not was_ready:
            self.operator.recorder.event(site, "Normal", "Available", f"serves {site.spec.image}")

    async def _clean_up(self, site: Website) -> None:
        """Leave the directory, then let go."""
        if FINALIZER not in site.metadata.finalizers:
            return
        await self.operator.client.delete(directory_entry(site), missing_ok=True)
        before = deep_copy(site)
        remove_finalizer(site, FINALIZER)
        await self.operator.client.patch(site, MergeFrom(before, optimistic_lock=True))


def directory_entry(site: Website) -> ConfigMap:
    """What the namespace's directory says of the site."""
    name, namespace = f"directory-{site.metadata.name}", site.metadata.namespace
    meta = ObjectMeta(name=name, namespace=namespace, labels={DIRECTORY: "true"})
    return ConfigMap(metadata=meta, data={"site": site.metadata.name, "image": site.spec.image})


def make_operator(options: OperatorOptions | None = None) -> Operator:
    """The operator, ready to run."""
    operator = Operator("website-operator", options)

    @operator.setup
    def controllers(operator: Operator) -> None:
        builder = operator.controller_for(Website).reconciler(WebsiteReconciler(operator))
        for kind in (Deployment, Service, ConfigMap):
            builder.owns(kind)
        builder.complete()

    return operator
