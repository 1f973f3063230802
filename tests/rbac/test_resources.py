"""The resource of a kind is known without a server."""

from __future__ import annotations

import envtest
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import Unstructured
from opsdk.cluster.cluster import Cluster
from opsdk.rbac.resources import resource_of


async def test_every_built_in_kind_has_the_resource_of_discovery() -> None:
    """Plural and scope are those that a server serves, for the kind and for the text."""
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        lists = [await cluster.http.get(path) for path in await group_versions(cluster)]
    served = [
        (body["groupVersion"], resource)
        for body in (response.json() for response in lists)
        for resource in body["resources"]
        if "/" not in resource["name"]
    ]
    assert len(served) > 60
    for group_version, resource in served:
        group = group_version.rpartition("/")[0]
        text = f"{resource['name']}.{group}" if group else resource["name"]
        kind = Kind(Unstructured(group_version, resource["kind"]).gvk, Unstructured)
        for info in (resource_of(kind), resource_of(text)):
            assert info[:3] == (group, resource["name"], resource["namespaced"])


async def group_versions(cluster: Cluster) -> list[str]:
    """The paths of all group versions."""
    groups = (await cluster.http.get("/apis")).json()["groups"]
    return ["/api/v1", *(f"/apis/{version['groupVersion']}" for g in groups for version in g["versions"])]


def test_a_wildcard_names_a_group() -> None:
    """``*`` is the core group, ``*.apps`` a group, ``*.*`` everything."""
    assert [resource_of(text)[:2] for text in ("*", "*.apps", "*.*", "*.apps/status")] == [
        ("", "*"),
        ("apps", "*"),
        ("*", "*"),
        ("apps", "*/status"),
    ]


def test_unknown_resources_count_as_namespaced() -> None:
    """A custom resource that only its text names is namespaced, and keeps its whole group."""
    info = resource_of("websites.demo.opsdk.dev/scale")
    assert info == ("demo.opsdk.dev", "websites/scale", True, None)
