"""An operator that runs as its service account, with the permissions of a rule set and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import envtest
from opsdk.api.authentication.v1 import TokenRequest
from opsdk.api.core.v1 import Namespace, ServiceAccount
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import TypedObject
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.errors import AlreadyExistsError, NotFoundError
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import RuleSet
from opsdk.rest.config import RestConfig

Check = Callable[[], Awaitable[bool]]


@asynccontextmanager
async def rbac_server(**options: object) -> AsyncIterator[tuple[envtest.Environment, Client]]:
    """A server that also checks owner references, and the client of its admin."""
    plugins = "OwnerReferencesPermissionEnforcement"
    async with (
        envtest.Environment(controllers="cluster", admission_plugins=plugins, **options) as env,
        Cluster(env.config) as admin,
    ):
        yield env, admin.uncached


async def install(client: Client, rules: RuleSet, names: RbacNames) -> Sequence[TypedObject]:
    """Create the namespaces and the manifests."""
    for namespace in sorted({names.namespace, *rules.namespaces} - {"", "default"}):
        with suppress(AlreadyExistsError):
            await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
    objects = manifests(rules, names)
    for obj in objects:
        await client.create(obj)
    return objects


async def service_account(env: envtest.Environment, client: Client, names: RbacNames) -> RestConfig:
    """The configuration of a pod that runs as the service account of the manifests."""
    account = await client.get(ServiceAccount, f"{names.namespace}/{names.service_account or names.name}")
    token = await client.subresource("token").create(account, TokenRequest())
    assert token.status.token
    return replace(env.config_for(token.status.token), namespace=names.namespace)


async def until(check: Check, seconds: float = 60.0) -> None:
    """Wait in virtual time until `check` holds. An object that does not exist yet does not end the wait."""
    async with asyncio.timeout(seconds):
        while True:
            with suppress(NotFoundError):
                if await check():
                    return
            await asyncio.sleep(0.05)
