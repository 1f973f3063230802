"""Decides the next action of a lifecycle for an object. Pure.

The writes come in this order: the finalizer, then the writes of ``create``, then the annotation. A process may end
between any two of them. So ``create`` runs at least once, and ``remove`` runs before the finalizer is removed.

Upstream: github.com/rancher/norman/lifecycle/object.go
Deviates: a lifecycle that gains ``remove`` later adds its finalizer to existing objects. ``updated`` is
not called for an object that is being deleted.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from opsdk.apimachinery.meta import ObjectMeta
from opsdk.lifecycle.names import LifecycleNames
from opsdk.structured_merge.value import JSON_ERRORS


class LifecycleMethods(msgspec.Struct, frozen=True, kw_only=True):
    """Which methods a lifecycle has.

    Attributes:
        create: norman's ``HasCreate``: an annotation records that it succeeded.
        updated: runs on all other events.
        remove: norman's ``HasFinalize``: a finalizer keeps the object until it succeeded.
    """

    create: bool = False
    updated: bool = False
    remove: bool = False


class LifecycleAction(Enum):
    """The next step of a lifecycle."""

    STOP = "stop"
    """Nothing to do: the object is being deleted without our finalizer, or there is no method for it."""
    PREPARE = "prepare"
    """Write the finalizer, and replace former names. Decide again afterwards."""
    CREATE = "create"
    """Call ``create``, write the annotation, and stop: that write is the event for ``updated``."""
    UPDATED = "updated"
    """Call ``updated``, and write its changes."""
    REMOVE = "remove"
    """Call ``remove``, write its changes, and remove the finalizer."""


class CreateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The value of the annotation: identifies the object for which ``create`` has succeeded.

    An annotation is copied with the manifest, into a backup or another cluster. The uid shows that the copy is a
    different object, for which ``create`` must run.

    Attributes:
        uid: of the object; empty in records of Rancher, which match any object.
        generation: of the object, when ``create`` began.
    """

    uid: str = ""
    generation: int = 0

    @classmethod
    def parse(cls, text: str) -> CreateRecord | None:
        """Return the record of an annotation; None if it records no success.

        >>> CreateRecord.parse("true"), CreateRecord.parse("false"), CreateRecord.parse("{"), CreateRecord.parse("{}")
        (CreateRecord(uid='', generation=0), None, None, None)
        """
        if text == "true":
            return cls()
        try:
            record = msgspec.json.decode(text, type=cls)
        except JSON_ERRORS:
            return None  # an unknown value: ``create`` runs again and replaces it
        return record if record.uid else None

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode() if self.uid else "true"


def record_at(metadata: ObjectMeta, annotation: str) -> CreateRecord | None:
    """Return the record that an annotation holds for exactly this object; None if it holds none."""
    record = CreateRecord.parse(metadata.annotations.get(annotation, ""))
    return record if record is not None and record.uid in ("", metadata.uid) else None


def created_record(metadata: ObjectMeta, names: LifecycleNames) -> CreateRecord | None:
    """Return the record that ``create`` has succeeded for exactly this object, or None."""
    records = (record_at(metadata, annotation) for annotation in names.annotations)
    return next((record for record in records if record is not None), None)


def next_action(metadata: ObjectMeta, methods: LifecycleMethods, names: LifecycleNames) -> LifecycleAction:
    """Return the next step for an object.

    >>> names, methods = LifecycleNames.norman("dns"), LifecycleMethods(create=True, updated=True, remove=True)
    >>> next_action(ObjectMeta(), methods, names)
    <LifecycleAction.PREPARE: 'prepare'>
    >>> next_action(ObjectMeta(finalizers=["controller.cattle.io/dns"]), methods, names)
    <LifecycleAction.CREATE: 'create'>
    """
    has_finalizer = any(name in metadata.finalizers for name in names.finalizers)
    if metadata.deletion_timestamp is not None:
        return LifecycleAction.REMOVE if methods.remove and has_finalizer else LifecycleAction.STOP
    if methods.remove and not has_finalizer:
        return LifecycleAction.PREPARE
    if names.rename and prepare(metadata, methods, names) != (metadata.finalizers, metadata.annotations):
        return LifecycleAction.PREPARE
    if methods.create and created_record(metadata, names) is None:
        return LifecycleAction.CREATE
    return LifecycleAction.UPDATED if methods.updated else LifecycleAction.STOP


def prepare(metadata: ObjectMeta, methods: LifecycleMethods, names: LifecycleNames) -> tuple[list[str], dict[str, str]]:
    """Return the finalizers and annotations of an object that is prepared: ours is there, former ones are replaced.

    Our finalizer takes the place of the first former one. Former finalizers of a lifecycle without ``remove`` stay,
    because no method cleans up for them.
    """
    finalizers, annotations = list(metadata.finalizers), dict(metadata.annotations)
    former = set(names.former) if names.rename else set()
    if methods.remove:
        keeps = set(names.finalizers) if not names.rename else {names.finalizer}
        if not keeps.intersection(finalizers):
            position = next((i for i, name in enumerate(finalizers) if name in former), len(finalizers))
            finalizers.insert(position, names.finalizer)
        finalizers = [name for name in finalizers if name not in former]
    if methods.create and names.rename and (record := created_record(metadata, names)) is not None:
        if record_at(metadata, names.annotation) is None:
            annotations[names.annotation] = str(record)
        for key in names.former_annotations:
            annotations.pop(key, None)
    return finalizers, annotations


def without_finalizer(metadata: ObjectMeta, names: LifecycleNames) -> list[str]:
    """Return the finalizers of an object without ours, also without repeated and former ones."""
    return [name for name in metadata.finalizers if name not in names.finalizers]
