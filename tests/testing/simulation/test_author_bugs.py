"""Bugs that authors make: `simulate` finds them, ends in time, and shows what the operator did."""

from __future__ import annotations

import itertools

import pytest

import envtest
from opsdk import Context, ControllerOptions, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.crd import crd_for
from opsdk.errors import AdmissionDeniedError, ConflictError
from opsdk.testing.simulate import Simulation, World, simulate
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.handlers import AdmissionContext


class SiteSpec(Model, kw_only=True):
    """A size that a defaulter sets, and a text."""

    size: int = 0
    text: str = ""


class SiteStatus(Model, kw_only=True):
    """What the reconciler reports."""

    seen: str = ""
    count: int = 0


class Site(Object[SiteSpec, SiteStatus]):
    """A kind with a status."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")


class OldSiteSpec(Model, kw_only=True):
    """The size in the version before v1."""

    width: int = 0


class OldSite(Object[OldSiteSpec, SiteStatus]):
    """The version before v1."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1beta1", "Site")


async def make_site(world: World) -> None:
    """Create a site, or change its text."""
    meta = ObjectMeta(name=f"site-{world.rng.randrange(3)}", namespace="default")
    text = str(world.rng.randrange(1000))
    await world.client.apply(Site(metadata=meta, spec=SiteSpec(text=text)), field_owner="user", force=True)


async def statuses_match(world: World) -> None:
    """Each status has the text of the spec."""
    for site in await world.client.list(Site, namespace="default"):
        in_status = site.status.seen if site.status is not None else ""
        assert in_status == site.spec.text, f"{site.metadata.name} reports {in_status!r}, not {site.spec.text!r}"


@pytest.mark.parametrize(("ignored", "broken"), [(False, "hot loop"), (True, "restart")])
def test_a_status_that_changes_at_each_reconcile_ends_the_run(ignored: bool, broken: str) -> None:
    """The violation names the object, and the journal shows its reconciles; the run does not go on for hours.

    Where own status writes start no second reconcile, the last restart shows the bug.
    """
    counter = itertools.count()
    options = ControllerOptions(ignore_own_status_writes=ignored)

    def make() -> Operator:
        operator = Operator("site")

        @operator.reconciler(Site, options=options)
        async def reconcile(site: Site, ctx: Context) -> None:
            async with ctx.status(site) as patch:
                patch.status.seen, patch.status.count = site.spec.text, next(counter)

        return operator

    sites = Simulation(
        operator=make,
        environment=lambda: envtest.Environment(crds=[crd_for(Site)]),
        actions=[make_site],
        check=statuses_match,
        faults=(),
    )
    outcome = sites.run(1)
    assert outcome.broken == {broken}
    assert "/sites/site-" in outcome.violations[0]
    assert "patch" in outcome.journal
    assert outcome.seconds < 1000


def bad_status_writer(bug: str) -> Operator:
    """Return an operator with a bug in how it writes the status."""
    operator = Operator("site")
    remembered: dict[str, Site] = {}

    @operator.reconciler(Site)
    async def reconcile(site: Site, ctx: Context) -> None:
        if bug == "status from a stale read":
            site = remembered.setdefault(site.metadata.name, site)
            async with ctx.status(site) as patch:
                patch.status.seen = site.spec.text
            return
        if site.status is not None and site.status.seen == site.spec.text:
            return
        site.status = SiteStatus(seen=site.spec.text)
        try:
            await ctx.client.status().update(site)
        except ConflictError:
            return  # the bug: the write is lost, and nothing queues the object again

    return operator


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["swallowed conflict", "status from a stale read"])
def test_a_bug_in_the_status_is_found(bug: str) -> None:
    """A swallowed conflict, and a status from an old read, within the default seeds."""
    sites = Simulation(
        operator=lambda: bad_status_writer(bug),
        environment=lambda: envtest.Environment(crds=[crd_for(Site)]),
        actions=[make_site],
        check=statuses_match,
    )
    with pytest.raises(AssertionError, match=r"converged: site-\d reports") as caught:
        simulate(sites, name="SITES")
    assert "The operator's journal:" in str(caught.value)
    assert "seeds were run" in str(caught.value)


def site_with_webhooks() -> Operator:
    """Return an operator that defaults, validates, converts, and owns a config map of each site."""
    operator = Operator("site")

    def set_size(site: Site, _: AdmissionContext) -> None:
        site.spec.size = site.spec.size or 7

    def refuse_large(site: Site, _: AdmissionContext) -> None:
        if site.spec.size > 100:
            raise AdmissionDeniedError("spec.size: at most 100")

    converter = HubSpokeConverter(
        Site,
        Spoke(
            OldSite,
            to_hub=lambda old: Site(spec=SiteSpec(size=old.spec.width)),
            from_hub=lambda site: OldSite(spec=OldSiteSpec(width=site.spec.size)),
        ),
    )
    builder = operator.webhook_for(Site)
    builder.with_defaulter(set_size).with_validator(create=refuse_large).with_converter(converter)

    @operator.reconciler(Site, owns=[ConfigMap])
    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"size": str(site.spec.size)}))

    return operator


async def delete_site(world: World) -> None:
    """Delete a site."""
    meta = ObjectMeta(name=f"site-{world.rng.randrange(3)}", namespace="default")
    await world.client.delete(Site(metadata=meta, spec=SiteSpec()), missing_ok=True)


async def sizes_are_copied(world: World) -> None:
    """Each site has the default size, in both versions, and its config map; config maps of deleted sites are gone."""
    sites = await world.client.list(Site, namespace="default")
    old = {site.metadata.name: site.spec.width for site in await world.client.list(OldSite, namespace="default")}
    configs = await world.client.list(ConfigMap, namespace="default")
    copies = {config.metadata.name: config.data for config in configs if config.metadata.owner_references}
    assert {site.metadata.name: site.spec.size for site in sites} == old
    assert all(width == 7 for width in old.values()), old
    assert copies == {site.metadata.name: {"size": "7"} for site in sites}


@pytest.mark.slow
def test_an_operator_with_webhooks_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    """A simulated operator's webhooks are called in process, also while replicas crash."""
    sites = Simulation(
        operator=site_with_webhooks,
        environment=envtest.Environment,
        actions=[make_site, delete_site],
        check=sizes_are_copied,
        children=[ConfigMap],
        replicas=2,
    )
    summary = simulate(sites, range(6), name="SITES")
    assert (summary.seeds, summary.of) == (6, 6)
    assert capsys.readouterr().out.startswith("simulate SITES: 6 of 6 seeds hold")
    assert sites.run(3).transcript == sites.run(3).transcript


def test_children_of_deleted_owners_are_collected() -> None:
    """A correct operator relies on the garbage collector, which runs unless the environment says otherwise."""

    def make() -> Operator:
        operator = Operator("site")

        @operator.reconciler(Site, owns=[ConfigMap])
        async def reconcile(site: Site, ctx: Context) -> None:
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": site.spec.text}))

        return operator

    async def copies_match(world: World) -> None:
        sites = await world.client.list(Site, namespace="default")
        configs = await world.client.list(ConfigMap, namespace="default")
        copies = {config.metadata.name: config.data for config in configs if config.metadata.owner_references}
        assert copies == {site.metadata.name: {"text": site.spec.text} for site in sites}

    sites = Simulation(
        operator=make,
        environment=lambda: envtest.Environment(crds=[crd_for(Site)]),
        actions=[make_site, delete_site],
        check=copies_match,
        children=[ConfigMap],
    )
    assert simulate(sites, range(3), name="SITES").seeds == 3


def test_the_time_limit_ends_a_simulation() -> None:
    """The seeds that were not run are named, and are not a failure."""
    sites = Simulation(
        operator=site_with_webhooks,
        environment=envtest.Environment,
        actions=[make_site],
        check=sizes_are_copied,
        faults=(),
    )
    summary = simulate(sites, name="SITES", time_limit=0.0)
    assert (summary.seeds, summary.of) == (1, 100)
    assert str(summary).startswith("the time limit ended the simulation: 1 of 100 seeds hold")
