"""Bugs of habit: errors that are swallowed, objects of neighbours, reports that come too early."""

from __future__ import annotations

import hashlib

from opsdk import Context, LabelSelector, ObjectMeta, Operator, Result
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core import v1 as core
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import Condition
from opsdk.client.patch import merge_patch
from opsdk.errors import ApiError
from opsdk.recipes.conditions import set_condition
from planted.kinds import Site, operator_of
from planted.shapes import short_of


def _child(site: Site, *, labels: dict[str, str] | None = None) -> ConfigMap:
    meta = ObjectMeta(name=short_of(site.metadata.name), labels=labels or {})
    return ConfigMap(metadata=meta, data={"text": site.spec.text})


# ---------------------------------------------------------------- an error is swallowed
def swallowed_error() -> Operator:
    """The bug: a write that the server refuses is logged, and never repeated."""

    async def reconcile(site: Site, ctx: Context) -> None:
        try:
            await ctx.apply(_child(site))
        except ApiError as error:
            ctx.logger.warning("no child: %s", error)

    return operator_of(Site, reconcile, owns=[ConfigMap])


def swallowed_error_repaired() -> Operator:
    """It is logged, and the pass is repeated."""

    async def reconcile(site: Site, ctx: Context) -> Result | None:
        try:
            await ctx.apply(_child(site))
        except ApiError as error:
            ctx.logger.warning("no child: %s", error)
            return Result(requeue=True)
        return None

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- the children of neighbours
def _by_label(*, selects_owner: bool) -> Operator:
    async def reconcile(site: Site, ctx: Context) -> None:
        digest = hashlib.sha256(site.spec.text.encode()).hexdigest()[:8]
        child_name = f"{short_of(site.metadata.name)}-{digest}"
        labels = {"app": "site", "site": site.metadata.uid or ""}
        meta = ObjectMeta(name=child_name, labels=labels)
        await ctx.apply(ConfigMap(metadata=meta, data={"text": site.spec.text}))
        selector = f"site={site.metadata.uid}" if selects_owner else "app=site"
        for each in await ctx.client.list(ConfigMap, namespace=site.metadata.namespace, label_selector=selector):
            if each.metadata.name != child_name:
                await ctx.client.delete(each, missing_ok=True)

    return operator_of(Site, reconcile, owns=[ConfigMap])


def removed_neighbours() -> Operator:
    """The bug: old children are found by a label that the children of all sites have."""
    return _by_label(selects_owner=False)


def removed_neighbours_repaired() -> Operator:
    """The label has the uid of the site."""
    return _by_label(selects_owner=True)


# ---------------------------------------------------------------- an immutable part
def _deployment(site: Site, selected: dict[str, str]) -> Deployment:
    labels = {"app": site.metadata.name[:60], **selected}
    main = core.Container(name="main", image="registry.k8s.io/pause:3.9")
    template = core.PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=core.PodSpec(containers=[main]))
    spec = DeploymentSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template)
    return Deployment(metadata=ObjectMeta(name=short_of(site.metadata.name)), spec=spec)


def changed_selector() -> Operator:
    """The bug: the selector of a Deployment, which cannot change, depends on the spec."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_deployment(site, {"text": "".join(each for each in site.spec.text if each.isalnum())[:20]}))

    return operator_of(Site, reconcile, owns=[Deployment])


def changed_selector_repaired() -> Operator:
    """The selector is the same for ever."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_deployment(site, {}))
        async with ctx.status(site) as patch:
            patch.status.text = site.spec.text

    return operator_of(Site, reconcile, owns=[Deployment])


# ---------------------------------------------------------------- conditions of two controllers
def _conditions(*, whole: bool) -> Operator:
    operator = Operator("planted")

    def controller(name: str) -> None:
        async def reconcile(site: Site, ctx: Context) -> None:
            if whole:
                ready = Condition(type=name, status="True", reason="Done", message=site.spec.text)
                ready.last_transition_time = site.metadata.creation_timestamp
                await ctx.client.status().patch(site, merge_patch({"status": {"conditions": [_tree(ready)]}}))
            else:
                async with ctx.status(site) as patch:
                    set_condition(patch.status.conditions, name, True, "Done", site.spec.text)

        operator.reconciler(Site, name=name.lower())(reconcile)

    controller("Stored")
    controller("Served")
    return operator


def _tree(condition: Condition) -> dict[str, str]:
    time = condition.last_transition_time
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": f"{time:%Y-%m-%dT%H:%M:%SZ}" if time is not None else "1970-01-01T00:00:00Z",
    }


def fighting_conditions() -> Operator:
    """The bug: each of two controllers writes the whole list of conditions."""
    return _conditions(whole=True)


def fighting_conditions_repaired() -> Operator:
    """Each sets its own."""
    return _conditions(whole=False)


# ---------------------------------------------------------------- a report that comes too early
def early_ready() -> Operator:
    """The bug: the site says which text is applied before it is, and fails in between for a long text."""

    async def reconcile(site: Site, ctx: Context) -> None:
        if site.status is not None and site.status.text == site.spec.text:
            return
        await ctx.client.status().patch(site, merge_patch({"status": {"text": site.spec.text}}))
        await ctx.apply(_child(site))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def early_ready_repaired() -> Operator:
    """It says so afterwards, and looks at the child each time."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))
        if site.status is None or site.status.text != site.spec.text:
            await ctx.client.status().patch(site, merge_patch({"status": {"text": site.spec.text}}))

    return operator_of(Site, reconcile, owns=[ConfigMap])
