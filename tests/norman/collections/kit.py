"""Objects as a cache holds them, a running cluster, and permissions of users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

import envtest
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cache.entry import StoreEntry, make_entry
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.norman.collections.column import Reader
from opsdk.norman.collections.field_path import FieldPath, cell_at
from opsdk.norman.collections.filter import FilterCondition, FilterOperator, OrFilter
from opsdk.norman.collections.query import ID

RBAC = "rbac.authorization.k8s.io"


def entry(name: str, namespace: str = "", revision: int = 1, **parts: Any) -> StoreEntry:
    """An entry of an object with these top-level parts; `labels` go into the metadata."""
    metadata = {"name": name, "resourceVersion": str(revision), "uid": name, "labels": parts.pop("labels", {})}
    if namespace:
        metadata["namespace"] = namespace
    stored, _ = make_entry(msgspec.json.encode({"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **parts}))
    return stored


def reader(path: FieldPath) -> Reader:
    """The reader of a field of the stored object; the id is namespace and name."""
    return lambda item: str(item.key) if path == ID else cell_at(msgspec.json.decode(item.data), path)


def only(operator: FilterOperator, field: str, *values: str) -> OrFilter:
    """One condition on a field, whose names have no dots."""
    return (FilterCondition(tuple(field.split(".")), operator, values),)


@asynccontextmanager
async def running_cluster(env: envtest.Environment) -> AsyncIterator[Cluster]:
    """A started cluster of the admin."""
    async with Cluster(env.config) as cluster:
        running = asyncio.create_task(cluster.start())
        try:
            await cluster.wait_ready()
            yield cluster
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def grant(client: Client, user: str, *rules: PolicyRule, namespace: str = "", name: str = "grant") -> None:
    """Give a user a role with these rules, in a namespace or everywhere."""
    role, binding = (Role, RoleBinding) if namespace else (ClusterRole, ClusterRoleBinding)
    metadata = ObjectMeta(name=f"{name}-{user}", namespace=namespace)
    await client.create(role(metadata=metadata, rules=list(rules)))
    ref = RoleRef(api_group=RBAC, kind=role.__name__, name=metadata.name)
    subjects = [Subject(kind="User", name=user, api_group=RBAC)]
    await client.create(
        binding(metadata=ObjectMeta(name=metadata.name, namespace=namespace), role_ref=ref, subjects=subjects)
    )


async def revoke(client: Client, user: str, *, namespace: str = "", name: str = "grant") -> None:
    """Delete the binding that `grant` created."""
    kind = RoleBinding if namespace else ClusterRoleBinding
    await client.delete(kind, f"{namespace}/{name}-{user}" if namespace else f"{name}-{user}")


def rule(*verbs: str, group: str = "", resource: str = "configmaps", names: Sequence[str] = ()) -> PolicyRule:
    """A rule about one resource."""
    return PolicyRule(verbs=list(verbs), api_groups=[group], resources=[resource], resource_names=list(names))


async def config_map(client: Client, namespace: str, name: str, **data: str) -> ConfigMap:
    """Create a ConfigMap."""
    return await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data))
