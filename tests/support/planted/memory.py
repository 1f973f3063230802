"""What a process remembers, and what its children record."""

from __future__ import annotations

from datetime import UTC, datetime

from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.errors import NotFoundError
from planted.kinds import Site, operator_of

_DONE: dict[str, str] = {}


def _child(site: Site, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": site.spec.text, **data})


# ---------------------------------------------------------------- a global dict
def module_memory() -> Operator:
    """The bug: what the process did is in a variable, which another process does not have."""

    async def reconcile(site: Site, ctx: Context) -> None:
        key = f"{site.metadata.namespace}/{site.metadata.name}"
        first = _DONE.setdefault(key, site.spec.text)
        await ctx.apply(_child(site, first=first))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def module_memory_repaired() -> Operator:
    """What was done is in the status."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site, now=site.spec.text))

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- a time in each pass
def moving_time() -> Operator:
    """The bug: each pass writes the time of the pass."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))
        async with ctx.status(site) as patch:
            patch.status.text = f"checked at {datetime.now(UTC):%H:%M:%S}"

    return operator_of(Site, reconcile, owns=[ConfigMap])


def moving_time_repaired() -> Operator:
    """The time is that of the change."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))
        if site.status is None or not site.status.text.startswith(f"{site.spec.text} since"):
            async with ctx.status(site) as patch:
                patch.status.text = f"{site.spec.text} since {datetime.now(UTC):%H:%M:%S}"

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- a write in each pass
def write_in_each_pass() -> Operator:
    """The bug: the child is updated whether it differs or not, and has a counter."""

    async def reconcile(site: Site, ctx: Context) -> None:
        existing = await ctx.client.get_or_none(ConfigMap, site.metadata.name, namespace=site.metadata.namespace)
        count = int((existing.data or {}).get("count", "0")) if existing is not None else 0
        await ctx.apply(_child(site, count=str(count + 1)))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def write_in_each_pass_repaired() -> Operator:
    """The child has what the site decides."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- generations
def wrong_generation() -> Operator:
    """The bug: the status names the generation of an object that it does not know any more."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))
        if site.status is None or not site.status.observed_generation:
            async with ctx.status(site) as patch:
                patch.status.observed_generation = site.metadata.generation or 0

    return operator_of(Site, reconcile, owns=[ConfigMap])


def wrong_generation_repaired() -> Operator:
    """The status names the generation that was applied, under a name of its own too."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))
        async with ctx.status(site) as patch:
            patch.status.observed_generation = site.metadata.generation or 0
            patch.status.applied_generation = site.metadata.generation or 0

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- creations
def create_crashes() -> Operator:
    """The bug: a creation that was stored, and whose answer was lost, fails for ever."""

    async def reconcile(site: Site, ctx: Context) -> None:
        if site.status is None or not site.status.text:
            child = _child(site)
            child.metadata.namespace = site.metadata.namespace
            await ctx.client.create(child)
        async with ctx.status(site) as patch:
            patch.status.text = "created"

    async def finalize(site: Site, ctx: Context) -> None:
        meta = ObjectMeta(name=site.metadata.name, namespace=site.metadata.namespace)
        await ctx.client.delete(ConfigMap(metadata=meta), missing_ok=True)

    return operator_of(Site, reconcile, finalizers={"planted.opsdk.dev/child": finalize})


def create_crashes_repaired() -> Operator:
    """An object that is there already is applied."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))
        async with ctx.status(site) as patch:
            patch.status.text = "created"

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- deletion
def deleted_early() -> Operator:
    """The bug: a site that is deleted before its Secret is there is never let go."""

    async def finalize(site: Site, ctx: Context) -> None:
        secret = await ctx.client.get(Secret, site.metadata.name, namespace=site.metadata.namespace)
        await ctx.client.delete(secret)

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))
        await ctx.apply(Secret(metadata=ObjectMeta(name=site.metadata.name), string_data={"a": "b"}), owner=None)

    return operator_of(Site, reconcile, finalizers={"planted.opsdk.dev/secret": finalize}, owns=[ConfigMap])


def deleted_early_repaired() -> Operator:
    """A Secret that is not there needs no deletion."""

    async def finalize(site: Site, ctx: Context) -> None:
        try:
            secret = await ctx.client.get(Secret, site.metadata.name, namespace=site.metadata.namespace)
        except NotFoundError:
            return
        await ctx.client.delete(secret, missing_ok=True)

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))
        await ctx.apply(Secret(metadata=ObjectMeta(name=site.metadata.name), string_data={"a": "b"}), owner=None)

    return operator_of(Site, reconcile, finalizers={"planted.opsdk.dev/secret": finalize}, owns=[ConfigMap])


# ---------------------------------------------------------------- children of others
def forgotten_child() -> Operator:
    """The bug: a child that another client deletes is not created again: nothing watches it."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))

    return operator_of(Site, reconcile)


def forgotten_child_repaired() -> Operator:
    """The children are watched."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def left_over() -> Operator:
    """The bug: a child without an owner stays after the site."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site), owner=None)

    return operator_of(Site, reconcile)


def left_over_repaired() -> Operator:
    """A finalizer removes it."""

    async def finalize(site: Site, ctx: Context) -> None:
        meta = ObjectMeta(name=site.metadata.name, namespace=site.metadata.namespace)
        await ctx.client.delete(ConfigMap(metadata=meta), missing_ok=True)

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(site), owner=None)

    return operator_of(Site, reconcile, finalizers={"planted.opsdk.dev/child": finalize})
