"""What type checkers infer. `make types` reads this file; an ignore comment that is not needed is an error there."""

from __future__ import annotations

from functools import partial
from typing import Any, assert_type

import pytest

from envtest import Environment
from envtest.external.clusters import ClusterTarget
from opsdk import (
    BlockingContext,
    ByObject,
    CacheOptions,
    Client,
    Cluster,
    Context,
    ControllerBuilder,
    GroupVersionKind,
    Model,
    Object,
    ObjectList,
    Operator,
    Request,
    Result,
    Unstructured,
    UsageError,
    crd_for,
)
from opsdk.aio.blocking import blocking
from opsdk.api.apps.v1 import Deployment, DeploymentStatus
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.api.rbac.v1 import Role
from opsdk.apimachinery.kinds import metadata_only, unstructured_kind
from opsdk.builder.arguments import OwnsSpec
from opsdk.controller.status import StatusPatch
from opsdk.rbac.rules import applies, patches_status, reads
from opsdk.recipes import create_crds
from opsdk.testing.eventually import eventually

OWNED = [ConfigMap, Role]
MIXED_OWNED = [ConfigMap, metadata_only(Secret), OwnsSpec(kind=Role)]


class SiteStatus(Model):
    """A status."""

    ready: int = 0


class Site(Object[Model, SiteStatus]):
    """A kind."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Site")


class OptionalSite(Object[Model, SiteStatus | None]):
    """A kind whose class says that its status may be missing."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "OptionalSite")


async def of_optional_sites(site: OptionalSite, ctx: Context) -> None:
    """Change a status: inside the block it is never None."""
    assert_type(site.status, SiteStatus | None)
    async with ctx.status(site) as patch:
        assert_type(patch.status, SiteStatus)


def of_sites_in_threads(site: Site, ctx: BlockingContext) -> None:
    """Reconcile sites in a thread: the methods return what those of `Context` return when they are awaited."""
    assert_type(ctx.client.get(Site, "default/a"), Site)
    assert_type(ctx.client.list(Site), ObjectList[Site])
    assert_type(ctx.client.create(site), Site)
    assert_type(ctx.client.status().update(site), Site)
    assert_type(ctx.apply(Deployment()), Deployment)
    assert_type(ctx.run(ctx.target.client.get(Site, "default/a")), Site)
    for other in ctx.client.list_pages(Site):
        assert_type(other, Site)
    with ctx.client.watch(Site) as events:
        assert_type(next(events).object, Site)
    with ctx.status(site) as patch:
        assert_type(patch.status, SiteStatus)
    ctx.client.get(Site)  # type: ignore[call-arg]


def of_config_maps_in_threads(config_map: ConfigMap, ctx: BlockingContext) -> Result | None:
    """Reconcile config maps in a thread."""
    return None


@blocking
def map_in_thread(config_map: ConfigMap) -> list[Request]:
    """Map in a thread."""
    return []


async def of_sites(site: Site, ctx: Context) -> None:
    """Reconcile sites."""


async def of_config_maps(config_map: ConfigMap, ctx: Context) -> None:
    """Reconcile config maps."""


async def of_requests(request: Request) -> None:
    """Reconcile requests."""


class SiteReconciler:
    """Reconciles sites."""

    async def reconcile(self, site: Site, ctx: Context) -> None:
        """Do nothing."""


class ThreadReconciler:
    """Reconciles sites in threads."""

    def reconcile(self, site: Site, ctx: BlockingContext) -> None:
        """Do nothing."""


class ConfigMapReconciler:
    """Reconciles config maps."""

    async def reconcile(self, config_map: ConfigMap, ctx: Context) -> None:
        """Do nothing."""


def of_builder(builder: ControllerBuilder[Any]) -> None:
    """The builder knows the kind after for_()."""
    sites = builder.for_(Site)
    assert_type(sites, ControllerBuilder[Site])
    assert_type(builder.for_(unstructured_kind("v1", "Thing")), ControllerBuilder[Unstructured])
    sites.reconciler(of_sites)
    sites.reconciler(of_requests)
    sites.reconciler(SiteReconciler())
    sites.reconciler(of_sites_in_threads)
    sites.reconciler(ThreadReconciler())
    sites.reconciler(of_config_maps_in_threads)  # type: ignore[arg-type]
    sites.watches(ConfigMap, map_in_thread)
    sites.reconciler(of_config_maps)  # type: ignore[arg-type]
    sites.reconciler(ConfigMapReconciler())  # type: ignore[arg-type]


async def of_context(ctx: Context, site: Site, deployment: Deployment, tree: Unstructured) -> None:
    """The status has the class of the object's status; apply() returns the class of its argument."""
    assert_type(ctx.status(site), StatusPatch[SiteStatus])
    assert_type(ctx.status(deployment), StatusPatch[DeploymentStatus])
    assert_type(ctx.status(tree), StatusPatch[dict[str, Any]])
    assert_type(await ctx.apply(deployment), Deployment)
    async with ctx.status(site) as patch:
        patch.status.ready = 3
        patch.status.readiness = 3  # type: ignore[attr-defined]


async def of_tests(env: Environment, target: ClusterTarget, client: Client) -> None:
    """A test gets the value that passed: it is not None unless a check accepts None."""

    async def optional() -> ConfigMap | None:
        return await client.get_or_none(ConfigMap, "default/a")

    async def is_gone() -> None:
        assert await optional() is None

    assert_type(await env.eventually(lambda: client.get(ConfigMap, "default/a")), ConfigMap)
    assert_type(await target.eventually(lambda: client.get(ConfigMap, "default/a")), ConfigMap)
    assert_type(await target.eventually(optional, bool, within=1, interval=0.1), ConfigMap | None)
    assert_type(await env.eventually(partial(client.get, ConfigMap, "default/a")), ConfigMap)
    assert_type(await env.eventually(optional), ConfigMap)
    assert_type(await eventually(optional), ConfigMap)
    assert_type(await eventually(optional, bool), ConfigMap | None)
    assert_type(await eventually(lambda: "a" in {"a": 1}), bool)
    await env.eventually(is_gone)
    await env.eventually(partial(is_gone))
    await env.consistently(is_gone)
    await env.consistently(lambda: client.get(ConfigMap, "default/a"), lambda current: current.data)


def of_mappings() -> None:
    """Classes and GroupVersionKinds are keys, in a mapping that has a name too."""
    by_class = {ConfigMap: ByObject(), Deployment: ByObject()}
    CacheOptions(by_kind=by_class)
    CacheOptions(by_kind={ConfigMap: ByObject()})
    CacheOptions(by_kind={ConfigMap.gvk: ByObject(), Deployment: ByObject()})


async def of_lists(operator: Operator, cluster: Cluster, ctx: Context) -> None:
    """A list of classes is an argument wherever kinds are, in a variable too."""
    children, sites = [ConfigMap, Deployment], [Site, OptionalSite]
    operator.rbac(applies(*children), reads(*children), patches_status(*sites))
    operator.register(*sites)
    await ctx.apply_all([], prune=children)
    await create_crds(cluster.uncached, sites)
    crd_for(*sites)
    [crd_for(site) for site in sites]


def test_the_decorator_refuses_at_run_time_what_the_checker_refuses() -> None:
    """A reconciler of another kind is refused by both; the decorator returns its function."""
    operator = Operator("types")
    assert operator.reconciler(Site)(of_sites) is of_sites
    assert operator.reconciler(Site)(of_requests) is of_requests
    assert operator.reconciler(Site)(SiteReconciler) is SiteReconciler
    assert operator.reconciler(Site)(of_sites_in_threads) is of_sites_in_threads
    assert operator.reconciler(Site)(ThreadReconciler) is ThreadReconciler
    assert operator.daemon(Site)(of_sites) is of_sites
    assert operator.daemon(Site)(of_sites_in_threads) is of_sites_in_threads
    operator.daemon(ConfigMap)(of_config_maps)
    operator.daemon(ConfigMap)(of_sites)  # type: ignore[arg-type]
    operator.daemon(ConfigMap)(of_sites_in_threads)  # type: ignore[arg-type]
    operator.reconciler(Site, owns=OWNED)(of_sites)
    with pytest.raises(UsageError, match=r"write owns=\[ConfigMap\]"):
        operator.reconciler(Site, owns=ConfigMap)  # type: ignore[call-overload]
    with pytest.raises(UsageError):
        operator.reconciler(Site)(of_config_maps)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="takes a ConfigMap"):
        operator.reconciler(Site)(of_config_maps_in_threads)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"reconciler\(\) does not take own: it takes owns, watches"):
        operator.reconciler(Site, own=[ConfigMap])  # type: ignore[call-overload]
