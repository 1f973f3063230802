"""Changes of the user that do not last are named."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from opsdk import Context
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.cli.plan.inputs import UserChanges
from opsdk.cli.plan.printing import plan_status
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.engine.kubectl_apply import apply_as_kubectl
from opsdk.engine.plan import ConsequenceKind, Plan
from opsdk.engine.run import Change
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.structured_merge.value import JsonObject
from tests.engine.upgrades import Version, claim, config, plan_for, secret, service, state_of, workload

WEB = "Deployment default/app-0"


def children(name: str) -> list[JsonObject]:
    """A Deployment, a ConfigMap and a Secret."""
    return [workload("Deployment", name), config(name, a="1"), secret(name, p="first")]


VERSION = Version(children=children)


def unscaled(name: str) -> list[JsonObject]:
    """A Deployment whose replicas are those of others."""
    tree = workload("Deployment", name)
    del tree["spec"]["replicas"]
    return [tree]


@cache
def state() -> ClusterSnapshot:
    """The cluster of the operator."""
    return state_of(VERSION)


def reverted(plan: Plan) -> list[tuple[str, str]]:
    """What the plan says of the user's changes."""
    return [(each.subject, each.message) for each in plan.consequences if each.kind is ConsequenceKind.CHANGE_REVERTED]


def scale(text: str) -> list[Change]:
    """The change of ``--scale``."""
    return UserChanges(scales=[text]).read()


def patch(kind: str, name: str, fields: JsonObject, *, api_version: str = "v1") -> Change:
    """The change of a field of an object."""

    async def change(client: Client) -> None:
        obj = await client.get(unstructured_kind(api_version, kind), name, namespace="default")
        await client.patch(obj, merge_patch(fields), field_owner="user")

    return change


@pytest.mark.parametrize("replicas", [0, 5])
def test_a_scale_that_the_operator_reverts(replicas: int) -> None:
    """The plan names the field, both values and the operator. The status is 2."""
    plan = plan_for(VERSION, state(), changes=scale(f"deployments.apps/default/app-0={replicas}"))
    message = f"your change does not last: spec.replicas goes back from {replicas} to 2, by apps/apps"
    assert reverted(plan) == [(WEB, message)]
    assert plan_status(plan) == 2 or plan.is_dangerous


def test_a_scale_that_lasts_is_not_named() -> None:
    """The operator leaves the replicas to others."""
    version = Version(children=unscaled)
    plan = plan_for(version, state_of(version), changes=scale("deployments.apps/default/app-0=5"))
    assert reverted(plan) == []
    assert [each.subject for each in plan.changes] == [WEB]


def test_the_last_of_several_changes_counts() -> None:
    """The first one is undone by the user."""
    version = Version(children=unscaled)
    changes = [*scale("deployments.apps/default/app-0=5"), *scale("deployments.apps/default/app-0=3")]
    assert reverted(plan_for(version, state_of(version), changes=changes)) == []


def test_a_change_that_was_undone_before_the_next_one() -> None:
    """The second change of the Deployment lasts."""
    label = patch("Deployment", "app-0", {"metadata": {"labels": {"team": "a"}}}, api_version="apps/v1")
    plan = plan_for(VERSION, state(), changes=[*scale("deployments.apps/default/app-0=5"), label])
    assert reverted(plan) == [(WEB, "your change does not last: spec.replicas goes back from 5 to 2, by apps/apps")]


def test_another_value_than_that_of_the_user() -> None:
    """The operator has a limit of its own."""

    async def limit(app: Any, ctx: Context) -> None:
        web = await ctx.client.get_or_none(unstructured_kind("apps/v1", "Deployment"), "app-0", namespace="default")
        if web is not None and web["spec"]["replicas"] > 3:
            await ctx.client.patch(web, merge_patch({"spec": {"replicas": 3}}))

    version = Version(children=unscaled, after=limit)
    plan = plan_for(version, state_of(version), changes=scale("deployments.apps/default/app-0=5"))
    assert reverted(plan) == [(WEB, "your change does not last: spec.replicas goes from 5 to 3, by apps")]


def test_a_scale_that_a_built_in_controller_reverts() -> None:
    """A ReplicaSet has the replicas of its Deployment."""
    [name] = [obj["metadata"]["name"] for obj in state().objects if obj["kind"] == "ReplicaSet"]
    plan = plan_for(VERSION, state(), changes=scale(f"replicasets.apps/default/{name}=0"))
    [(_, message)] = reverted(plan)
    assert message.startswith("your change does not last: spec.replicas goes back from 0 to 2")


def test_a_deletion_that_the_operator_undoes() -> None:
    """The object is created again."""
    plan = plan_for(VERSION, state(), changes=UserChanges(deletions=["configmaps/default/app-0"]).read())
    assert reverted(plan) == [("ConfigMap default/app-0", "your deletion does not last: it is created again")]


def test_a_deletion_that_lasts_is_not_named() -> None:
    """The App goes with what it owns."""
    plan = plan_for(VERSION, state(), changes=UserChanges(deletions=["apps.apps.example.com/default/app-0"]).read())
    assert reverted(plan) == []


def test_an_object_that_the_operator_deletes_at_once() -> None:
    """The user's ConfigMap is not one that the operator wants."""
    maps = unstructured_kind("v1", "ConfigMap")

    async def sweep(app: Any, ctx: Context) -> None:
        for each in await ctx.client.list(maps, namespace="default", uncached=True):
            if each.metadata.name == "stray":
                await ctx.client.delete(each)

    async def create(client: Client) -> None:
        stray = config("stray", a="1")
        stray["metadata"]["namespace"] = "default"
        await client.create(maps.representation.from_tree(stray))
        app = await client.get(unstructured_kind("apps.example.com/v1", "App"), "app-0", namespace="default")
        await client.patch(app, merge_patch({"spec": {"image": "app:3"}}), field_owner="user")

    plan = plan_for(Version(before=sweep), state_of(Version()), changes=[create])
    assert reverted(plan) == [("ConfigMap default/stray", "your change does not last: it is deleted")]


def test_fields_that_others_add_are_no_reverts() -> None:
    """The user's key stays beside those of the operator."""
    plan = plan_for(VERSION, state(), changes=[patch("ConfigMap", "app-0", {"data": {"mine": "1"}})])
    assert reverted(plan) == []


@pytest.mark.parametrize(
    "tree",
    [
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "app", "image": "app:1"}]}},
        claim("mine"),
        service("mine", selector={"app": "app-0"}),
        workload("Deployment", "mine"),
        {"apiVersion": "v1", "kind": "Namespace"},
    ],
    ids=lambda tree: tree["kind"],
)
def test_what_the_controllers_make_of_a_new_object_is_no_revert(tree: JsonObject) -> None:
    """They fill in the status, the node, the volume and the addresses."""
    namespace = {} if tree["kind"] == "Namespace" else {"namespace": "default"}
    tree = {**tree, "metadata": {"name": "mine", **namespace}}

    async def create(client: Client) -> None:
        await apply_as_kubectl(client, tree)

    assert reverted(plan_for(VERSION, state(), changes=[create])) == []


def test_values_of_secrets_are_hidden() -> None:
    """The message is pasted into pull requests."""
    version = Version(children=lambda name: [secret(name, p="first")])
    change = patch("Secret", "app-0", {"data": {"p": "c2Vjb25k"}})
    [(_, message)] = reverted(plan_for(version, state_of(version), changes=[change]))
    assert "data.p goes" in message
    assert "c2Vjb25k" not in message
    assert "Zmlyc3Q" not in message
