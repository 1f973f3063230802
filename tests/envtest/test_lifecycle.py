"""Environments in a row and at the same time; definitions from files."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

import pytest
import yaml
from client_fakes import Site

from envtest import Environment
from opsdk import Cluster, Unstructured, crd_for
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.client.patch import merge_patch
from opsdk.errors import ConfigError

CRD = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def open_files() -> int:
    """Return the number of open file descriptors of this process."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.behaviour(141, better="There are no processes that could be left behind.")
async def test_twenty_lives_leave_nothing() -> None:
    """Twenty environments in a row serve on separate ports, and leave no task, thread or socket."""
    async with Environment() as env:
        await env.serve()  # what is loaded once is loaded now
    before = (len(asyncio.all_tasks()), threading.active_count(), open_files())
    for _ in range(20):
        async with Environment() as env, Cluster(env.config) as cluster:
            await env.serve()
            assert len(await cluster.uncached.list(unstructured_kind("v1", "Namespace"))) >= 4
    await asyncio.sleep(0.1)
    assert (len(asyncio.all_tasks()), threading.active_count(), open_files()) == before


@pytest.mark.realtime
@pytest.mark.behaviour(141, better="There are no processes that could be left behind.")
async def test_four_environments_side_by_side_do_not_meet() -> None:
    """Environments at the same time have separate ports and objects."""

    async def life(name: str) -> tuple[str, list[str]]:
        async with Environment() as env, Cluster(env.config) as cluster:
            address = str(await env.serve())
            await cluster.uncached.create(
                Unstructured.from_tree({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            )
            await asyncio.sleep(0.1)
            namespaces = await cluster.uncached.list(unstructured_kind("v1", "Namespace"))
            return address, [n.metadata.name for n in namespaces if n.metadata.name.startswith("own-")]

    results = await asyncio.gather(*(life(f"own-{number}") for number in range(4)))
    assert len({address for address, _ in results}) == 4
    assert [names for _, names in results] == [[f"own-{number}"] for number in range(4)]


@pytest.mark.behaviour(141, better="There are no processes that could be left behind.")
async def test_definitions_are_read_from_files_and_updated(tmp_path: Path) -> None:
    """A missing path is an error with its name; a definition that exists is updated by a later file."""
    with pytest.raises(ConfigError, match="nowhere"):
        async with Environment(crd_paths=[tmp_path / "nowhere"]):
            pass
    first = crd_for(Site)
    second = crd_for(Site)
    second["metadata"]["annotations"] = {"second": "true"}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(first))
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(second))
    async with Environment(crds=[first], crd_paths=[tmp_path]) as env, Cluster(env.config) as cluster:
        live = await cluster.uncached.get(CRD, first["metadata"]["name"])
        assert live.metadata.annotations.get("second") == "true"
        await cluster.uncached.patch(live, merge_patch({"metadata": {"labels": {"a": "b"}}}))
