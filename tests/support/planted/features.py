"""Correct operators whose features look like bugs: `opsdk verify` has nothing to report of them."""

from __future__ import annotations

from typing import Literal

from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from planted.kinds import AppStatus, operator_of
from planted.shapes import short_of


class PausableSpec(Model, kw_only=True):
    """A text that is not applied while the object is paused."""

    text: str = "hello"
    paused: bool = False


class Pausable(Object[PausableSpec, AppStatus]):
    """An object that a user can take out of the operator's hands."""

    gvk = GroupVersionKind("planted.opsdk.dev", "v1", "Pausable")


class RetainedSpec(Model, kw_only=True):
    """A text, and whether its copy goes with the object."""

    text: str = "hello"
    deletion_policy: Literal["Retain", "Delete"] = "Retain"


class Retained(Object[RetainedSpec, AppStatus]):
    """An object with data that may outlive it."""

    gvk = GroupVersionKind("planted.opsdk.dev", "v1", "Retained")


def paused() -> Operator:
    """Nothing is written while an object is paused; then its present text is applied."""

    async def reconcile(obj: Pausable, ctx: Context) -> None:
        if not obj.spec.paused:
            meta = ObjectMeta(name=short_of(obj.metadata.name))
            await ctx.apply(ConfigMap(metadata=meta, data={"text": obj.spec.text}))

    return operator_of(Pausable, reconcile, owns=[ConfigMap])


def retained() -> Operator:
    """The spec says whether the copy is deleted with the object."""

    async def finalize(obj: Retained, ctx: Context) -> None:
        if obj.spec.deletion_policy == "Delete":
            meta = ObjectMeta(name=short_of(obj.metadata.name), namespace=obj.metadata.namespace)
            await ctx.client.delete(ConfigMap(metadata=meta), missing_ok=True)

    async def reconcile(obj: Retained, ctx: Context) -> None:
        meta = ObjectMeta(name=short_of(obj.metadata.name))
        await ctx.apply(ConfigMap(metadata=meta, data={"text": obj.spec.text}), owner=None)

    return operator_of(Retained, reconcile, owns=[ConfigMap], finalizers={"planted.opsdk.dev/clean-up": finalize})
