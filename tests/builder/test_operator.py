"""A whole operator against a whole API server in this process."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from client_fakes import Site, SiteStatus, site
from prometheus_client import Counter

from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.builder.cache_report import check_caches
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cluster.cluster import Cluster
from opsdk.controller.context import Context
from opsdk.errors import UsageError
from opsdk.event.request import Request
from opsdk.recipes.owner_references import controller_of

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


def made(seen: list[str], **options: Any) -> Operator:
    """An operator that keeps a config map for each site."""
    operator = Operator("site-operator", OperatorOptions(**options))

    @operator.reconciler(Site, owns=[ConfigMap])
    async def reconcile(request: Request) -> None:
        seen.append(str(request))
        current = await operator.client.get_or_none(Site, request.key)
        if current is None:
            return
        spec = ConfigMap(
            metadata=ObjectMeta(name=request.name, namespace=request.namespace), data={"image": current.spec.image}
        )
        await operator.apply(spec, owner=current)
        if current.status is None:
            current.status = SiteStatus(ready=1)
            await operator.client.status().update(current)
            operator.recorder.event(current, "Normal", "Ready", "the site is ready")

    return operator


async def test_a_life() -> None:
    """Objects are kept as wanted, drift is undone, events are written, the lease is given back, nothing is left."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        client = outside.uncached
        await client.create(Unstructured.from_tree(crd_for(Site)))
        await client.create(site(namespace="default"))
        events: list[str] = []
        operator = made(events, leader_election=True, leader_election_namespace="default")
        running = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(30)
        child = await client.get(ConfigMap, "default/a")
        reference = controller_of(child)
        assert reference is not None
        assert (reference.kind, reference.name) == ("Site", "a")
        assert (await client.get(Site, "default/a")).status == SiteStatus(ready=1)
        await client.delete(child)
        await asyncio.sleep(5)
        assert (await client.get(ConfigMap, "default/a")).data == {"image": "nginx"}
        settled = len(events)
        await asyncio.sleep(600)
        assert len(events) == settled
        lease = await client.get(Lease, "default/site-operator")
        assert lease.spec.holder_identity
        operator.manager.stop()
        await running
        (event,) = await client.list(Event, namespace="default", field_selector="reason=Ready")
        assert (event.regarding.name, event.reporting_controller) == ("a", "site-operator")
        assert not (await client.get(Lease, "default/site-operator")).spec.holder_identity


async def test_an_operators_own_metrics_are_served() -> None:
    """Metrics in the operator's registry are served, and survive a second start."""
    operator = made([])
    orders = Counter("shop_orders", "Orders.", registry=operator.registry)
    async with environment.Environment() as env:
        for _ in range(2):
            manager = operator.prepare(env.config)
            orders.inc()
            await operator.cluster.aclose()
        assert b"shop_orders_total 2.0" in manager.metrics.expose()


async def test_metrics_and_health() -> None:
    """The page shows the controller, its queue and the requests; readiness follows the caches."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        await outside.uncached.create(Unstructured.from_tree(crd_for(Site)))
        await outside.uncached.create(site(namespace="default"))
        operator = made([])
        running = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(30)
        page = operator.manager.metrics.expose().decode()
        for line in (
            'controller_runtime_reconcile_total{controller="site",result="success"}',
            'controller_runtime_active_workers{controller="site"} 0.0',
            'workqueue_adds_total{controller="site",name="site"}',
            'rest_client_requests_total{code="200"',
            'opsdk_informer_ready{informer="sites.demo.opsdk.dev"} 1.0',
            'opsdk_informer_objects{informer="sites.demo.opsdk.dev"} 1.0',
        ):
            assert line in page
        await check_caches(operator.cluster.cache)
        operator.manager.stop()
        await running


def test_before_the_start_cluster_attributes_are_errors() -> None:
    """Before the start, attributes that need a cluster raise UsageError; an operator needs a name."""
    with pytest.raises(UsageError, match=r"test_operator\.py:\d+: the operator's name 'My Op' names its Lease"):
        Operator("My Op")
    with pytest.raises(UsageError, match="pass OperatorOptions"):
        Operator("shop", {"namespace": "a"})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs a name"):
        Operator("")
    operator = Operator("x")
    for attribute in ("client", "cluster", "manager", "recorder"):
        with pytest.raises(UsageError, match="not started"):
            getattr(operator, attribute)


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ({}, "ns of kubeconfig"),
        ({"namespace": "ns"}, "--namespace"),
        ({"leader_election_namespace": "ns"}, "--leader-election-namespace"),
    ],
)
async def test_a_forbidden_lease_names_the_source_of_its_namespace(
    options: dict[str, str], source: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A kubeconfig, or one of two flags."""
    operator = made([], leader_election=True, rbac_check="off", **options)
    async with environment.Environment() as env:
        config = env.add_user("nobody").config
        config = replace(config, namespace="ns", namespace_source="ns of kubeconfig")
        running = asyncio.create_task(operator.start(config))
        await asyncio.sleep(10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert any(f"in the namespace ns ({source}): run with" in record.getMessage() for record in caplog.records)


@pytest.mark.behaviour(115)
@pytest.mark.parametrize("step", range(0, 100, 7))
async def test_cancelled_at_any_moment_nothing_is_left(step: int) -> None:
    """The whole operator: every task and connection is gone."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        await outside.uncached.create(Unstructured.from_tree(crd_for(Site)))
        operator = made([], leader_election=True, leader_election_namespace="default")
        running = asyncio.create_task(operator.start(env.config))
        for _ in range(step):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()


def test_the_module_of_a_daemon_is_one_of_the_operator() -> None:
    """A recording says which code ran."""
    operator = Operator("daemons")

    @operator.daemon(ConfigMap)
    async def follow(config_map: ConfigMap, ctx: Context) -> None: ...

    assert operator.modules == {__name__}
