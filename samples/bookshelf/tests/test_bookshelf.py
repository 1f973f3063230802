"""The aggregated server behind an in-process API server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import envtest
from bookshelf.api import GROUP, Book, BookSpec, BookStatus
from bookshelf.server import ADDED_BY, make_server
from opsdk import Client, Cluster, MergeFrom, ObjectMeta, Unstructured
from opsdk.api.apiregistration.v1 import APIService
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import deep_copy
from opsdk.apiserver.auth.authentication_config import NAME, NAMESPACE, ClientAuthenticationConfig
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.errors import ForbiddenError, InvalidError

API_SERVICE = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": f"v1.{GROUP}"},
    "spec": {
        "group": GROUP,
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "default", "name": "bookshelf"},
    },
}


@asynccontextmanager
async def library() -> AsyncIterator[tuple[envtest.Environment, Client]]:
    """Run an API server with the aggregated server of Books."""
    async with envtest.Environment() as env, Cluster(env.config) as front:

        async def forward(scope: object, receive: object, send: object) -> None:
            await server.app(scope, receive, send)

        await env.expose("default/bookshelf", app=forward)
        authentication = await front.uncached.get(ConfigMap, f"{NAMESPACE}/{NAME}")
        server = make_server(MemoryStorage(), ClientAuthenticationConfig.of(authentication.data), front.uncached)
        await front.uncached.create(Unstructured.from_tree(API_SERVICE))

        async def available() -> None:
            result = await front.uncached.get(APIService, f"v1.{GROUP}")
            assert [condition.reason for condition in result.status.conditions] == ["Passed"]

        await env.eventually(available)
        yield env, front.uncached


def book(name: str, title: str = "Walden", **spec: object) -> Book:
    """Return a book in the default namespace."""
    return Book(metadata=ObjectMeta(name=name, namespace="default"), spec=BookSpec(title=title, **spec))


async def test_books_are_kept_by_their_own_server() -> None:
    """Books are created, read, listed, updated and deleted through kube-apiserver, which stores none of them."""
    async with library() as (env, client):
        created = await client.create(book("walden", author="Thoreau"))
        assert created.metadata.annotations == {ADDED_BY: "admin"}
        assert (await client.get(Book, "default/walden")).spec == BookSpec(title="Walden", author="Thoreau")
        before = deep_copy(created)
        created.spec.pages = 352
        await client.patch(created, MergeFrom(before))
        created.status = BookStatus(lent_to="bob")
        await client.status().update(created)
        [result] = await client.list(Book)
        assert (result.spec.pages, result.status, result.metadata.generation) == (352, BookStatus(lent_to="bob"), 2)
        assert not env.plane.storage.list_now(f"{GROUP}/books/").items
        await client.delete(created)
        assert not list(await client.list(Book))


async def test_bounds_of_the_class_are_validated() -> None:
    """The aggregated server rejects a book without a title, with the usual validation message."""
    async with library() as (_, client):
        with pytest.raises(InvalidError, match=r"spec.title in body should be at least 1 chars long"):
            await client.create(book("nameless", title=""))


async def test_authorization_is_delegated_to_kube_apiserver() -> None:
    """kube-apiserver rejects a user without a role; the aggregated server receives the name of an authorized user."""
    async with library() as (env, client):
        alice = env.add_user("alice", groups=["readers"])
        async with Cluster(alice.config) as cluster:
            with pytest.raises(ForbiddenError):
                await cluster.uncached.create(book("secret"))
            rules = [{"apiGroups": [GROUP], "resources": ["books"], "verbs": ["create", "get"]}]
            await client.create(role(rules))
            await client.create(binding("alice"))
            created = await cluster.uncached.create(book("hers"))
            assert created.metadata.annotations == {ADDED_BY: "alice"}


def role(rules: list[dict[str, list[str]]]) -> Unstructured:
    """Return a ClusterRole."""
    return Unstructured.from_tree(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "readers"},
            "rules": rules,
        }
    )


def binding(user: str) -> Unstructured:
    """Return a ClusterRoleBinding of the role for a user."""
    group = "rbac.authorization.k8s.io"
    return Unstructured.from_tree(
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "readers"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "readers"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
    )


async def test_informers_follow_books() -> None:
    """LIST and WATCH requests through kube-apiserver fill an informer cache."""
    async with library() as (env, client), Cluster(env.config) as cluster:
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        try:
            await client.create(book("one"))
            assert [item.metadata.name for item in await cluster.client.list(Book)] == ["one"]
            await client.create(book("two"))

            async def both() -> None:
                assert len(list(await cluster.client.list(Book))) == 2

            await env.eventually(both)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
