"""The kinds that the planted operators reconcile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, field

from opsdk import Condition, GroupVersionKind, Model, Object, Operator

Body = Callable[..., Any]


class SiteSpec(Model, kw_only=True):
    """A text."""

    text: str = "hello"


class SiteStatus(Model, kw_only=True):
    """What the reconciler reports."""

    text: str = ""
    record: str = ""
    observed_generation: int = 0
    applied_generation: int = 0
    conditions: list[Condition] = field(default_factory=list)


class Site(Object[SiteSpec, SiteStatus]):
    """A site with a text."""

    gvk = GroupVersionKind("planted.opsdk.dev", "v1", "Site")


class Reference(Model, kw_only=True):
    """The name of an object in the same namespace."""

    name: Annotated[str, Meta(min_length=1)] = "settings"


class AppSpec(Model, kw_only=True):
    """An application that reads a Secret."""

    secret_ref: Reference = field(default_factory=Reference)


class AppStatus(Model, kw_only=True):
    """What the reconciler reports."""

    ready: bool = False
    conditions: list[Condition] = field(default_factory=list)


class App(Object[AppSpec, AppStatus]):
    """An application."""

    gvk = GroupVersionKind("planted.opsdk.dev", "v1", "App")


class ReaderSpec(Model, kw_only=True):
    """What reads a ConfigMap."""

    config_map_ref: Reference = field(default_factory=Reference)


class Reader(Object[ReaderSpec, AppStatus]):
    """What reads a ConfigMap."""

    gvk = GroupVersionKind("planted.opsdk.dev", "v1", "Reader")


def operator_of(kind: type[Any], body: Body, **options: Any) -> Operator:
    """Return an operator with one reconciler."""
    operator = Operator("planted")
    operator.reconciler(kind, **options)(body)
    return operator
