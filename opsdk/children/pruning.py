"""Decides which objects of an owner are pruned. Pure."""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from opsdk.apimachinery.gvk import GroupKind, ObjectKey
from opsdk.apimachinery.object import KubeObject, gvk_of, key_of
from opsdk.children.ownership import APPLY
from opsdk.recipes.owner_references import is_controlled_by

Identity = tuple[GroupKind, ObjectKey]
"""An object in any version of its kind."""


class PruneVerdict(Enum):
    """The decision for an object of a pruned kind."""

    KEEP = "keep"
    """It is desired, terminating, controlled by another owner, or never applied by the field manager."""
    DELETE = "delete"
    """The field manager applied it for the owner, and it is no longer desired."""
    UNKNOWN = "unknown"
    """The cache strips managedFields: read the metadata from the server to decide."""


def identity_of(obj: KubeObject) -> Identity:
    """Return kind and key of an object."""
    return gvk_of(obj).group_kind, key_of(obj)


def judge(
    obj: KubeObject,
    *,
    owner: KubeObject,
    field_owner: str,
    desired: Container[Identity],
    former: Container[str] = (),
) -> PruneVerdict:
    """Return the decision for `obj`, an object in any representation. `former` has former names of `field_owner`."""
    meta = obj.metadata
    # The most frequent case first: most objects are desired.
    if identity_of(obj) in desired or meta.deletion_timestamp is not None or not is_controlled_by(owner, obj):
        return PruneVerdict.KEEP
    if not meta.managed_fields:
        return PruneVerdict.UNKNOWN
    managers = [m.manager for m in meta.managed_fields if m.operation == APPLY and not m.subresource]
    applied = any(manager == field_owner or manager in former for manager in managers)
    return PruneVerdict.DELETE if applied else PruneVerdict.KEEP
