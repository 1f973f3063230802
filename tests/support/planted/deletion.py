"""Bugs that others cause: how they delete an object, and what they write into it.

Each is a public report: infinispan/infinispan-operator#1428, mongodb/mongodb-atlas-kubernetes#425,
ytsaurus/ytsaurus-k8s-operator#440, ray-project/kuberay#3388, FoundationDB/fdb-kubernetes-operator#175.
"""

from __future__ import annotations

from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core import v1 as core
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import OwnerReference
from opsdk.client.patch import merge_patch
from opsdk.errors import ForbiddenError, NotFoundError
from opsdk.event.request import Request
from opsdk.recipes.finalizers import add_finalizer, contains_finalizer, is_deleting, remove_finalizer
from planted.kinds import App, Site, operator_of
from planted.shapes import short_of

_FINALIZER = "planted.opsdk.dev/clean-up"


def _child(site: Site) -> ConfigMap:
    owner = OwnerReference(
        api_version="planted.opsdk.dev/v1",
        kind="Site",
        name=site.metadata.name,
        uid=site.metadata.uid or "",
        controller=True,
        block_owner_deletion=True,
    )
    meta = ObjectMeta(
        name=short_of(site.metadata.name), namespace=site.metadata.namespace, owner_references=[owner],
        annotations={"planted.opsdk.dev/site": "true"},
    )  # fmt: skip
    return ConfigMap(metadata=meta, data={"text": site.spec.text})


def _is_foreign(site: Site, existing: ConfigMap) -> bool:
    return all(each.uid != site.metadata.uid for each in existing.metadata.owner_references)


# ---------------------------------------------------------------- foreground deletion
def _foreground(*, looks_at_deletion: bool) -> Operator:
    async def reconcile(request: Request, ctx: Context) -> None:
        site = await ctx.client.get_or_none(Site, request.name, namespace=request.namespace)
        if site is None or (looks_at_deletion and is_deleting(site)):
            return
        desired = _child(site)
        existing = await ctx.client.get_or_none(ConfigMap, desired.metadata.name, namespace=request.namespace)
        if existing is None:
            await ctx.client.create(desired)
        elif existing.data != desired.data and not _is_foreign(site, existing):
            await ctx.client.patch(existing, merge_patch({"data": desired.data}))

    return operator_of(Site, reconcile, owns=[ConfigMap])


def foreground_deletion() -> Operator:
    """The bug: the children of an object that is being deleted are created again."""
    return _foreground(looks_at_deletion=False)


def foreground_deletion_repaired() -> Operator:
    """An object with a deletion timestamp gets no children."""
    return _foreground(looks_at_deletion=True)


# ---------------------------------------------------------------- credentials that go first
def _credentials(*, tolerant: bool) -> Operator:
    async def finalize(app: App, ctx: Context) -> None:
        try:
            secret = await ctx.client.get(core.Secret, app.spec.secret_ref.name, namespace=app.metadata.namespace)
        except NotFoundError:
            if tolerant:
                return
            raise
        ctx.logger.info("log out with %d keys", len(secret.data or {}))

    async def reconcile(app: App, ctx: Context) -> None:
        meta = ObjectMeta(name=short_of(app.metadata.name))
        await ctx.apply(ConfigMap(metadata=meta, data={"secret": app.spec.secret_ref.name}))

    return operator_of(App, reconcile, owns=[ConfigMap], finalizers={_FINALIZER: finalize})


def deleted_credentials() -> Operator:
    """The bug: an object is never let go when the Secret that it names was deleted before."""
    return _credentials(tolerant=False)


def deleted_credentials_repaired() -> Operator:
    """Without the Secret, there is nothing to log out of."""
    return _credentials(tolerant=True)


# ---------------------------------------------------------------- finalizers of others
def _finalizers(*, keeps_others: bool) -> Operator:
    async def reconcile(request: Request, ctx: Context) -> None:
        site = await ctx.client.get_or_none(Site, request.name, namespace=request.namespace)
        if site is None:
            return
        if is_deleting(site):
            if contains_finalizer(site, _FINALIZER):
                if keeps_others:
                    remove_finalizer(site, _FINALIZER)
                else:
                    site.metadata.finalizers = []
                await ctx.client.update(site)
            return
        if add_finalizer(site, _FINALIZER):
            site = await ctx.client.update(site)
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=short_of(request.name)), data={"text": site.spec.text}),
                        owner=site)  # fmt: skip

    return operator_of(Site, reconcile, owns=[ConfigMap])


def dropped_finalizers() -> Operator:
    """The bug: the finalizers of other controllers are removed, too."""
    return _finalizers(keeps_others=False)


def dropped_finalizers_repaired() -> Operator:
    """Only its own one is removed."""
    return _finalizers(keeps_others=True)


# ---------------------------------------------------------------- a namespace that is being deleted
def _terminating(*, tolerant: bool) -> Operator:
    async def finalize(site: Site, ctx: Context) -> None:
        meta = ObjectMeta(name=f"{short_of(site.metadata.name)}-clean-up", namespace=site.metadata.namespace)
        try:
            await ctx.apply(ConfigMap(metadata=meta, data={"clean": site.spec.text}))
        except ForbiddenError:
            if not tolerant:
                raise

    async def reconcile(site: Site, ctx: Context) -> None:
        meta = ObjectMeta(name=short_of(site.metadata.name))
        await ctx.apply(ConfigMap(metadata=meta, data={"text": site.spec.text}))

    return operator_of(Site, reconcile, owns=[ConfigMap], finalizers={_FINALIZER: finalize})


def terminating_namespace() -> Operator:
    """The bug: a finalizer creates an object for the cleaning, which a namespace that is being deleted refuses."""
    return _terminating(tolerant=False)


def terminating_namespace_repaired() -> Operator:
    """In such a namespace, there is nothing to clean."""
    return _terminating(tolerant=True)


# ---------------------------------------------------------------- annotations of others
def _annotations(*, keeps_others: bool) -> Operator:
    async def reconcile(site: Site, ctx: Context) -> None:
        desired = _child(site)
        name, namespace = desired.metadata.name, site.metadata.namespace
        existing = await ctx.client.get_or_none(ConfigMap, name, namespace=namespace)
        if existing is None:
            await ctx.client.create(desired)
            return
        if _is_foreign(site, existing):
            return
        own = desired.metadata.annotations
        wanted = {**existing.metadata.annotations, **own} if keeps_others else own
        if existing.data != desired.data or existing.metadata.annotations != wanted:
            existing.data, existing.metadata.annotations = desired.data, wanted
            await ctx.client.update(existing)

    return operator_of(Site, reconcile, owns=[ConfigMap])


def replaced_annotations() -> Operator:
    """The bug: the annotations that others add to a child are removed."""
    return _annotations(keeps_others=False)


def replaced_annotations_repaired() -> Operator:
    """Its own annotations are added to those of others."""
    return _annotations(keeps_others=True)
