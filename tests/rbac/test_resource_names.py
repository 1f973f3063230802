"""What a rule with resource names allows, as the page says: the server and `Permission.covers` agree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from rbac_operator import install, rbac_server, service_account

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.selectors import FieldSelector
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ForbiddenError
from opsdk.rbac.manifests import RbacNames
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.rules import RbacRule

NAMES = RbacNames(name="x")


@asynccontextmanager
async def limited_to(name: str, verbs: str) -> AsyncIterator[Client]:
    """The client of a service account that may do something with one ConfigMap."""
    rule = RbacRule(verbs, ConfigMap, resource_names=[name], namespaces=["default"])
    async with rbac_server() as (env, admin):
        await install(admin, RuleSet(rule.permissions()), NAMES)
        async with Cluster(await service_account(env, admin, NAMES)) as cluster:
            yield cluster.uncached


def config_map(name: str) -> ConfigMap:
    """An object of the limited kind."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"a": "b"})


async def test_an_apply_may_create_the_named_object() -> None:
    """A create by server-side apply is authorized with the name; a POST is not, and so is refused."""
    async with limited_to("mine", "create patch") as client:
        with pytest.raises(ForbiddenError, match="cannot create resource"):
            await client.create(config_map("mine"))
        await client.apply(config_map("mine"), field_owner="x")
        with pytest.raises(ForbiddenError, match="cannot patch resource"):
            await client.apply(config_map("other"), field_owner="x")


async def test_a_list_needs_the_name_in_its_field_selector() -> None:
    """A list of the one object is allowed, a list of all is not."""
    async with limited_to("mine", "list") as client:
        assert not await client.list(
            ConfigMap, namespace="default", field_selector=FieldSelector.parse("metadata.name=mine")
        )
        with pytest.raises(ForbiddenError, match="cannot list resource"):
            await client.list(ConfigMap, namespace="default")
