"""A cache of the namespaces whose labels match: they come and go while it runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from envtest import Environment
from envtest.testing.effects import ExpireWatch, Fail
from opsdk import (
    ByObject,
    CacheOptions,
    Cluster,
    ClusterOptions,
    LabelRequirements,
    NotFoundError,
    ObjectMeta,
    Operator,
    OperatorOptions,
    Request,
)
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, RoleBinding, RoleRef, Subject
from opsdk.apimachinery.kinds import metadata_only
from opsdk.cache.store import Delta, DeltaType
from opsdk.client.patch import merge_patch
from opsdk.errors import CacheSyncError, UsageError
from opsdk.rbac.check import RbacCheck
from opsdk.testing.running import running

PROD = LabelRequirements.parse("env=prod")
NAMES = ("shop", "billing", "mail")


def options(**others: object) -> ClusterOptions:
    """A cache that follows the namespaces with ``env=prod``."""
    return ClusterOptions(cache=CacheOptions(namespace_selector=PROD, **others))  # type: ignore[arg-type]


async def add_namespace(user: Cluster, name: str, env: str = "prod") -> None:
    """Create a namespace with the label ``env``."""
    await user.uncached.create(Namespace(metadata=ObjectMeta(name=name, labels={"env": env})))


async def label(user: Cluster, name: str, env: str) -> None:
    """Change the label ``env`` of a namespace."""
    await user.uncached.patch(
        Namespace(metadata=ObjectMeta(name=name)), merge_patch({"metadata": {"labels": {"env": env}}})
    )


async def add_config(user: Cluster, namespace: str, name: str = "a") -> None:
    """Create a ConfigMap."""
    await user.uncached.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace)))


@asynccontextmanager
async def started(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Run the cluster's cache, with an informer of ConfigMaps."""
    await cluster.cache.informer_for(ConfigMap)
    task = asyncio.create_task(cluster.cache.start())
    await cluster.cache.wait_ready()
    try:
        yield cluster
    finally:
        task.cancel()
        await asyncio.wait([task])


async def cached_keys(cluster: Cluster, namespace: str = "") -> set[str]:
    """Return the keys of the cached ConfigMaps."""
    return {str(Request.of(obj)) for obj in await cluster.client.list(ConfigMap, namespace=namespace)}


async def test_a_namespace_comes_and_goes() -> None:
    """Objects of a namespace are read while its labels match, and handlers get them as ADDED and DELETED."""
    events: list[tuple[str, str]] = []

    def record(delta: Delta) -> None:
        if delta.change is not DeltaType.UPDATED:
            events.append((delta.change.value, str(delta.entry.key)))

    async with Environment() as env, Cluster(env.config) as user, Cluster(env.config, options()) as cluster:
        for name, stage in (("shop", "prod"), ("mail", "test")):
            await add_namespace(user, name, stage)
            await add_config(user, name)
        async with started(cluster):
            (await cluster.cache.informer_for(ConfigMap)).add_handler(record)
            await asyncio.sleep(1)
            assert await cached_keys(cluster) == {"shop/a"}
            with pytest.raises(
                NotFoundError, match="the namespace_selector of the cache does not match namespace mail"
            ):
                await cluster.client.get(ConfigMap, "mail/a")
            assert await cached_keys(cluster, "mail") == set()
            await label(user, "mail", "prod")
            await label(user, "shop", "test")
            await asyncio.sleep(1)
            assert await cached_keys(cluster) == {"mail/a"}
            assert events[0] == ("added", "shop/a")
            assert sorted(events[1:]) == [("added", "mail/a"), ("deleted", "shop/a")]


async def change(rng: random.Random, env: Environment, user: Cluster, number: int) -> None:
    """Change a label, add or delete an object, break watches, or go back to an earlier state of the storage."""
    namespace = rng.choice(NAMES)
    match rng.randrange(6):
        case 0:
            await label(user, namespace, "prod")
        case 1:
            await label(user, namespace, "test")
        case 2:
            await add_config(user, namespace, f"c{number}")
        case 3:
            if objects := (await user.uncached.list(ConfigMap, namespace=namespace)).items:
                await user.uncached.delete(rng.choice(objects))
        case 4:
            env.faults.drop_watches()
        case 5:
            snapshot = env.snapshot()
            await label(user, namespace, rng.choice(["prod", "test"]))
            await add_config(user, namespace, f"lost{number}")
            await asyncio.sleep(rng.random())
            env.restore(snapshot, reset_revision=rng.random() < 0.5)


@pytest.mark.parametrize("seed", range(10))
async def test_at_rest_the_cache_holds_the_selected_namespaces(seed: int) -> None:
    """After any changes and faults, reads and handlers see what the server has in the selected namespaces."""
    rng = random.Random(seed)
    handled: set[str] = set()

    def record(delta: Delta) -> None:
        (handled.discard if delta.change is DeltaType.DELETED else handled.add)(str(delta.entry.key))

    async with Environment() as env, Cluster(env.config) as user:
        config = env.add_user("operator", groups=["system:masters"]).config
        for name in NAMES:
            await add_namespace(user, name, rng.choice(["prod", "test"]))
        async with Cluster(config, options()) as cluster, started(cluster):
            (await cluster.cache.informer_for(ConfigMap)).add_handler(record)
            for effect in (Fail(503), ExpireWatch(after=1)):
                env.faults.add(effect, user="operator", probability=0.3)
            for number in range(40):
                await change(rng, env, user, number)
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.random())
            env.faults.clear()
            await asyncio.sleep(240)
            namespaces = await user.uncached.list(Namespace)
            prod = {each.metadata.name for each in namespaces if each.metadata.labels.get("env") == "prod"}
            configs = await user.uncached.list(ConfigMap)
            expected = {str(Request.of(obj)) for obj in configs if obj.metadata.namespace in prod}
            assert await cached_keys(cluster) == expected
            assert handled == expected
            assert (await cluster.cache.informer_for(ConfigMap)).informers.keys() == prod


async def test_a_deleted_namespace_leaves_no_informer() -> None:
    """Fifty namespaces that came and went leave neither informers nor tasks."""
    async with (
        Environment() as env,
        Cluster(env.config) as user,
        Cluster(env.config, options()) as cluster,
        started(cluster),
    ):
        await asyncio.sleep(1)
        tasks = len(asyncio.all_tasks())
        for number in range(50):
            await add_namespace(user, f"n{number}")
            await asyncio.sleep(0.1)
            await label(user, f"n{number}", "test")
            await asyncio.sleep(0.1)
        await asyncio.sleep(10)
        kind = await cluster.cache.informer_for(ConfigMap)
        assert kind.informers == {}
        assert len(asyncio.all_tasks()) <= tasks


async def test_other_scopes_are_not_selected() -> None:
    """Cluster-scoped kinds, and kinds with namespaces of their own, are cached as without a selector."""
    own = options(by_kind={ConfigMap: ByObject(namespaces=["mail"])})
    async with Environment() as env, Cluster(env.config) as user, Cluster(env.config, own) as cluster:
        await add_namespace(user, "mail", "test")
        await add_config(user, "mail")
        async with started(cluster):
            assert await cached_keys(cluster) == {"mail/a"}
            names = [obj.metadata.name for obj in await cluster.client.list(metadata_only(Namespace))]
            assert "default" in names


async def test_no_namespace_is_selected_yet() -> None:
    """An operator starts without a namespace, and reconciles the objects of the first one."""
    operator = Operator("shop", OperatorOptions(cluster=options()))
    reconciled: list[str] = []

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap) -> None:
        reconciled.append(str(Request.of(config)))

    async with Environment() as env, Cluster(env.config) as user, running(operator, env):
        await add_namespace(user, "shop")
        await add_config(user, "shop")
        await asyncio.sleep(2)
        assert reconciled == ["shop/a"]


def test_wrong_selectors_are_refused() -> None:
    """A selector of the wrong type, one that selects everything, and one beside `namespaces` are usage errors."""
    with pytest.raises(UsageError, match="are mutually exclusive"):
        CacheOptions(namespaces=["shop"], namespace_selector=PROD)
    for wrong in ("env=prod", LabelRequirements()):
        with pytest.raises(UsageError, match=r"write LabelRequirements.parse\('env=prod'\)"):
            CacheOptions(namespace_selector=wrong)  # type: ignore[arg-type]


# ------------------------------------------------------------------ permissions
def bind(name: str, role: str, account: str, namespace: str = "") -> ClusterRoleBinding | RoleBinding:
    """Bind a ClusterRole to a user."""
    subjects = [Subject(kind="User", name=account, api_group="rbac.authorization.k8s.io")]
    ref = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=role)
    kind = RoleBinding if namespace else ClusterRoleBinding
    return kind(metadata=ObjectMeta(name=name, namespace=namespace), role_ref=ref, subjects=subjects)


async def test_namespaces_that_cannot_be_listed_end_the_start() -> None:
    """Without the permission to list Namespaces, the operator ends at once with the server's message."""
    operator = Operator("shop", OperatorOptions(cluster=options()))

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap) -> None: ...

    async with Environment() as env:
        with pytest.raises(CacheSyncError, match=r"namespaces.*cannot be listed: .*forbidden"):
            async with running(operator, env.add_user("shop").config):
                await asyncio.sleep(1000)


async def test_a_selected_namespace_without_permission_holds_up_no_other() -> None:
    """Reads of the namespaces with a RoleBinding go on; a RoleBinding that comes later is enough for the rest."""
    operator = Operator("shop", OperatorOptions(cluster=options(), rbac_check=RbacCheck.ERROR))
    reconciled: list[str] = []

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap) -> None:
        reconciled.append(str(Request.of(config)))

    rules = operator.rules()
    assert rules.namespaces == ("", "*")
    async with Environment() as env, Cluster(env.config) as user:
        config = env.add_user("shop").config
        for name, namespace in (("shop", ""), ("shop-selected-namespaces", "*")):
            role = ClusterRole(metadata=ObjectMeta(name=name), rules=rules.policy_rules(namespace))
            await user.uncached.create(role)
        await user.uncached.create(bind("shop", "shop", "shop"))
        for namespace in ("shop", "billing"):
            await add_namespace(user, namespace)
            await add_config(user, namespace)
        await user.uncached.create(bind("shop", "shop-selected-namespaces", "shop", "shop"))
        async with running(operator, config):
            await asyncio.sleep(5)
            assert reconciled == ["shop/a"]
            await user.uncached.create(bind("shop", "shop-selected-namespaces", "shop", "billing"))
            await asyncio.sleep(120)
            assert reconciled == ["shop/a", "billing/a"]
