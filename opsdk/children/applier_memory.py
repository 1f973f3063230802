"""What an `Applier` remembers of the objects that it applied."""

from __future__ import annotations

from typing import Final

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.children.apply_record import ApplyRecord
from opsdk.children.contention import Contention
from opsdk.children.memory import Memory
from opsdk.structured_merge.fieldpath import FieldSet

_Identity = tuple[GroupVersionKind, ObjectKey]

_MAX_BYTES: Final = 64 << 20
"""Bytes of the records of one applier, roughly."""
_OTHERS: Final = 4096
"""What is remembered besides records, at most."""


class ApplierMemory:
    """The results of earlier applies. Without them, an apply takes more time, and sometimes a request.

    Args:
        size: how many objects are remembered.

    Attributes:
        records: the last apply of each object.
        owned_fields: the fields that a desired object owns, by its digest.
        foreign: uid and resource version of objects that are not pruned, although they look like own ones.
        contentions: fights with other writers.
    """

    def __init__(self, size: int) -> None:
        self.records: Memory[_Identity, ApplyRecord] = Memory(size, weigh=ApplyRecord.weight, max_bytes=_MAX_BYTES)
        self.owned_fields: Memory[bytes, FieldSet] = Memory(min(size, _OTHERS))
        self.foreign: Memory[_Identity, tuple[str, str]] = Memory(min(size, _OTHERS))
        self.contentions: Memory[_Identity, Contention] = Memory(_OTHERS)

    def __repr__(self) -> str:
        return f"<ApplierMemory of {len(self.records)} objects>"

    def remember(self, gvk: GroupVersionKind, key: ObjectKey, record: ApplyRecord) -> None:
        """Replace the record of an object, and forget the fields of its earlier desired state."""
        previous = self.records.get((gvk, key))
        if previous is not None and previous.digest != record.digest:
            self.owned_fields.forget(previous.digest)
        self.records.remember((gvk, key), record)

    def forget(self, gvk: GroupVersionKind, key: ObjectKey) -> None:
        """Forget an object, which is deleted."""
        record = self.records.forget((gvk, key))
        if record is not None:
            self.owned_fields.forget(record.digest)
        self.foreign.forget((gvk, key))
        self.contentions.forget((gvk, key))
