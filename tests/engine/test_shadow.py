"""A version in the shadow of its leader: it sees the cluster, writes nothing into it, and decides by itself."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from planned_scenarios import SCENARIOS
from slow_cases import mostly_slow

from opsdk import Context, ObjectMeta
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.engine.shadow.outcome import Side, markdown_lines, summary_of
from opsdk.rbac.permissions import RuleSet
from opsdk.structured_merge.value import JsonObject
from tests.engine.shadowed import Shadowed, shadow, shadow_world
from tests.engine.upgrades import App, AppSpec, Version, config, secret, service, workload

DEPLOYMENT = unstructured_kind("apps/v1", "Deployment")


def version(*more: JsonObject, image: str = "app:1", **changes: Any) -> Version:
    """A version whose children are a Deployment, a Service, and some more."""
    return Version(children=lambda name: [workload("Deployment", name, image=image), service(name), *more], **changes)


async def create_and_delete(client: Client) -> None:
    """Create an App, and delete another one."""
    meta = ObjectMeta(name="app-9", namespace="default")
    await client.create(App(metadata=meta, spec=AppSpec()), field_owner="user")
    await asyncio.sleep(20)
    await client.delete(App, "app-0", namespace="default")


async def wait(_: Client) -> None:
    """Do nothing."""


def values(result: Shadowed) -> list[tuple[object, ...]]:
    """Object, field, and both values of each disagreement that lasts."""
    return [(each.subject, each.path, each.leader, each.shadow) for each in result.outcome.disagreements]


# ---------------------------------------------------------------- agreement
def test_the_same_version_agrees() -> None:
    """With each decision of its leader. Only GET requests reach the cluster."""
    result = shadow(version(), version(), create_and_delete)
    assert result.reported == []
    assert result.outcome.agreed == result.outcome.decisions[Side.LEADER] > 0
    assert result.methods == {"GET"}


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=[pytest.mark.slow, pytest.mark.deep]) for seed in (1, 2))]
)
@pytest.mark.parametrize("name", mostly_slow(sorted(SCENARIOS.keys() - {"applications", "website-upgrades"}), every=3))
def test_a_sample_agrees_with_itself(name: str, seed: int) -> None:
    """Users create, change and delete objects at any distance. Conflicts and late events do not seem decisions."""
    result = shadow_world(SCENARIOS[name], seed)
    assert values(result) == []
    assert not result.outcome.failure
    assert result.methods == {"GET"}


@pytest.mark.slow
def test_ids_of_an_external_system_differ() -> None:
    """The double of the shadow counts its records by itself; nothing else differs."""
    result = shadow_world(SCENARIOS["applications"], 1)
    assert {each.path for each in result.outcome.disagreements} == {"status.record.id"}


# ---------------------------------------------------------------- disagreement
def test_another_value_is_shown_once_for_each_object() -> None:
    """With both values; also of an object that is new for both."""
    result = shadow(version(), version(image="app:2"), create_and_delete)
    path = "spec.template.spec.containers[app].image"
    assert values(result) == [
        ("Deployment default/app-0", path, "app:1", "app:2"),
        ("Deployment default/app-9", path, "app:1", "app:2"),
    ]
    assert [each.decided for each in result.outcome.disagreements] == [[Side.SHADOW], [Side.LEADER, Side.SHADOW]]
    assert len(result.reported) == 2


@pytest.mark.slow
def test_a_child_of_one_version_only_is_shown() -> None:
    """Created or deleted: the other side does not have it."""
    more = version(config("extra", a="1"))
    assert values(shadow(version(), more, wait)) == [("ConfigMap default/extra", "", "does not exist", "exists")]
    assert values(shadow(more, version(), wait)) == [("ConfigMap default/extra", "", "exists", "does not exist")]


def test_values_of_secrets_are_not_shown() -> None:
    """Only that they differ."""
    result = shadow(version(secret("key", a="one")), version(secret("key", a="two")), wait)
    assert values(result) == [("Secret default/key", "data.a", "(hidden)", "(hidden, another value)")]


def test_what_others_change_reaches_the_shadow() -> None:
    """Also of an object that the two leave otherwise: somebody scales the Deployment whose images differ."""
    scales: list[int] = []

    async def look(app: Any, ctx: Context) -> None:
        deployment = await ctx.client.get_or_none(DEPLOYMENT, app.metadata.name, namespace="default")
        scales.append(0 if deployment is None else deployment["spec"]["replicas"])

    def children(image: str) -> Version:
        def tree(name: str) -> JsonObject:
            deployment = workload("Deployment", name, image=image)
            del deployment["spec"]["replicas"]
            return deployment

        return Version(children=lambda name: [tree(name)], before=look if image == "app:2" else None)

    async def scale(client: Client) -> None:
        await asyncio.sleep(30)
        deployment = await client.get(DEPLOYMENT, "app-0", namespace="default")
        await client.patch(deployment, merge_patch({"spec": {"replicas": 3}}), field_owner="user")

    result = shadow(children("app:1"), children("app:2"), scale)
    assert [path for _, path, _, _ in values(result)] == ["spec.template.spec.containers[app].image"]
    assert scales[-1] == 3


@pytest.mark.slow
def test_a_deletion_with_finalizers_is_compared() -> None:
    """One version never removes its finalizer: its object stays, and the leader's does not."""

    async def finish(app: Any, ctx: Context) -> None:
        """Nothing to clean up."""

    async def fail(app: Any, ctx: Context) -> None:
        raise RuntimeError("the backup is not there")

    leader, other = (version(finalizers={"example.com/backup": function}) for function in (finish, fail))

    async def delete(client: Client) -> None:
        await client.delete(App, "app-0", namespace="default")

    assert shadow(leader, leader, delete).reported == []
    result = shadow(leader, other, delete)
    assert values(result)[0] == ("App default/app-0", "", "does not exist", "is being deleted")
    assert "the backup is not there" in result.outcome.failing[0]


# ---------------------------------------------------------------- what prevents a comparison
def test_a_cluster_without_a_leader_is_named() -> None:
    """Then all decisions are those of this version, and the summary says why."""
    result = shadow(None, version(), wait)
    assert {each.decided[0] for each in result.outcome.disagreements} == {Side.SHADOW}
    assert "No object has a field of the leader" in summary_of(result.outcome)
    assert "if it is not apps." in summary_of(result.outcome)


def test_a_leader_that_had_nothing_to_do_is_not_missed() -> None:
    """It wrote its objects before, and the summary says when."""
    result = shadow(version(), version(), wait)
    summary = summary_of(result.outcome)
    assert result.outcome.decisions[Side.LEADER] == 0
    assert f"The leader wrote {result.outcome.owned} objects before, the last one at 2026-" in summary
    assert "changed none meanwhile: compare for longer" in summary
    assert "No object" not in summary


def test_changes_just_before_the_comparison_are_the_leaders_too() -> None:
    """The leader deals with an App that is new since the snapshot, and then has nothing to do."""

    async def late(client: Client) -> None:
        await client.create(App(metadata=ObjectMeta(name="app-9", namespace="default"), spec=AppSpec()))
        await asyncio.sleep(20)

    outcome = shadow(version(), version(), wait, late=late).outcome
    assert outcome.missed == 2
    assert "The leader made 2 changes just before or after that, and none meanwhile" in summary_of(outcome)
    assert not outcome.disagreements


def test_a_leader_with_another_field_manager_is_named() -> None:
    """The summary has the managers of the changes, of which one is the leader's."""
    result = shadow(version(name="manager"), version(), create_and_delete)
    summary = summary_of(result.outcome)
    assert "No object has a field of the leader" in summary
    assert "Meanwhile, objects were changed by manager/apps, user." in summary


def test_the_leader_is_not_mentioned_if_all_was_compared() -> None:
    """The counts say enough."""
    assert "leader" not in summary_of(shadow(version(), version(), create_and_delete).outcome).partition(":")[2]


@pytest.mark.slow
def test_a_missing_permission_is_named() -> None:
    """The operator runs with the permissions that it declares."""
    result = shadow(version(), version(image="app:2", rules=RuleSet([])), wait)
    assert result.outcome.refused
    assert result.outcome.refused[0].status == 403


def test_connections_are_refused() -> None:
    """Also those to the cluster: only the reader may reach it."""

    async def connect(app: Any, ctx: Context) -> None:
        socket.create_connection(("10.1.2.3", 6443), timeout=1)

    result = shadow(version(), version(before=connect), wait)
    assert result.outcome.connections == ["10.1.2.3:6443"]


def test_markdown_has_a_row_for_each_disagreement() -> None:
    """As a comment for a pull request."""
    result = shadow(version(), version(config("extra", a="1|2")), wait)
    assert list(markdown_lines(result.outcome))[2:] == [
        f"**{summary_of(result.outcome)}**",
        "",
        "| object | field | leader | this version | |",
        "| --- | --- | --- | --- | --- |",
        "| ConfigMap default/extra |  | does not exist | exists | only this version changes it |",
    ]
