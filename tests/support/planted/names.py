"""Names: cut, joined, hashed, and left behind."""

from __future__ import annotations

import hashlib

from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.recipes import set_controller_reference
from planted.kinds import Site, operator_of

_LONGEST = 40
_SHARED = "default"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _child(name: str, text: str, **meta: object) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, **meta), data={"text": text})


# ---------------------------------------------------------------- long names are cut
def cut_names() -> Operator:
    """The bug: two long names are cut to one."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(f"{site.metadata.name[:_LONGEST]}-config", site.spec.text))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def cut_names_repaired() -> Operator:
    """A cut name ends in a digest of the whole one."""

    async def reconcile(site: Site, ctx: Context) -> None:
        name = site.metadata.name
        short = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{_digest(name)}"
        await ctx.apply(_child(f"{short}-config", site.spec.text))

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- names of several namespaces collide
async def _forget(site: Site, ctx: Context, name: str) -> None:
    await ctx.client.delete(ConfigMap(metadata=ObjectMeta(name=name, namespace=_SHARED)), missing_ok=True)


def joined_names() -> Operator:
    """The bug: the copies of all namespaces are in one, and their names do not have the namespace."""

    async def finalize(site: Site, ctx: Context) -> None:
        await _forget(site, ctx, f"site-{site.metadata.name}")

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(f"site-{site.metadata.name}", site.spec.text, namespace=_SHARED), owner=None)

    return operator_of(Site, reconcile, finalizers={"planted.opsdk.dev/copy": finalize})


def joined_names_repaired() -> Operator:
    """The name of a copy has a digest of namespace and name."""

    def name_of(site: Site) -> str:
        return f"site-{_digest(f'{site.metadata.namespace}/{site.metadata.name}')}"

    async def finalize(site: Site, ctx: Context) -> None:
        await _forget(site, ctx, name_of(site))

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(name_of(site), site.spec.text, namespace=_SHARED), owner=None)

    return operator_of(Site, reconcile, finalizers={"planted.opsdk.dev/copy": finalize})


# ---------------------------------------------------------------- hash() in a name
def hashed_names() -> Operator:
    """The bug: each process has another hash."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(f"{site.metadata.name[:40]}-{hash(site.metadata.name) & 0xFFFF:04x}", site.spec.text))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def hashed_names_repaired() -> Operator:
    """A digest is the same in each process."""

    async def reconcile(site: Site, ctx: Context) -> None:
        name = site.metadata.name
        await ctx.apply(_child(f"{name[:40]}-{_digest(name)}", site.spec.text))

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- a child is left behind when its name changes
def _by_text(site: Site) -> str:
    return f"text-{_digest(site.metadata.name + site.spec.text)}"


def renamed_child() -> Operator:
    """The bug: the child of the former text stays."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(_by_text(site), site.spec.text))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def renamed_child_repaired() -> Operator:
    """The other children of the site go."""

    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(_child(_by_text(site), site.spec.text))
        for each in await ctx.client.list(ConfigMap, namespace=site.metadata.namespace):
            owners = [owner.uid for owner in each.metadata.owner_references or ()]
            if site.metadata.uid in owners and each.metadata.name != _by_text(site):
                await ctx.client.delete(each, missing_ok=True)

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- a foreign object has the name of the child
def taken_over() -> Operator:
    """The bug: an object of another controller is overwritten."""

    async def reconcile(site: Site, ctx: Context) -> None:
        desired = _child(site.metadata.name, site.spec.text, namespace=site.metadata.namespace)
        set_controller_reference(site, desired)
        existing = await ctx.client.get_or_none(ConfigMap, site.metadata.name, namespace=site.metadata.namespace)
        if existing is None:
            await ctx.client.create(desired)
        elif existing.data != desired.data:
            existing.data = desired.data
            existing.metadata.owner_references = desired.metadata.owner_references
            await ctx.client.update(existing)

    return operator_of(Site, reconcile, owns=[ConfigMap])


def taken_over_repaired() -> Operator:
    """An object without the site as its owner stays as it is, and the status says so."""

    async def reconcile(site: Site, ctx: Context) -> None:
        existing = await ctx.client.get_or_none(ConfigMap, site.metadata.name, namespace=site.metadata.namespace)
        owners = [owner.uid for owner in (existing.metadata.owner_references or ())] if existing is not None else []
        text = "ready"
        if existing is not None and site.metadata.uid not in owners:
            text = "another object has the name"
        else:
            await ctx.apply(_child(site.metadata.name, site.spec.text))
        async with ctx.status(site) as patch:
            patch.status.text = text

    return operator_of(Site, reconcile, owns=[ConfigMap])


# ---------------------------------------------------------------- advice
def _failing() -> Operator:
    """Each reconcile fails, whatever the name of the object."""

    async def reconcile(site: Site) -> None:
        raise ValueError(f"{site.metadata.name} cannot be reconciled")

    return operator_of(Site, reconcile)


def _unshortened() -> Operator:
    """The name of a child is longer than that of the object by six characters, and a label has it."""

    async def reconcile(site: Site, ctx: Context) -> None:
        name = f"{site.metadata.name}-child"
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=name, labels={"name": name}), data={"text": "child"}))

    return operator_of(Site, reconcile, owns=[ConfigMap])
