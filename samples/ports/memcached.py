"""memcached-operator of operator-sdk, which is written in Go with controller-runtime."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta, field

from opsdk import Condition, Context, GroupVersionKind, LabelSelector, Model, Object, ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core import v1 as core
from opsdk.apimachinery.crd import Rule
from opsdk.rbac.rules import applies, patches_status, records_events

FINALIZER = "cache.example.com/finalizer"


class MemcachedSpec(Model, kw_only=True):
    """The desired servers."""

    size: Annotated[int, Meta(ge=1, le=5)]
    container_port: Annotated[int, Meta(ge=1, le=65535)] = 11211


class MemcachedStatus(Model, kw_only=True):
    """The observed servers."""

    conditions: list[Condition] = field(default_factory=list)


class Memcached(Object[MemcachedSpec, MemcachedStatus]):
    """Servers of one cache."""

    rules = (Rule("size(self.metadata.name) <= 63", message="the name is a label of the Pods"),)
    gvk = GroupVersionKind("cache.example.com", "v1alpha1", "Memcached")


def deployment(cache: Memcached, image: str) -> Deployment:
    """Return the Deployment of the servers. Its Pods satisfy the restricted Pod security standard."""
    # Upstream's labels lack the instance, so the Deployments of two caches select each other's Pods.
    labels = {"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": cache.metadata.name}
    container = core.Container(
        name="memcached",
        image=image,
        command=["memcached", "-m=64", "-o", "modern", "-v"],
        ports=[core.ContainerPort(name="memcached", container_port=cache.spec.container_port)],
        security_context=core.SecurityContext(
            run_as_non_root=True,
            run_as_user=1001,
            allow_privilege_escalation=False,
            capabilities=core.Capabilities(drop=["ALL"]),
        ),
    )
    profile = core.SeccompProfile(type="RuntimeDefault")
    pod = core.PodSpec(
        containers=[container],
        security_context=core.PodSecurityContext(run_as_non_root=True, seccomp_profile=profile),
    )
    spec = DeploymentSpec(
        replicas=cache.spec.size,
        selector=LabelSelector(match_labels=labels),
        template=core.PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=pod),
    )
    return Deployment(metadata=ObjectMeta(name=cache.metadata.name, labels=labels), spec=spec)


async def reconcile(cache: Memcached, ctx: Context) -> None:
    """Apply the Deployment and report whether it is available."""
    live = await ctx.apply(deployment(cache, os.environ.get("MEMCACHED_IMAGE", "memcached:1.6")))
    available = live.status.available_replicas or 0
    async with ctx.status(cache) as patch:
        is_available = available >= cache.spec.size
        text = f"{available} of {cache.spec.size} servers are available"
        patch.set_condition("Available", is_available, "Available" if is_available else "Progressing", text)


async def announce_deletion(cache: Memcached, ctx: Context) -> None:
    """Record an Event before the cache goes. Its Deployment has an owner reference, and goes with it."""
    ctx.event("Deleting", f"{cache.metadata.name} is being deleted", type="Warning")


operator = Operator("memcached")
operator.reconciler(
    Memcached,
    owns=[Deployment],
    finalizers={FINALIZER: announce_deletion},
    rbac=[applies(Deployment), patches_status(Memcached), records_events()],
)(reconcile)

if __name__ == "__main__":
    operator.main()
