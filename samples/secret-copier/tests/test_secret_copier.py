"""The operator against the in-process API server, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from envtest import Environment
from opsdk import Client, ObjectMeta
from opsdk.api.core.v1 import Namespace, Secret
from opsdk.client.patch import merge_patch
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.testing.eventually import events_of, eventually
from opsdk.testing.rules import assert_rules, observed_rules
from opsdk.testing.running import running
from secret_copier.copies import ROLE, SOURCE, TARGETS
from secret_copier.operator import RETRY_INTERVAL, make_operator

KEY = "default/login"


async def create_namespaces(client: Client, count: int, *, team: str = "shop") -> list[str]:
    """Create namespaces of a team, and return their names."""
    names = [f"{team}-{number}" for number in range(count)]
    for name in names:
        await client.create(Namespace(metadata=ObjectMeta(name=name, labels={"team": team})))
    return names


async def create_source(client: Client, targets: str = "team=shop", password: str = "one") -> Secret:
    """Create a Secret that is copied into the namespaces of a label selector."""
    meta = ObjectMeta(name="login", namespace="default", labels={ROLE: "source"}, annotations={TARGETS: targets})
    return await client.create(Secret(metadata=meta, data={"password": password.encode()}))


async def wait_copies(client: Client, namespaces: list[str], password: str = "one") -> None:
    """Wait until exactly these namespaces have a copy with this password."""

    async def are_copied() -> bool:
        copies = await client.list(Secret, label_selector=f"{ROLE}=copy")
        expected = {(namespace, password.encode()) for namespace in namespaces}
        return {(copy.metadata.namespace, copy.data["password"]) for copy in copies} == expected

    await eventually(are_copied, within=120, interval=1)


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.deep])])
async def test_many_namespaces_follow_their_source(count: int, k8s_env: Environment, k8s_client: Client) -> None:
    """Creation, change, a new namespace, a label and the deletion reach each namespace; at rest nothing is written."""
    names = await create_namespaces(k8s_client, count)
    await create_namespaces(k8s_client, 2, team="search")
    async with running(make_operator(), k8s_env):
        source = await create_source(k8s_client)
        await wait_copies(k8s_client, names)
        await k8s_client.patch(source, merge_patch({"stringData": {"password": "two"}}))
        await wait_copies(k8s_client, names, "two")
        await k8s_client.create(Namespace(metadata=ObjectMeta(name="late", labels={"team": "shop"})))
        await k8s_client.patch(
            Namespace(metadata=ObjectMeta(name=names[0])), merge_patch({"metadata": {"labels": None}})
        )
        names = [*names[1:], "late"]
        await wait_copies(k8s_client, names, "two")
        async with k8s_env.no_writes(resource="secrets"):
            await asyncio.sleep(3600)
        await k8s_client.delete(source)
        await wait_copies(k8s_client, [])


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"password": "dHdv"}},
        {"metadata": {"labels": {ROLE: None}}},
        {"metadata": {"annotations": {SOURCE: None}}},
    ],
    ids=["data", "label", "annotation"],
)
async def test_a_copy_that_was_changed_is_repaired(
    change: dict[str, object], k8s_env: Environment, k8s_client: Client
) -> None:
    """A copy is restored after a change, after the loss of its label, and after its deletion."""
    names = await create_namespaces(k8s_client, 2)
    async with running(make_operator(), k8s_env):
        await create_source(k8s_client)
        await wait_copies(k8s_client, names)
        copy = await k8s_client.get(Secret, "shop-0/login")
        await k8s_client.patch(copy, merge_patch(change))
        await wait_copies(k8s_client, names)
        await k8s_client.delete(Secret, "shop-1/login")
        await wait_copies(k8s_client, names)
        managers = {entry.manager for entry in (await k8s_client.get(Secret, "shop-1/login")).metadata.managed_fields}
        assert managers == {"secret-copier/copies"}


async def test_a_foreign_secret_is_not_overwritten(k8s_env: Environment, k8s_client: Client) -> None:
    """An Event reports the foreign Secret; after its deletion, the copy is created."""
    [name] = await create_namespaces(k8s_client, 1)
    meta = ObjectMeta(name="login", namespace=name)
    await k8s_client.create(Secret(metadata=meta, data={"password": b"own"}))
    async with running(make_operator(), k8s_env):
        source = await create_source(k8s_client)

        async def is_reported() -> bool:
            return [event.reason for event in await events_of(k8s_client, source)] == ["NameTaken"]

        await eventually(is_reported)
        assert (await k8s_client.get(Secret, f"{name}/login")).data == {"password": b"own"}
        await k8s_client.delete(Secret, f"{name}/login")
        await asyncio.sleep(RETRY_INTERVAL)
        await wait_copies(k8s_client, [name])


async def test_what_changed_while_the_operator_was_down_is_repaired(k8s_env: Environment, k8s_client: Client) -> None:
    """After the deletion of a source without a finalizer, the next start deletes its copies."""
    names = await create_namespaces(k8s_client, 2)
    async with running(make_operator(), k8s_env):
        await create_source(k8s_client)
        await wait_copies(k8s_client, names)
    await k8s_client.delete(Secret, KEY)
    async with running(make_operator(), k8s_env):
        await wait_copies(k8s_client, [])


async def test_a_bad_selector_is_reported_and_changes_nothing(k8s_env: Environment, k8s_client: Client) -> None:
    """The copies stay unchanged until the selector is corrected."""
    names = await create_namespaces(k8s_client, 2)
    async with running(make_operator(), k8s_env):
        source = await create_source(k8s_client)
        await wait_copies(k8s_client, names)
        await k8s_client.patch(source, merge_patch({"metadata": {"annotations": {TARGETS: "team in ("}}}))

        async def is_reported() -> bool:
            return [event.reason for event in await events_of(k8s_client, source)] == ["InvalidSelector"]

        await eventually(is_reported)
        await wait_copies(k8s_client, names)
        await k8s_client.patch(source, merge_patch({"metadata": {"annotations": {TARGETS: "team=none"}}}))
        await wait_copies(k8s_client, [])


@pytest.mark.k8s(admission_plugins="OwnerReferencesPermissionEnforcement")
async def test_the_declared_rights_suffice(k8s_env: Environment, k8s_client: Client) -> None:
    """The operator runs as a user with its roles; no request is forbidden, and every rule is used."""
    [name] = await create_namespaces(k8s_client, 1)
    await create_namespaces(k8s_client, 1, team="taken")
    await k8s_client.create(Secret(metadata=ObjectMeta(name="login", namespace="taken-0")))
    rules = make_operator().rules()
    for obj in manifests(rules, RbacNames(name="secret-copier", namespace="default")):
        await k8s_client.create(obj)
    operator = make_operator()
    user = k8s_env.add_user("system:serviceaccount:default:secret-copier")
    with observed_rules(operator) as observed:
        async with running(operator, user.config):
            source = await create_source(k8s_client, "team in (shop, taken)")
            await wait_copies(k8s_client, [name])
            await eventually(lambda: events_of(k8s_client, source))
            await k8s_client.delete(source)
            await wait_copies(k8s_client, [])
    assert not observed.forbidden
    assert_rules(observed, rules)
