"""Twenty upgrades that were accidents somewhere, and twenty that are harmless."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from opsdk import Context, GroupVersionKind, Model, Object, Operator
from opsdk.aio.clock import utc_now
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.engine.plan import ConsequenceKind as Kind
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.structured_merge.value import JsonObject
from tests.engine.upgrades import (
    App,
    AppSpec,
    AppStatus,
    Version,
    claim,
    config,
    secret,
    service,
    workload,
)

STATEFUL_SET = unstructured_kind("apps/v1", "StatefulSet")
SERVICE = unstructured_kind("v1", "Service")
NAMESPACE = unstructured_kind("v1", "Namespace")
NODE = unstructured_kind("v1", "Node")


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """From one version to the next.

    Attributes:
        old: the version that made the state.
        new: the version that is planned.
        kind: the consequence that a plan must show; None for a harmless upgrade.
        apps: number of Apps.
        more: other objects of the cluster.
    """

    old: Version
    new: Version
    kind: Kind | None = None
    apps: int = 1
    more: Sequence[JsonObject] = field(default=())


# ---------------------------------------------------------------- hooks
async def recreate_set(app: Any, ctx: Context) -> None:
    """Delete the StatefulSet when its claim template differs: the API does not change it."""
    existing = await ctx.client.get_or_none(STATEFUL_SET, app.metadata.name, namespace="default", uncached=True)
    if existing is not None and not existing["spec"].get("volumeClaimTemplates"):
        await ctx.client.delete(existing)


async def recreate_service(app: Any, ctx: Context) -> None:
    """Delete the Service of the former version."""
    existing = await ctx.client.get_or_none(SERVICE, app.metadata.name, namespace="default", uncached=True)
    if existing is not None and "migrated" not in existing.metadata.annotations:
        await ctx.client.delete(existing)


async def delete_namespace(_: Any, ctx: Context) -> None:
    """Clean up a namespace of the former version."""
    await ctx.client.delete(NAMESPACE, "tenant", missing_ok=True)


async def list_nodes(_: Any, ctx: Context) -> None:
    """Read what the role does not allow."""
    await ctx.client.list(NODE, uncached=True)


async def forget(_: Any, __: Context) -> None:
    """Handle a finalizer."""


def fail_at_the_start(operator: Operator) -> None:
    """Add a setup function that does not find its setting."""

    @operator.setup
    async def setup(_: Operator) -> AsyncIterator[None]:
        await asyncio.sleep(1)
        if "REGION" not in os.environ:
            raise KeyError("REGION")
        yield


def add_rival(operator: Operator) -> None:
    """Add a second controller that has another opinion of the same field."""

    @operator.reconciler(App, name="scaler", owns=[STATEFUL_SET])
    async def scale(app: App, ctx: Context) -> None:
        existing = await ctx.client.get_or_none(STATEFUL_SET, app.metadata.name, namespace="default")
        if existing is not None and existing["spec"]["replicas"] != 5:
            existing["spec"]["replicas"] = 5
            await ctx.client.update(existing)


async def write_status(app: Any, ctx: Context) -> None:
    """Write a text that does not change."""
    async with ctx.status(app) as patch:
        patch.status.text = "ready"


# ---------------------------------------------------------------- kinds
class SmallSpec(Model):
    """A spec without the field ``backup``."""

    image: str = "app:1"


class SmallApp(Object[SmallSpec, AppStatus]):
    """An App whose definition has lost a field."""

    gvk = App.gvk


class StrictStatus(Model):
    """A status that needs a field which the former version does not write."""

    phase: str
    text: str = ""
    checks: int = 0


class AppV2(Object[AppSpec, AppStatus]):
    """The App in another version, without the former one."""

    gvk = GroupVersionKind("apps.example.com", "v2", "App")


def one(kind: str, **changes: Any) -> Version:
    """Return a version whose App has one workload."""
    return Version(children=lambda name: [workload(kind, name, **changes)])


def with_service(selector: JsonObject | None = None) -> Version:
    """Return a version whose App has a Deployment and a Service."""
    changes = {"selector": selector} if selector else {}
    return Version(children=lambda name: [workload("Deployment", name), service(name, **changes)])


_PVC = {"metadata": {"name": "data"}, "spec": claim("data")["spec"]}
_BASE = Version(children=lambda name: [workload("StatefulSet", name), config(name, key="1"), service(name)])

ACCIDENTS = {
    "a label restarts a StatefulSet": Upgrade(
        old=one("StatefulSet"), new=one("StatefulSet", annotations={"version": "2"}), kind=Kind.PODS_RESTART
    ),
    "an agent restarts on each node": Upgrade(
        old=one("DaemonSet"), new=one("DaemonSet", image="app:2"), kind=Kind.PODS_RESTART
    ),
    "all tenants restart at once": Upgrade(
        old=one("Deployment"), new=one("Deployment", annotations={"version": "2"}), kind=Kind.PODS_RESTART, apps=6
    ),
    "a StatefulSet is replaced": Upgrade(
        old=one("StatefulSet"),
        new=Version(
            children=lambda name: [workload("StatefulSet", name, volumeClaimTemplates=[_PVC])], before=recreate_set
        ),
        kind=Kind.REPLACED,
    ),
    "a Service is replaced": Upgrade(
        old=with_service(),
        new=Version(
            children=lambda name: [
                workload("Deployment", name),
                service(name) | {"metadata": {"name": name, "annotations": {"migrated": "true"}}},
            ],
            before=recreate_service,
        ),
        kind=Kind.REPLACED,
    ),
    "a claim is pruned": Upgrade(
        old=Version(children=lambda name: [claim(name)]), new=Version(), kind=Kind.DATA_DELETED
    ),
    "a namespace is cleaned up": Upgrade(
        old=Version(),
        new=Version(before=delete_namespace),
        kind=Kind.DATA_DELETED,
        more=[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}],
    ),
    "a definition loses a field": Upgrade(old=Version(), new=Version(kind=SmallApp), kind=Kind.FIELD_PRUNED),
    "a definition loses a version": Upgrade(old=Version(), new=Version(kind=AppV2), kind=Kind.OPERATOR_FAILED),
    "a label selector is renamed": Upgrade(
        old=one("Deployment"), new=one("Deployment", selector={"application": "x"}), kind=Kind.REFUSED
    ),
    "children are renamed": Upgrade(
        old=one("Deployment"),
        new=Version(children=lambda name: [workload("Deployment", f"{name}-web")]),
        kind=Kind.WORKLOAD_DELETED,
    ),
    "a default becomes zero": Upgrade(old=one("Deployment"), new=one("Deployment", replicas=0), kind=Kind.PODS_REMOVED),
    "a default becomes smaller": Upgrade(
        old=one("StatefulSet", replicas=3), new=one("StatefulSet", replicas=1), kind=Kind.PODS_REMOVED
    ),
    "a finalizer is dropped": Upgrade(
        old=Version(finalizers={"apps.example.com/dns": forget}), new=Version(), kind=Kind.FINALIZER_HANGS
    ),
    "a Service selects nothing": Upgrade(
        old=with_service(), new=with_service({"application": "x"}), kind=Kind.SERVICE_WITHOUT_PODS
    ),
    "two controllers fight": Upgrade(
        old=one("StatefulSet"),
        new=Version(children=lambda name: [workload("StatefulSet", name)], customize=add_rival),
        kind=Kind.FIGHT,
    ),
    "a child has the time": Upgrade(
        old=Version(),
        new=Version(children=lambda name: [config(name, at=utc_now().isoformat())]),
        kind=Kind.LOOP,
    ),
    "a permission is missing": Upgrade(
        old=Version(),
        new=Version(before=list_nodes, rules=RuleSet([Permission("*", "apps.example.com", "*")])),
        kind=Kind.REFUSED,
    ),
    "the operator does not start": Upgrade(
        old=Version(), new=Version(customize=fail_at_the_start), kind=Kind.OPERATOR_FAILED
    ),
    "a password is generated again": Upgrade(
        old=Version(children=lambda name: [secret(name, password="first")]),
        new=Version(children=lambda name: [secret(name, password="second")]),
        kind=Kind.SECRET_CHANGED,
    ),
}

HARMLESS = {
    "nothing changes": Upgrade(old=_BASE, new=_BASE),
    "a ConfigMap is added": Upgrade(
        old=one("Deployment"), new=Version(children=lambda name: [workload("Deployment", name), config(name, a="1")])
    ),
    "a ConfigMap goes": Upgrade(
        old=Version(children=lambda name: [workload("Deployment", name), config(name, a="1")]), new=one("Deployment")
    ),
    "a key is added": Upgrade(
        old=_BASE,
        new=Version(
            children=lambda name: [workload("StatefulSet", name), config(name, key="1", more="2"), service(name)]
        ),
    ),
    "a workload gets a label": Upgrade(old=one("StatefulSet"), new=one("StatefulSet", labels={"team": "a"})),
    "a Deployment has a new image": Upgrade(old=one("Deployment"), new=one("Deployment", image="app:2")),
    "a workload grows": Upgrade(old=one("StatefulSet"), new=one("StatefulSet", replicas=3)),
    "a budget is added": Upgrade(
        old=one("Deployment"),
        new=Version(
            children=lambda name: [
                workload("Deployment", name),
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": name},
                    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
                },
            ]
        ),
    ),
    "a Service is added": Upgrade(old=one("Deployment"), new=with_service()),
    "a Service gets a port": Upgrade(
        old=with_service(),
        new=Version(
            children=lambda name: [
                workload("Deployment", name),
                service(name, ports=[{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]),
            ]
        ),
    ),
    "a finalizer is added": Upgrade(
        old=one("Deployment"),
        new=Version(children=lambda name: [workload("Deployment", name)], finalizers={"apps.example.com/dns": forget}),
    ),
    "a finalizer stays": Upgrade(
        old=Version(finalizers={"apps.example.com/dns": forget}),
        new=Version(finalizers={"apps.example.com/dns": forget}),
    ),
    "Pods count later": Upgrade(old=one("Deployment"), new=one("Deployment", minReadySeconds=5)),
    "a claim grows": Upgrade(
        old=Version(children=lambda name: [claim(name)]), new=Version(children=lambda name: [claim(name)])
    ),
    "a status is written once": Upgrade(old=Version(), new=Version(after=write_status)),
    "a revision history is shorter": Upgrade(old=one("StatefulSet"), new=one("StatefulSet", revisionHistoryLimit=3)),
    "a Secret is added": Upgrade(
        old=one("Deployment"), new=Version(children=lambda name: [workload("Deployment", name), secret(name, a="1")])
    ),
    "many Apps get a label": Upgrade(old=one("Deployment"), new=one("Deployment", labels={"team": "a"}), apps=12),
    "a Job is added": Upgrade(
        old=one("Deployment"),
        new=Version(
            children=lambda name: [
                workload("Deployment", name),
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": name},
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "app:1"}]}
                        }
                    },
                },
            ]
        ),
    ),
    "the permissions are smaller": Upgrade(
        old=one("Deployment"),
        new=Version(
            children=lambda name: [workload("Deployment", name)],
            rules=RuleSet(
                [Permission("*", group, "*") for group in ("", "apps", "batch", "policy", "apps.example.com")]
            ),
        ),
    ),
}
