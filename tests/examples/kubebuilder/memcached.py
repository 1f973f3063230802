"""A Deployment of memcached with a size, conditions, and an Event at its deletion."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta, field

from opsdk import (
    Condition,
    Context,
    ControllerOptions,
    GroupVersionKind,
    LabelSelector,
    Model,
    Object,
    ObjectMeta,
    Operator,
    TerminalError,
)
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core.v1 import (
    Capabilities,
    Container,
    ContainerPort,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    SeccompProfile,
    SecurityContext,
)


class MemcachedSpec(Model):
    """The desired state."""

    size: Annotated[int, Meta(ge=1, le=3)] = 3
    container_port: int = 11211


class MemcachedStatus(Model):
    """The observed state."""

    conditions: list[Condition] = field(default_factory=list)


class Memcached(Object[MemcachedSpec, MemcachedStatus]):
    """Servers of memcached."""

    gvk = GroupVersionKind("cache.opsdk.dev", "v1alpha1", "Memcached")
    plural = "memcacheds"


def deployment_of(memcached: Memcached) -> Deployment:
    """Return the Deployment. Its image comes from the environment."""
    if not (image := os.environ.get("MEMCACHED_IMAGE")):
        raise TerminalError("the variable MEMCACHED_IMAGE is not set: it names the image of memcached")
    labels = {"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": memcached.metadata.name}
    container = Container(
        name="memcached",
        image=image,
        command=["memcached", "-m=64", "-o", "modern", "-v"],
        ports=[ContainerPort(name="memcached", container_port=memcached.spec.container_port)],
        security_context=SecurityContext(
            run_as_non_root=True,
            run_as_user=1001,
            allow_privilege_escalation=False,
            capabilities=Capabilities(drop=["ALL"]),
        ),
    )
    security = PodSecurityContext(run_as_non_root=True, seccomp_profile=SeccompProfile(type="RuntimeDefault"))
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container], security_context=security)
    )
    spec = DeploymentSpec(replicas=memcached.spec.size, selector=LabelSelector(match_labels=labels), template=template)
    return Deployment(metadata=ObjectMeta(name=memcached.metadata.name), spec=spec)


async def say_goodbye(memcached: Memcached, ctx: Context) -> None:
    """Record the deletion before the object goes away."""
    async with ctx.status(memcached) as patch:
        patch.set_condition("Degraded", True, "Finalizing", "the object is being deleted")
    ctx.event("Deleting", f"{memcached.metadata.name} is being deleted", type="Warning")


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("memcached")

    @operator.reconciler(
        Memcached,
        owns=[Deployment],
        finalizers={"cache.opsdk.dev/finalizer": say_goodbye},
        options=ControllerOptions(ready_condition="Available", error_condition="Degraded"),
    )
    async def reconcile(memcached: Memcached, ctx: Context) -> None:
        await ctx.apply(deployment_of(memcached), ready=True)

    return operator
