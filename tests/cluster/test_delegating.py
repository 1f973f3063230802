"""Which reads the cache answers, and which the server."""

from __future__ import annotations

from typing import Any

import pytest
from client_fakes import FakeExecutor, Site, site

from opsdk.apimachinery.kinds import metadata_only, unstructured_kind
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.cluster.delegating import Delegating

UNSTRUCTURED = unstructured_kind("demo.opsdk.dev/v1", "Site")


def made(**options: Any) -> tuple[Client, FakeExecutor, FakeExecutor]:
    """A client over a fake cache and a fake server."""
    cached, direct = FakeExecutor(), FakeExecutor()
    return Client(Delegating(cached, direct, **options)), cached, direct


@pytest.mark.parametrize("kind", [Site, UNSTRUCTURED, metadata_only(Site)])
async def test_plain_reads_of_every_representation_are_cached(kind: Any) -> None:
    """Get and list, typed, unstructured and metadata only, send no request."""
    client, cached, direct = made()
    await client.get(kind, "ns/a")
    await client.list(kind, namespace="ns", label_selector="a=b", limit=3)
    assert (len(cached.seen), len(direct.seen)) == (2, 0)


async def test_reads_that_need_the_server_bypass_the_cache() -> None:
    """Uncached reads, and reads of a resource version, of a subresource or of a further page."""
    client, cached, direct = made()
    await client.get(Site, "ns/a", uncached=True)
    await client.get(Site, "ns/a", resource_version="5")
    await client.status().get(site(), Site)
    await client.list(Site, uncached=True)
    await client.list(Site, resource_version="0")
    await client.list(Site, limit=2, continue_token="token")
    assert (len(cached.seen), len(direct.seen)) == (0, 6)


@pytest.mark.behaviour(27, better="Unstructured reads use the same cache.")
async def test_kinds_in_disable_cache_for_are_never_cached() -> None:
    """A kind in ``disable_cache_for`` is read directly in every representation."""
    client, cached, direct = made(disable_cache_for=[Site.gvk])
    for kind in (Site, UNSTRUCTURED, metadata_only(Site)):
        await client.get(kind, "ns/a")
        await client.list(kind)
    assert (len(cached.seen), len(direct.seen)) == (0, 6)


async def test_writes_and_watches_go_to_the_server() -> None:
    """The delegating client passes every write and every watch to the server."""
    client, cached, direct = made()
    obj = site()
    await client.create(obj)
    await client.update(obj)
    await client.patch(obj, merge_patch({}))
    await client.apply(obj, field_owner="me")
    await client.delete(obj)
    await client.delete_all_of(Site, namespace="ns")
    await client.status().update(obj)
    async with client.watch(Site):
        pass
    assert (len(cached.seen), len(direct.seen)) == (0, 8)
