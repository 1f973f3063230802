"""The kind that the examples share."""

from __future__ import annotations

import msgspec

from opsdk import GroupVersionKind, Model, Object


class ExampleSpec(Model):
    """What a user writes."""

    duration: str = "1m"
    field: str = ""
    items: list[str] = msgspec.field(default_factory=list)
    injected: int = 0


class ExampleStatus(Model):
    """What the operators write."""

    message: str = ""
    field: str = ""
    children: list[str] = msgspec.field(default_factory=list)
    running_pods: list[str] = msgspec.field(default_factory=list)


class Example(Object[ExampleSpec, ExampleStatus]):
    """An object without a meaning of its own."""

    gvk = GroupVersionKind("examples.opsdk.dev", "v1", "Example")
    short_names = ("ex",)
