"""Children that a new version has forgotten are named, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.engine.plan import ConsequenceKind, Plan
from opsdk.engine.plan_text import markdown_lines, text_lines
from opsdk.structured_merge.value import JsonObject
from tests.engine.upgrades import App, Version, config, plan_for, state_of, workload
from tests.engine.versions import plan_against


def named(*suffixes: str, more: Sequence[JsonObject] = (), **changes: Any) -> Version:
    """A version with a ConfigMap for each suffix, which deletes nothing."""

    def children(name: str) -> list[JsonObject]:
        return [*(config(f"{name}-{suffix}", a="1") for suffix in suffixes), *more]

    return Version(children=children, prunes=False, **changes)


def left_behind(plan: Plan) -> list[str]:
    """The forgotten objects."""
    return [each.subject for each in plan.consequences if each.kind is ConsequenceKind.LEFT_BEHIND]


def test_the_children_with_former_names_are_named_in_one_line() -> None:
    """A renamed ConfigMap of each App, in all formats. JSON has each."""
    plan = plan_for(named("settings"), state_of(named("config"), apps=12))
    assert left_behind(plan) == [f"ConfigMap default/app-{number}-config" for number in sorted(range(12), key=str)]
    for lines in ([line.text for line in text_lines(plan)], list(markdown_lines(plan))):
        [warning] = [line for line in lines if "Warning" in line]
        assert "ConfigMap default/app-0-config" in warning
        assert "and 11 more" in warning
    assert not plan.is_dangerous


def test_many_children_of_one_owner() -> None:
    """The journal of a plan keeps all that a reconcile looks at."""
    old, new = ([f"{word}-{number}" for number in range(96)] for word in ("old", "new"))
    plan = plan_for(named(*new), state_of(named(*old)))
    assert len(left_behind(plan)) == 96
    assert not plan.is_dangerous


@pytest.mark.slow
def test_between_two_versions_on_a_cluster_that_none_of_them_touched() -> None:
    """The state between them has the children of the other version."""
    old, new = named("config"), named("settings")
    plan = plan_against(lambda _: old.operator(), lambda _: new.operator(), state_of(named()))
    assert left_behind(plan) == ["ConfigMap default/app-0-config"]
    assert left_behind(plan_against(lambda _: new.operator(), lambda _: new.operator(), state_of(old))) == []


def test_a_child_of_another_kind() -> None:
    """The Deployment goes on beside the StatefulSet."""
    old, new = (Version(children=lambda name, kind=kind: [workload(kind, name)], prunes=False) for kind in KINDS)
    assert left_behind(plan_for(new, state_of(old))) == ["Deployment default/app-0"]


KINDS = ("Deployment", "StatefulSet")


@pytest.mark.parametrize(
    "new",
    [
        named("config", "more"),  # it is still applied, and does not change
        named("config"),
        Version(children=lambda name: [config(f"{name}-settings", a="1")]),  # it is deleted
        named(),  # nothing is written, so nothing is known
    ],
)
def test_children_that_the_new_version_knows_are_not_named(new: Version) -> None:
    """It reads, writes or deletes them."""
    assert left_behind(plan_for(new, state_of(named("config")))) == []


def test_children_of_others_and_of_a_deleted_owner_are_not_named() -> None:
    """A user's ConfigMap with the same owner is no child of the operator."""
    foreign = config("foreign", a="1")
    foreign["metadata"]["namespace"] = "default"

    async def adopt(app: Any, ctx: Context) -> None:
        meta = ObjectMeta(name=f"{app.metadata.name}-foreign", namespace="default")
        if await ctx.client.get_or_none(ConfigMap, meta.name, namespace="default") is None:
            await ctx.client.create(ConfigMap(metadata=meta), field_owner="user")

    assert left_behind(plan_for(named("new"), state_of(named(before=adopt), more=[foreign]))) == []


def test_children_of_a_controller_that_found_nothing_to_do() -> None:
    """A second controller made them, and does not look at them again."""

    def add_second(operator: Operator) -> None:
        @operator.reconciler(App, name="second")
        async def second(app: App, ctx: Context) -> None:
            if app.status is None or app.status.text != "done":
                await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{app.metadata.name}-second")))
                async with ctx.status(app) as patch:
                    patch.status.text = "done"

    old, new = (named(name, customize=add_second) for name in ("old", "new"))
    assert left_behind(plan_for(new, state_of(old))) == ["ConfigMap default/app-0-old"]


def test_a_reconcile_that_fails_has_not_looked_at_all() -> None:
    """The children after the failure are not forgotten."""

    async def fail(app: Any, ctx: Context) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{app.metadata.name}-first")))
        raise RuntimeError("not yet")

    assert left_behind(plan_for(named("config", before=fail), state_of(named("config")))) == []
