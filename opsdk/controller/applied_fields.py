"""Fields of objects of other owners, such as an annotation on a Node: applied by a reconcile, and taken back later.

A record in an annotation of the reconciled object names the objects. It is written before the first request, so a
process may end at each await: the next reconcile, or the finalizer, takes back what is recorded.

Upstream: none.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from opsdk.apimachinery.gvk import GroupKind, GroupVersion, ObjectKey
from opsdk.apimachinery.kinds import KindLike, unstructured_kind
from opsdk.apimachinery.object import (
    AnyObject,
    KubeObject,
    TypedObject,
    Unstructured,
    gvk_of,
    key_of,
    retain_annotation,
)
from opsdk.children.ordering import ChildIdentity, identity_of_object
from opsdk.client.activity import OwnChange, record_own_change
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.controller.annotations import controller_annotation
from opsdk.errors import ConflictError, UsageError
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["FieldsOf"]

log = SafeLogger(__name__)

T = TypeVar("T", bound=TypedObject | Unstructured)

_RECORD: Final = "applied-fields"
# The server rejects a longer field manager.
_MAX_MANAGER: Final = 128

Targets = Mapping[ChildIdentity, str]
"""The objects whose fields were applied, with the apiVersion of the request."""


class FieldsOf(msgspec.Struct, frozen=True):
    """A kind of which a reconciler applies single fields with ``ctx.apply_fields``. Pass it in ``owns``.

    >>> from opsdk.api.core.v1 import Node
    >>> FieldsOf(Node).kind.gvk.kind
    'Node'

    Attributes:
        kind: the kind of the objects, which other programs create.
    """

    kind: KindLike[AnyObject]


def recorded_targets(obj: KubeObject, controller: str) -> dict[ChildIdentity, str]:
    """Return the objects that the record of a controller names; none for a record that opsdk did not write."""
    text = (obj.metadata.annotations or {}).get(controller_annotation(_RECORD, controller), "")
    if not text:
        return {}
    try:
        rows = msgspec.json.decode(text, type=list[tuple[str, str, str, str]])
        return {
            ChildIdentity(GroupKind(GroupVersion.parse(version).group, kind), ObjectKey(namespace, name)): version
            for version, kind, namespace, name in rows
        }
    except (msgspec.DecodeError, UsageError) as error:
        name = controller_annotation(_RECORD, controller)
        log.warning("the annotation %s of %s %s was changed, and is ignored: %s", name, obj.kind, key_of(obj), error)
        return {}


def field_managers(cluster: Cluster, controller: str, owner: KubeObject) -> list[str]:
    """Return the field manager of an object's fields, and its names under former field owners of the operator.

    Each reconciled object has its own: what one of them no longer applies must not take fields from another one.
    """
    options = cluster.options
    owners = [options.field_owner or options.name, *options.former_field_owners]
    return [_manager(f"{each}/{controller}", key_of(owner)) for each in owners]


def _manager(prefix: str, key: ObjectKey) -> str:
    manager = ":".join([prefix, *filter(None, key)])
    if len(manager) <= _MAX_MANAGER:
        return manager
    digest = hashlib.sha256(manager.encode()).hexdigest()[:16]
    return f"{manager[: _MAX_MANAGER - 17]}~{digest}"


class AppliedFields:
    """The fields that one reconcile applies to objects of other owners.

    Args:
        cluster: reads and writes.
        controller: name of the controller.
        kinds: the declared kinds.
        owner: the reconciled object. It gets the record.
    """

    def __init__(self, cluster: Cluster, controller: str, kinds: Collection[GroupKind], owner: Any) -> None:
        self._cluster = cluster
        self._controller = controller
        self._kinds = kinds
        self._owner = owner
        self._managers = field_managers(cluster, controller, owner)
        self._recorded = recorded_targets(owner, controller)
        self._applied: dict[ChildIdentity, str] = {}
        self._writes = asyncio.Lock()

    async def apply(self, desired: T, *, force: bool) -> T:
        """Record the object, then apply the fields. See `opsdk.controller.context.Context.apply_fields`."""
        identity = identity_of_object(desired)
        if identity.kind not in self._kinds:
            raise UsageError(f"fields of {identity} are not declared: add FieldsOf({identity.kind.kind}) to owns=[...]")
        if identity in self._applied:
            raise UsageError(f"fields of {identity} are applied twice in one reconcile: merge both into one object")
        self._applied[identity] = str(gvk_of(desired).group_version)
        await self._record({**self._recorded, identity: self._applied[identity]})
        return await self._cluster.field_applier.apply_fields(desired, managers=self._managers, force=force)

    async def take_back_others(self) -> None:
        """Take back the fields of recorded objects that this reconcile did not apply."""
        others = {identity: version for identity, version in self._recorded.items() if identity not in self._applied}
        if others:
            await _take_back(self._cluster, others, self._managers)
            await self._record(self._applied)

    async def _record(self, targets: Targets) -> None:
        """Write the record, unless the object has it."""
        if targets == self._recorded:
            return
        self._recorded = dict(targets)
        async with self._writes:  # of applies that run at the same time, the last one writes all
            await self._write_record(_encoded(self._recorded))

    async def _write_record(self, text: str | None) -> None:
        owner, name = self._owner, controller_annotation(_RECORD, self._controller)
        meta, client = owner.metadata, self._cluster.client
        patch = {"uid": meta.uid, "annotations": {name: text}}
        before = meta.resource_version
        try:
            versioned = {"metadata": {**patch, "resourceVersion": before}}
            # A shallow copy takes the response: the object keeps what the reconciler has changed.
            written = await client.patch(owner.__copy__(), merge_patch(versioned))
        except ConflictError:
            await client.patch(owner.__copy__(), merge_patch({"metadata": patch}))
            return
        retain_annotation(owner, written, name)
        gvk = gvk_of(owner)
        record_own_change(OwnChange(gvk.group, gvk.kind, key_of(owner), before, meta.resource_version))


async def take_back_all(cluster: Cluster, controller: str, owner: KubeObject) -> None:
    """Take back all recorded fields of an object that is being deleted."""
    await _take_back(cluster, recorded_targets(owner, controller), field_managers(cluster, controller, owner))


async def _take_back(cluster: Cluster, targets: Targets, managers: list[str]) -> None:
    for (kind, key), version in targets.items():
        await cluster.field_applier.take_back(unstructured_kind(version, kind.kind), key, managers=managers)


def _encoded(targets: Targets) -> str | None:
    """Return the text of a record; None removes the annotation."""
    rows: Iterable[tuple[str, str, str, str]] = (
        (version, identity.kind.kind, *identity.key) for identity, version in targets.items()
    )
    return msgspec.json.encode(sorted(rows)).decode() if targets else None
