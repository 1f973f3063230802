"""What was not read of a cluster is never compared, never invented, and never planned as a change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from planned_scenarios import make_greeter

import envtest
from opsdk import Client, Context, ObjectMeta
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.cli.__main__ import main
from opsdk.cli.plan.printing import plan_status
from opsdk.engine.environments import environment_factory
from opsdk.engine.isolation import isolate
from opsdk.engine.plan import ChangeAction, Plan, Severity
from opsdk.engine.plan_text import markdown_lines, text_lines
from opsdk.engine.run import OperatorRun
from opsdk.engine.shadow.outcome import summary_of
from opsdk.engine.snapshot import ClusterSnapshot, Unseen, write_snapshot
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.http.asgi_types import Receive, Scope, Send
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.loop import VirtualLoop
from tests.engine.shadowed import shadow
from tests.engine.upgrades import (
    App,
    Version,
    config,
    namespaced_objects,
    plan_for,
    read_as,
    secret,
    service,
    state_of,
    without_kinds,
    workload,
)
from tests.engine.versions import plan_against

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
APPS = "apps.apps.example.com"


def version(number: int) -> Version:
    """A version of the operator: each child differs between two of them, and one has another name."""

    def children(name: str) -> Sequence[JsonObject]:
        return [
            workload("Deployment", name, image=f"app:{number}"),
            workload("StatefulSet", f"{name}-db", image=f"app:{number}"),
            service(name, ports=[{"port": 80 + number}]),
            config(name, a=str(number)),
            config(f"{name}-{number}", a="1"),
            secret(name, p=str(number)),
        ]

    return Version(children=children)


OLD, NEW = version(1), version(2)


@cache
def state() -> ClusterSnapshot:
    """The cluster of the old version."""
    return state_of(OLD)


@cache
def whole_plan() -> Plan:
    """The plan of the new version, if everything is read."""
    return plan_for(NEW, state())


def changes_of(plan: Plan, *, without: frozenset[str] = frozenset()) -> set[tuple[str, ChangeAction, str]]:
    """The changes of a plan, without those of some kinds."""
    return {(each.subject, each.action, str(each.differences)) for each in plan.changes if each.kind not in without}


def consequences_of(plan: Plan) -> set[tuple[str, str, str]]:
    """The consequences of a plan."""
    return {(each.kind.value, each.subject, each.message) for each in plan.consequences}


# ---------------------------------------------------------------- the law
@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_a_plan_has_what_was_read_and_no_more(data: st.DataObject) -> None:
    """Whatever an account may not list."""
    check_law(data.draw(st.sets(st.sampled_from(sorted(kind.resource for kind in state().kinds)), min_size=1)))


@pytest.mark.parametrize(
    "gone",
    [
        {"statefulsets.apps"},  # its Pods were read
        {"replicasets.apps"},  # they were read, and so was the Deployment
        {DEFINITIONS, APPS},  # the server makes the APIService of a definition
        {"secrets"},
        {"services"},
    ],
)
def test_the_parts_of_what_was_not_read_are_not_planned(gone: set[str]) -> None:
    """The fork has other objects there, and its controllers write what belongs to them."""
    check_law(gone)


def check_law(gone: set[str]) -> None:
    """Check that the changes are those of the whole plan in the kinds that were read. No consequence is invented.

    The operator's reconciles depend on Apps alone, so without them nothing is planned.
    """
    kinds = {kind.resource: kind.kind for kind in state().kinds}
    plan = plan_for(NEW, without_kinds(state(), gone))
    hidden = frozenset(kinds[resource] for resource in gone)
    expected = set() if APPS in gone else changes_of(whole_plan(), without=hidden)
    assert changes_of(plan) == expected
    assert consequences_of(plan) <= consequences_of(whole_plan())
    if APPS in gone or {each.kind for each in whole_plan().changes} & hidden:
        assert plan_status(plan) == 1


def test_writes_that_are_not_known_may_be_changes() -> None:
    """A plan whose version writes only to kinds that were not read never has the status of no change."""
    unread = Unseen(what="configmaps", reason="forbidden")
    plan = Plan(operator="a", taken_at="", server_version="", unknown=["ConfigMap a/b"], blind=[unread])
    assert [plan_status(plan), plan_status(plan, allow_unseen=True)] == [1, 2]
    beside = msgspec.structs.replace(plan, against="v1")
    assert plan_status(beside, allow_unseen=True) == 0


@pytest.mark.parametrize("resource", ["pods", "replicasets.apps", "controllerrevisions.apps"])
def test_consequences_that_cannot_be_seen_are_an_error(resource: str) -> None:
    """A new image restarts Pods. Without the Pods, the plan cannot say so."""
    plan = plan_for(NEW, without_kinds(state(), [resource]))
    assert [each.what for each in plan.blind] == [resource]
    assert plan_status(plan) == 1
    assert not plan_for(OLD, without_kinds(state(), [resource])).blind


def test_kinds_that_the_operator_does_not_use_are_no_error() -> None:
    """Webhook configurations of others are not called, whether they were read or not."""
    hooks = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
    plan = plan_for(OLD, without_kinds(state(), [hooks]))
    assert [each.what for each in plan.unseen] == [hooks]
    assert not plan.blind


# ---------------------------------------------------------------- reads
def reading(otherwise: Callable[[], str]) -> Version:
    """A version that writes the value of a Secret into a ConfigMap."""

    async def write(app: App, ctx: Context) -> None:
        login = await ctx.client.get_or_none(Secret, "login", namespace="default", uncached=True)
        value = login.data["user"].decode() if login is not None else otherwise()
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=app.metadata.name), data={"user": value}))

    return Version(before=write, prunes=False)


def no_login() -> str:
    """Fail as an operator does whose Secret is missing."""
    raise LookupError("the Secret login is missing")


LOGIN = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "login", "namespace": "default"},
    "data": {"user": "bWU="},
}


@pytest.mark.slow
def test_what_depends_on_a_read_that_was_refused_is_marked() -> None:
    """The ConfigMap would not change. The plan cannot know it, and says on what it depends."""
    version = reading(lambda: "nobody")
    cluster = without_kinds(state_of(version, more=[LOGIN]), ["secrets"])
    plan = plan_for(version, cluster)
    [planned] = plan.objects
    assert planned.unread == ["Secret default/login"]
    for lines in ([line.text for line in text_lines(plan)], list(markdown_lines(plan))):
        assert "may differ in the cluster, because these were not read: Secret default/login" in "\n".join(lines)


def test_a_failure_after_a_read_that_was_refused_is_no_danger() -> None:
    """The Secret may exist in the cluster. Without one there, the failure is dangerous."""
    version = reading(no_login)
    cluster = state_of(version, more=[LOGIN])
    [consequence] = plan_for(version, without_kinds(cluster, ["secrets"])).consequences
    assert consequence.severity is Severity.WARNING
    assert "it looks at Secret default/login, which was not read" in consequence.message
    missing = [obj for obj in cluster.objects if obj["kind"] != "Secret"]
    assert plan_for(version, replace(cluster, objects=missing)).is_dangerous


# ---------------------------------------------------------------- accounts
def allowed(*verbs: str, besides: Sequence[tuple[str, str]] = ()) -> RuleSet:
    """Permissions to list the kinds of the cluster; some of them have these verbs only."""
    return RuleSet([
        Permission(verb, kind.group, kind.plural)
        for kind in state().kinds
        for verb in (verbs if (kind.group, kind.plural) in besides else ("get", "list"))
    ])  # fmt: skip


@pytest.mark.parametrize("verbs", [(), ("get",), ("watch",), ("get", "watch")])
def test_an_account_that_cannot_list_definitions_knows_none(verbs: tuple[str, ...]) -> None:
    """The plan has no definition, and its status is 1: it could not see everything. The texts say so."""
    reader = allowed(*verbs, besides=[("apiextensions.k8s.io", "customresourcedefinitions")])
    taken = asyncio.run(read_as(reader, NEW.operator().rules(), cluster=state()))
    plan = plan_for(NEW, taken)
    assert changes_of(plan) == changes_of(whole_plan())
    assert list(plan.unknown) == ["CustomResourceDefinition apps.apps.example.com"]
    assert plan_status(plan) == 1
    assert plan_status(plan, allow_unseen=True) == plan_status(whole_plan())
    for lines in ([line.text for line in text_lines(plan)], list(markdown_lines(plan))):
        text = "\n".join(lines)
        assert "which were not read, so their changes are not known" in text
        assert "CustomResourceDefinition apps.apps.example.com" in text


@pytest.mark.parametrize(
    ("path", "unseen", "kind"),
    [
        ("/apis/apps/v1/deployments", "deployments.apps", "Deployment"),
        ("/apis/apps.example.com/v1/apps", APPS, "App"),
    ],
)
def test_a_kind_whose_server_is_down_is_not_planned(path: str, unseen: str, kind: str) -> None:
    """Its list has status 503, as that of an aggregated API."""
    cluster = state()

    async def take() -> ClusterSnapshot:
        async with envtest.Environment(snapshot=cluster) as env:

            async def down(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] != "http" or scope["path"] != path:
                    await env.config.app(scope, receive, send)
                    return
                await send({"type": "http.response.start", "status": 503, "headers": []})
                await send({"type": "http.response.body", "body": b"the server is down"})

            return await take_snapshot(replace(env.config, app=down))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        taken = runner.run(take())
    assert unseen in {each.what for each in taken.unseen}
    plan = plan_for(NEW, taken)
    assert kind not in {each.kind for each in plan.changes}
    assert plan_status(plan) == 1


# ---------------------------------------------------------------- parts of the snapshot
def test_namespaces_that_were_not_read_exist_if_objects_are_in_them() -> None:
    """An operator can write there. The namespace itself is not planned."""

    async def write(_: object, ctx: Context) -> None:
        meta = ObjectMeta(name="new", namespace="shop")
        await ctx.client.apply(ConfigMap(metadata=meta), field_owner="apps")

    cluster = without_kinds(state_of(Version(), more=namespaced_objects("shop")), ["namespaces"])
    plan = plan_for(Version(before=write), cluster)
    assert [each.subject for each in plan.changes] == ["ConfigMap shop/new"]
    assert not plan.consequences
    assert isolate(isolate(cluster)) == isolate(cluster)


@pytest.mark.parametrize("uncached", [False, True])
def test_what_follows_from_a_list_of_a_refused_kind_is_marked(uncached: bool) -> None:
    """An empty list of a kind that was not read is something that the reconcile looked at."""

    async def write(_: object, ctx: Context) -> None:
        secrets = await ctx.client.list(Secret, namespace="default", uncached=uncached)
        meta = ObjectMeta(name="count", namespace="default")
        await ctx.client.apply(ConfigMap(metadata=meta, data={"secrets": str(len(secrets))}), field_owner="apps")

    for gone, marks in ((["secrets"], {"Secret"}), ([], set())):
        cluster = without_kinds(state_of(Version()), gone)
        plan = plan_for(Version(before=write), cluster)
        (planned,) = plan.objects
        assert {each.partition(" ")[0] for each in planned.unread} == marks


def test_a_file_of_the_user_with_a_kind_that_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan does not say that it is created, and the status is 1."""
    taken = asyncio.run(read_as(RuleSet.everything(), RuleSet([Permission("list", "", "configmaps")])))
    make_greeter()
    file, snapshot = tmp_path / "web.json", tmp_path / "few.snapshot"
    file.write_text(json.dumps(service("web")))
    snapshot.write_bytes(write_snapshot(taken))
    words = ["plan", "samples/greeter/greeter.py", "--snapshot", str(snapshot), "-f", str(file), "--output", "json"]
    assert main(words) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["unknown"] == ["Service default/web"]
    assert [each["what"] for each in document["blind"]] == ["services", "endpointslices.discovery.k8s.io"]


def test_the_state_at_the_end_has_nothing_that_was_not_read() -> None:
    """The file of ``--save`` has no definition that the fork made up, and no Secret of the run."""
    operator = NEW.operator()
    run = OperatorRun(
        snapshot=without_kinds(state(), ["secrets", DEFINITIONS]),
        operator=lambda: operator,
        environment=environment_factory(),
        rules=NEW.rules,
        keep_end=True,
    )
    end = run.execute().end
    assert end is not None
    kinds = {kind.kind for kind in end.kinds} & {"Secret", "CustomResourceDefinition", "ConfigMap"}
    assert kinds == {"ConfigMap"}
    assert {obj["kind"] for obj in end.objects} & {"Secret", "CustomResourceDefinition", "ConfigMap"} == kinds


def test_a_deletion_in_a_kind_that_was_refused_says_that_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The object may exist."""
    make_greeter()
    path = tmp_path / "refused.snapshot"
    path.write_bytes(write_snapshot(without_kinds(state(), ["secrets"])))
    words = ["plan", "samples/greeter/greeter.py", "--snapshot", str(path), "--delete", "secrets/default/app-0"]
    assert main(words) == 1
    assert "It may exist: the snapshot could not read secrets: forbidden" in capsys.readouterr().err


# ---------------------------------------------------------------- other commands
@pytest.mark.slow
def test_a_version_against_itself_is_unchanged_and_not_whole() -> None:
    """What neither of the two could see, their difference cannot show."""
    cluster = without_kinds(state(), ["secrets", DEFINITIONS])
    plan = plan_against(lambda _: NEW.operator(), lambda _: NEW.operator(), cluster)
    assert plan.is_empty
    assert plan_status(plan) == 1
    changed = plan_against(lambda _: OLD.operator(), lambda _: NEW.operator(), cluster)
    assert {each.kind for each in changed.changes} & {"Secret", "CustomResourceDefinition"} == set()
    assert changes_of(changed) == changes_of(whole_plan(), without=frozenset({"Secret"}))


async def _wait(_: Client) -> None:
    """Do nothing."""


def test_the_shadow_does_not_compare_with_what_it_could_not_read() -> None:
    """The leader may have the object."""
    result = shadow(OLD, OLD, _wait, without=["secrets"])
    assert result.reported == []
    assert "secrets" in {each.what for each in result.outcome.blind}
    assert "changed none of those that were read meanwhile" in summary_of(result.outcome)
