"""The open lists of a dialect on the embedded server, in virtual time."""

from __future__ import annotations

from stevekit import config_map, running_cluster

import envtest
from opsdk.apimachinery.kinds import unstructured
from opsdk.norman.collections.field_path import cell_at
from opsdk.norman.collections.kind_lists import KindLists, ListForm

CONFIG_MAPS = unstructured("v1", "ConfigMap")
FORM = ListForm(lambda path: lambda item: cell_at({}, path), lambda tree: tree)


async def test_a_list_is_opened_once_and_anew_for_another_form() -> None:
    """A list of another source is closed; its informer goes on, because other parts of the program may use it."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, KindLists(cluster) as lists:
        await config_map(cluster.uncached, "default", "a")
        opened = await lists.open("configmap", CONFIG_MAPS, "columns", lambda: FORM)
        assert await lists.open("configmap", CONFIG_MAPS, "columns", lambda: FORM) is opened
        informer = await cluster.cache.informer_for(CONFIG_MAPS)
        await lists.retain({"configmap": "columns"})
        assert lists.get("configmap") is opened
        await lists.retain({"configmap": "other columns"})
        assert lists.get("configmap") is None
        another = await lists.open("configmap", CONFIG_MAPS, "other columns", lambda: FORM)
        assert another is not opened
        assert await cluster.cache.informer_for(CONFIG_MAPS) is informer
        assert "1 open" in repr(lists)


async def test_the_informer_of_a_kind_that_is_not_served_stops_with_its_list() -> None:
    """A type that comes back is listed again."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, KindLists(cluster) as lists:
        await lists.open("configmap", CONFIG_MAPS, "columns", lambda: FORM)
        informer = await cluster.cache.informer_for(CONFIG_MAPS)
        await lists.retain({})
        assert lists.get("configmap") is None
        assert await cluster.cache.informer_for(CONFIG_MAPS) is not informer
