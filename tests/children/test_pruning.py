"""Which objects are pruned."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.gvk import GroupKind, ObjectKey
from opsdk.apimachinery.meta import ManagedFieldsEntry, ObjectMeta, OwnerReference
from opsdk.children.pruning import PruneVerdict, identity_of, judge

OWNER = ConfigMap(metadata=ObjectMeta(name="owner", namespace="default", uid="u"))


def reference(uid: str, *, controller: bool) -> list[OwnerReference]:
    """References to one owner."""
    return [OwnerReference(api_version="v1", kind="ConfigMap", name="owner", uid=uid, controller=controller)]


def applied(**changes: Any) -> ConfigMap:
    """A child that the field manager applied for the owner, with other metadata."""
    meta: dict[str, Any] = {
        "name": "a",
        "namespace": "default",
        "owner_references": [
            OwnerReference(api_version="v1", kind="ConfigMap", name="owner", uid="u", controller=True)
        ],
        "managed_fields": [ManagedFieldsEntry(manager="me", operation="Apply")],
    }
    return ConfigMap(metadata=ObjectMeta(**(meta | changes)))


@pytest.mark.parametrize(
    ("child", "verdict"),
    [
        (applied(), PruneVerdict.DELETE),
        (applied(name="desired"), PruneVerdict.KEEP),
        (applied(deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)), PruneVerdict.KEEP),
        (applied(owner_references=[]), PruneVerdict.KEEP),
        (applied(owner_references=reference("u", controller=False)), PruneVerdict.KEEP),
        (applied(owner_references=reference("v", controller=True)), PruneVerdict.KEEP),
        (applied(managed_fields=[]), PruneVerdict.UNKNOWN),
        (applied(managed_fields=[ManagedFieldsEntry(manager="me", operation="Update")]), PruneVerdict.KEEP),
        (applied(managed_fields=[ManagedFieldsEntry(manager="you", operation="Apply")]), PruneVerdict.KEEP),
        (
            applied(managed_fields=[ManagedFieldsEntry(manager="me", operation="Apply", subresource="status")]),
            PruneVerdict.KEEP,
        ),
    ],
)
def test_only_what_the_manager_applied_for_the_owner_is_deleted(child: ConfigMap, verdict: PruneVerdict) -> None:
    """Each other reason keeps the object."""
    desired = {(GroupKind("", "ConfigMap"), ObjectKey("default", "desired"))}
    assert judge(child, owner=OWNER, field_owner="me", desired=desired) is verdict


def test_an_object_is_the_same_in_every_version() -> None:
    """The identity of an object does not contain its version."""
    assert identity_of(applied()) == (GroupKind("", "ConfigMap"), ObjectKey("default", "a"))
