"""The open lists of a store on the embedded server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sized

import pytest
from msgspec.structs import replace

import envtest
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.errors import NoMatchError
from opsdk.norman.collections.field_path import cell_at
from opsdk.norman.collections.kind_list import ListForm
from opsdk.norman.collections.kind_lists import KindLists
from tests.norman.collections.kit import config_map, running_cluster

CONFIG_MAPS = unstructured_kind("v1", "ConfigMap")
FORM = ListForm("columns", lambda path: lambda item: cell_at({}, path), lambda tree: tree)


async def test_a_list_is_opened_once_and_anew_for_another_form() -> None:
    """A list of another form replaces the old one; its informer keeps running for other users."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, KindLists(cluster) as lists:
        await config_map(cluster.uncached, "default", "a")
        opened = await lists.open("configmap", CONFIG_MAPS.gvk, FORM)
        assert await lists.open("configmap", CONFIG_MAPS.gvk, FORM) is opened
        assert lists.get("configmap") is opened
        informer = await cluster.cache.informer_for(CONFIG_MAPS)
        another = await lists.open("configmap", CONFIG_MAPS.gvk, replace(FORM, source="other columns"))
        assert another is not opened
        assert await cluster.cache.informer_for(CONFIG_MAPS) is informer
        assert "1 open" in repr(lists)


async def test_closed_lists_take_no_memory() -> None:
    """After a churn of keys, no container of the closed lists holds one of them."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, KindLists(cluster) as lists:
        for number in range(20):
            await lists.open(f"kind-{number}", CONFIG_MAPS.gvk, FORM)
            with pytest.raises(NoMatchError):
                await lists.open(f"unknown-{number}", GroupVersionKind("demo.dev", "v1", "Unknown"), FORM)
        await lists.aclose()
        held = {name: len(value) for name, value in vars(lists).items() if isinstance(value, Sized)}
        assert held == dict.fromkeys(held, 0)
        assert "_locks" in held


async def test_requests_of_one_key_open_one_list() -> None:
    """Concurrent requests for one key open one list."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, KindLists(cluster) as lists:
        requests = [lists.open("configmap", CONFIG_MAPS.gvk, FORM) for _ in range(5)]
        opened = await asyncio.gather(*requests)
        opened.append(await lists.open("configmap", CONFIG_MAPS.gvk, FORM))
        assert len(set(map(id, opened))) == 1
