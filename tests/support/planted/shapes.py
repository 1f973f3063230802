"""Bugs of the usual classes in operators of other shapes: sets, references, schedules, several controllers."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta, field

from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator, Result, Unstructured
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.meta import Condition, OwnerReference
from opsdk.builder.arguments import WatchSpec
from opsdk.client.patch import merge_patch
from opsdk.errors import ConflictError
from opsdk.event.request import Request
from opsdk.recipes.conditions import set_condition
from planted.kinds import Reader, Site, operator_of

_LONGEST = 200


class TeamSpec(Model, kw_only=True):
    """The members of a team."""

    members: list[Annotated[str, Meta(pattern="^[a-z]{1,8}$")]] = field(default_factory=list)


class TeamStatus(Model, kw_only=True):
    """What the reconciler reports."""

    synced_revision: int = 0
    history: list[str] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)


class Team(Object[TeamSpec, TeamStatus]):
    """A team with members."""

    gvk = GroupVersionKind("planted.opsdk.dev", "v1", "Team")


class TenantSpec(Model, kw_only=True):
    """A text, and the name of the object that has it."""

    text: str = "hello"
    target: Annotated[str, Meta(pattern="^[a-z]{1,8}$")] = "main"


class Tenant(Object[TenantSpec, TeamStatus]):
    """A tenant of the cluster."""

    gvk = GroupVersionKind("planted.opsdk.dev", "v1", "Tenant")
    namespaced = False


class ReportSpec(Model, kw_only=True):
    """How often a report is made."""

    every_seconds: Annotated[int, Meta(ge=60, le=3600)] = 60


class ReportStatus(Model, kw_only=True):
    """When the last report was made."""

    last_run: str = ""


class Report(Object[ReportSpec, ReportStatus]):
    """A report that is made again and again."""

    gvk = GroupVersionKind("planted.opsdk.dev", "v1", "Report")


def short_of(name: str) -> str:
    """Return a name that leaves space for a prefix or a suffix."""
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _settings(name: str, /, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


# ---------------------------------------------------------------- a generation under a name of its own
def early_revision() -> Operator:
    """The bug: the revision is noted before the child is written."""

    async def reconcile(team: Team, ctx: Context) -> None:
        generation = team.metadata.generation or 0
        if team.status is not None and team.status.synced_revision == generation:
            return
        async with ctx.status(team) as patch:
            patch.status.synced_revision = generation
        await ctx.apply(_settings(team.metadata.name, members=",".join(team.spec.members)))

    return operator_of(Team, reconcile, owns=[ConfigMap])


def early_revision_repaired() -> Operator:
    """The revision is noted at the end, and decides nothing."""

    async def reconcile(team: Team, ctx: Context) -> None:
        await ctx.apply(_settings(team.metadata.name, members=",".join(team.spec.members)))
        async with ctx.status(team) as patch:
            patch.status.synced_revision = team.metadata.generation or 0

    return operator_of(Team, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- a child that records the past
def repeated_history() -> Operator:
    """The bug: each pass adds the present text to the history."""

    async def reconcile(site: Site, ctx: Context) -> None:
        key = f"{site.metadata.namespace}/{site.metadata.name}"
        existing = await ctx.client.get_or_none(ConfigMap, key)
        past = (existing.data or {}).get("history", "") if existing is not None else ""
        await ctx.apply(_settings(site.metadata.name, text=site.spec.text, history=f"{past}\n{site.spec.text}"))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def repeated_history_repaired() -> Operator:
    """The history has each text once, the newest at the end."""

    async def reconcile(site: Site, ctx: Context) -> None:
        key = f"{site.metadata.namespace}/{site.metadata.name}"
        existing = await ctx.client.get_or_none(ConfigMap, key)
        past = (existing.data or {}).get("history", "").split("\n") if existing is not None else []
        if not past or past[-1] != site.spec.text:
            past.append(site.spec.text)
        await ctx.apply(_settings(site.metadata.name, text=site.spec.text, history="\n".join(past[-5:])))

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- a set of children
def _of_members(team: Team) -> list[ConfigMap]:
    return [_settings(f"{short_of(team.metadata.name)}-{name}") for name in sorted(set(team.spec.members))]


def unpruned_set() -> Operator:
    """The bug: the last member that leaves keeps its object."""

    async def reconcile(team: Team, ctx: Context) -> None:
        if team.spec.members:
            await ctx.apply_all(_of_members(team), prune=[ConfigMap])

    return operator_of(Team, reconcile, owns=[ConfigMap])


def unpruned_set_repaired() -> Operator:
    """An empty set is a set too."""

    async def reconcile(team: Team, ctx: Context) -> None:
        await ctx.apply_all(_of_members(team), prune=[ConfigMap])

    return operator_of(Team, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- names that the server chooses
def _controller(site: Site) -> OwnerReference:
    return OwnerReference(
        api_version="planted.opsdk.dev/v1",
        kind="Site",
        name=site.metadata.name,
        uid=site.metadata.uid or "",
        controller=True,
    )


def _numbered(site: Site) -> ConfigMap:
    meta = ObjectMeta(generate_name="run-", namespace=site.metadata.namespace, owner_references=[_controller(site)])
    return ConfigMap(metadata=meta, data={"text": site.spec.text})


def created_twice() -> Operator:
    """The bug: a child whose generated name could not be noted is created once more."""

    async def reconcile(site: Site, ctx: Context) -> None:
        if site.status is None or not site.status.record:
            child = await ctx.client.create(_numbered(site))
            async with ctx.status(site) as patch:
                patch.status.record = child.metadata.name
        else:
            key = f"{site.metadata.namespace}/{site.status.record}"
            child_or_none = await ctx.client.get_or_none(ConfigMap, key)
            if child_or_none is None:
                async with ctx.status(site) as patch:
                    patch.status.record = ""
            elif child_or_none.data != {"text": site.spec.text}:
                await ctx.client.patch(child_or_none, merge_patch({"data": {"text": site.spec.text}}))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def created_twice_repaired() -> Operator:
    """The children of the owner are read from the server before one is created."""

    async def reconcile(site: Site, ctx: Context) -> None:
        live = await ctx.cluster.uncached.list(ConfigMap, namespace=site.metadata.namespace)
        children = [
            each for each in live if site.metadata.uid in [owner.uid for owner in each.metadata.owner_references or ()]
        ]
        if not children:
            await ctx.client.create(_numbered(site))
        elif children[0].data != {"text": site.spec.text}:
            await ctx.client.patch(children[0], merge_patch({"data": {"text": site.spec.text}}))

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- a kind without a class
_RAW = unstructured_kind("v1", "ConfigMap")


def swallowed_conflict() -> Operator:
    """The bug: an update that conflicts is given up without an error."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await _write_raw(site, ctx, strict=False)

    return operator_of(Site, reconcile, owns=[_RAW])


def swallowed_conflict_repaired() -> Operator:
    """The conflict ends the pass, and the next one repeats it."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await _write_raw(site, ctx, strict=True)

    return operator_of(Site, reconcile, owns=[_RAW])


async def _write_raw(site: Site, ctx: Context, *, strict: bool) -> None:
    key = f"{site.metadata.namespace}/{site.metadata.name}"
    existing = await ctx.client.get_or_none(_RAW, key)
    if existing is None:
        await ctx.apply(
            Unstructured.from_tree(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": site.metadata.name},
                    "data": {"text": site.spec.text},
                }
            )
        )
        return
    is_own = site.metadata.uid in [owner.uid for owner in existing.metadata.owner_references or ()]
    if not is_own or existing["data"] == {"text": site.spec.text}:
        return
    existing["data"] = {"text": site.spec.text}
    try:
        await ctx.client.update(existing)
    except ConflictError:
        if strict:
            raise


# ---------------------------------------------------------------- two controllers of one operator
def _two(*, watched: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconciler(Site, name="settings", owns=[ConfigMap])
    async def settings(site: Site, ctx: Context) -> None:
        await ctx.apply(_settings(site.metadata.name, text=site.spec.text))

    @operator.reconciler(Site, name="report", owns=[ConfigMap] if watched else [])
    async def report(site: Site, ctx: Context) -> None:
        key = f"{site.metadata.namespace}/{site.metadata.name}"
        child = await ctx.client.get_or_none(ConfigMap, key)
        async with ctx.status(site) as patch:
            patch.status.text = (child.data or {}).get("text", "") if child is not None else "absent"

    return operator


def unwatched_sibling() -> Operator:
    """The bug: the second controller reads what the first one writes, and does not watch it."""
    return _two(watched=False)


def unwatched_sibling_repaired() -> Operator:
    """Both controllers watch the child."""
    return _two(watched=True)


# ---------------------------------------------------------------- a kind of the cluster
def _tenant(*, listed: bool) -> Operator:
    async def children(tenant: Tenant, ctx: Context) -> list[ConfigMap]:
        config_maps = await ctx.client.list(ConfigMap, namespace="default")
        return [each for each in config_maps if (each.metadata.labels or {}).get("tenant") == tenant.metadata.uid]

    async def finalize(tenant: Tenant, ctx: Context) -> None:
        if listed:
            for each in await ctx.cluster.uncached.list(
                ConfigMap, namespace="default", label_selector=f"tenant={tenant.metadata.uid}"
            ):
                await ctx.client.delete(each, missing_ok=True)
        else:
            meta = ObjectMeta(name=f"{tenant.spec.target}-of-{short_of(tenant.metadata.name)}", namespace="default")
            await ctx.client.delete(ConfigMap(metadata=meta), missing_ok=True)

    async def reconcile(tenant: Tenant, ctx: Context) -> None:
        name = f"{tenant.spec.target}-of-{short_of(tenant.metadata.name)}"
        labels, annotations = {"tenant": tenant.metadata.uid or ""}, {"tenant": tenant.metadata.name}
        meta = ObjectMeta(name=name, namespace="default", labels=labels, annotations=annotations)
        await ctx.apply(ConfigMap(metadata=meta, data={"text": tenant.spec.text}), owner=None)
        if listed:
            for each in await children(tenant, ctx):
                if each.metadata.name != name:
                    await ctx.client.delete(each, missing_ok=True)

    def to_tenants(child: ConfigMap) -> list[Request]:
        name = (child.metadata.annotations or {}).get("tenant", "")
        return [Request("", name)] if name else []

    return operator_of(
        Tenant,
        reconcile,
        finalizers={"planted.opsdk.dev/target": finalize},
        watches=[WatchSpec(kind=ConfigMap, handler=to_tenants)],
    )


def moved_target() -> Operator:
    """The bug: what was applied under the former target stays."""
    return _tenant(listed=False)


def moved_target_repaired() -> Operator:
    """The objects of a tenant have a label, and the others go."""
    return _tenant(listed=True)


# ---------------------------------------------------------------- a ConfigMap by reference
def _copying(*, always: bool) -> Operator:
    operator = Operator("planted")

    async def readers(source: ConfigMap) -> list[Request]:
        all_readers = await operator.client.list(Reader, namespace=source.metadata.namespace)
        return [
            Request(each.metadata.namespace or "", each.metadata.name)
            for each in all_readers
            if each.spec.config_map_ref.name == source.metadata.name
        ]

    @operator.reconciler(Reader, owns=[ConfigMap], watches=[WatchSpec(kind=ConfigMap, handler=readers)])
    async def reconcile(reader: Reader, ctx: Context) -> None:
        namespace = reader.metadata.namespace
        name = f"{short_of(reader.metadata.name)}-copy"
        source = await ctx.client.get_or_none(ConfigMap, f"{namespace}/{reader.spec.config_map_ref.name}")
        existing = await ctx.client.get_or_none(ConfigMap, f"{namespace}/{name}")
        if existing is not None and existing.data and not always:
            return
        await ctx.apply(_settings(name, **(source.data or {} if source is not None else {})))

    return operator


def copied_once() -> Operator:
    """The bug: a copy is never brought up to date."""
    return _copying(always=False)


def copied_once_repaired() -> Operator:
    """The copy has what the source has."""
    return _copying(always=True)


# ---------------------------------------------------------------- a schedule
async def _make(report: Report, ctx: Context) -> None:
    await ctx.apply(_settings(report.metadata.name, made="true", every=str(report.spec.every_seconds)))


def _seconds_left(report: Report, ctx: Context) -> float:
    last = report.status.last_run if report.status is not None else ""
    if not last:
        return 0.0
    return (datetime.fromisoformat(last) + timedelta(seconds=report.spec.every_seconds) - ctx.now).total_seconds()


async def _note(report: Report, ctx: Context) -> None:
    async with ctx.status(report) as patch:
        patch.status.last_run = ctx.now.astimezone(UTC).isoformat()


def missed_run() -> Operator:
    """The bug: a run is noted before it is made, so a crash between the two leaves it out."""

    async def reconcile(report: Report, ctx: Context) -> Result:
        seconds = _seconds_left(report, ctx)
        if seconds > 0:
            return Result(requeue_after=seconds)
        await _note(report, ctx)
        await _make(report, ctx)
        return Result(requeue_after=report.spec.every_seconds)

    return operator_of(Report, reconcile, owns=[ConfigMap])


def missed_run_repaired() -> Operator:
    """Each pass makes the child, and a run is noted at its end."""

    async def reconcile(report: Report, ctx: Context) -> Result:
        await _make(report, ctx)
        seconds = _seconds_left(report, ctx)
        if seconds > 0:
            return Result(requeue_after=seconds)
        await _note(report, ctx)
        return Result(requeue_after=report.spec.every_seconds)

    return operator_of(Report, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- conditions
def moving_condition() -> Operator:
    """The bug: the transition time of the condition is that of the pass."""

    async def reconcile(team: Team, ctx: Context) -> None:
        await ctx.apply(_settings(team.metadata.name, members=",".join(team.spec.members)))
        generation = team.metadata.generation or 0
        async with ctx.status(team) as patch:
            ready = Condition(type="Ready", status="True", reason="Applied", last_transition_time=ctx.now)
            ready.observed_generation = generation
            patch.status.conditions = [ready]

    return operator_of(Team, reconcile, owns=[ConfigMap])


def moving_condition_repaired() -> Operator:
    """The time changes with the status of the condition."""

    async def reconcile(team: Team, ctx: Context) -> None:
        await ctx.apply(_settings(team.metadata.name, members=",".join(team.spec.members)))
        generation = team.metadata.generation or 0
        async with ctx.status(team) as patch:
            set_condition(patch.status.conditions, "Ready", True, "Applied", observed_generation=generation)

    return operator_of(Team, reconcile, owns=[ConfigMap])
