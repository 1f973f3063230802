"""A kind with a status subresource."""

from __future__ import annotations

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object


class BoxSpec(Model):
    """Desired state."""

    size: int = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class BoxStatus(Model):
    """Observed state."""

    opened: bool = False


class Box(Object[BoxSpec, BoxStatus]):
    """A box."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Box")
