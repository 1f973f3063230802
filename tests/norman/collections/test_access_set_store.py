"""Access sets of a live server, against its own authorizer."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import envtest
from opsdk.api.core.v1 import Namespace
from opsdk.api.rbac.v1 import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from opsdk.apimachinery.meta import LabelSelector, ObjectMeta
from opsdk.apiserver.auth.authorization import AuthorizerAttributes
from opsdk.apiserver.auth.user import User
from opsdk.client.client import Client
from opsdk.norman.collections.access_set_store import AccessSetStore
from tests.norman.collections.kit import running_cluster

GROUP = "rbac.authorization.k8s.io"
USERS = (User(name="ann", groups=("dev",)), User(name="bob", groups=("dev", "ops")), User(name="eve"))


@asynccontextmanager
async def store_of(env: envtest.Environment) -> AsyncIterator[tuple[AccessSetStore, Client]]:
    """A store of a running cluster, and the admin's client."""
    async with running_cluster(env) as cluster, AccessSetStore(cluster.cache) as store:
        yield store, cluster.uncached


def binding(name: str, subject: tuple[str, str], role: tuple[str, str], namespace: str = "") -> RoleBinding:
    """A RoleBinding, or without namespace a ClusterRoleBinding."""
    kind = RoleBinding if namespace else ClusterRoleBinding
    return kind(  # type: ignore[return-value]
        metadata=ObjectMeta(name=name, namespace=namespace),
        role_ref=RoleRef(api_group=GROUP, kind=role[0], name=role[1]),
        subjects=[Subject(kind=subject[0], name=subject[1], api_group=GROUP)],
    )


async def test_permissions_agree_with_the_authorizer_of_the_server_after_any_history() -> None:
    """Random roles and bindings come and go; each request is granted where the server allows it."""
    chance = random.Random(7)
    async with envtest.Environment() as env, store_of(env) as (store, client):
        for name in ("n", "m"):
            await client.create(Namespace(metadata=ObjectMeta(name=name)))
        alive: dict[tuple[type, str, str], object] = {}
        for step in range(60):
            namespace, name = chance.choice(("", "n", "m")), chance.choice(("r", "s"))
            if chance.random() < 0.5:
                kind: type = Role if namespace else ClusterRole
                rule = PolicyRule(
                    verbs=[chance.choice(("get", "list", "*"))],
                    api_groups=[chance.choice(("", "apps", "*"))],
                    resources=[chance.choice(("pods", "pods/log", "*"))],
                    resource_names=chance.choice(([], ["a"])),
                )
                obj: object = kind(metadata=ObjectMeta(name=name, namespace=namespace), rules=[rule])
            else:
                kind = RoleBinding if namespace else ClusterRoleBinding
                subject = chance.choice((("User", "ann"), ("Group", "dev"), ("Group", "ops")))
                role = (chance.choice(("Role", "ClusterRole")) if namespace else "ClusterRole", name)
                obj = binding(name, subject, role, namespace)
            key = (kind, namespace, name)
            if key in alive:
                await client.delete(alive.pop(key))  # type: ignore[arg-type]
            else:
                alive[key] = await client.create(obj)  # type: ignore[type-var]
            await asyncio.sleep(1)
            if step % 10 == 9:
                await assert_agreement(env, store)


async def assert_agreement(env: envtest.Environment, store: AccessSetStore) -> None:
    """Compare every user, verb, resource, namespace and name."""
    authorizer = env.plane.access.rbac
    for user, verb, group, resource, namespace, name in itertools.product(
        USERS, ("get", "list"), ("", "apps"), ("pods", "pods/log"), ("", "n", "m"), ("", "a", "b")
    ):
        plain, _, subresource = resource.partition("/")
        attributes = AuthorizerAttributes(
            user=user, verb=verb, group=group, resource=plain, subresource=subresource, namespace=namespace, name=name
        )
        decision = await authorizer.authorize(attributes)
        assert store.access_for(user).grants(verb, group, resource, namespace, name) == decision.allowed, attributes


async def test_a_change_reaches_the_users_that_it_names() -> None:
    """A binding of a user or a group changes the permissions of its users, and of nobody else."""
    async with envtest.Environment() as env, store_of(env) as (store, client):

        async def listing() -> list[str]:
            await asyncio.sleep(1)
            return [user.name for user in USERS if store.access_for(user).grants("list", "", "pods")]

        assert await listing() == []
        eve = store.access_for(USERS[2])
        rule = PolicyRule(verbs=["list"], api_groups=[""], resources=["pods"])
        await client.create(ClusterRole(metadata=ObjectMeta(name="r"), rules=[rule]))
        await client.create(binding("b", ("User", "ann"), ("ClusterRole", "r")))
        assert await listing() == ["ann"]
        await client.create(binding("group", ("Group", "ops"), ("ClusterRole", "r")))
        assert await listing() == ["ann", "bob"]
        await client.delete(ClusterRoleBinding, "b")
        assert await listing() == ["bob"]
        assert store.access_for(USERS[2]) is eve
        assert "3 users" in repr(store)


async def test_an_aggregated_role_grants_what_its_controller_wrote_into_it() -> None:
    """A ClusterRole that joins an aggregation changes the permissions of the users of the aggregated role."""
    async with envtest.Environment(controllers="cluster") as env, store_of(env) as (store, client):
        selector = LabelSelector(match_labels={"join": "yes"})
        await client.create(
            ClusterRole(
                metadata=ObjectMeta(name="sum"), aggregation_rule=AggregationRule(cluster_role_selectors=[selector])
            )
        )
        await client.create(binding("b", ("User", "eve"), ("ClusterRole", "sum")))
        rule = PolicyRule(verbs=["get"], api_groups=[""], resources=["pods"])
        await client.create(ClusterRole(metadata=ObjectMeta(name="part", labels={"join": "yes"}), rules=[rule]))
        async with asyncio.timeout(60):
            while not store.access_for(USERS[2]).grants("get", "", "pods", "n", "a"):
                await asyncio.sleep(0.1)
