"""Snapshots of all objects at one revision; the storage copies on write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject


class SnapshotEntry(msgspec.Struct, frozen=True):
    """The objects of one bucket and their sorted keys; immutable."""

    objects: dict[str, JsonObject] = msgspec.field(default_factory=dict)
    keys: list[str] = msgspec.field(default_factory=list)


NOTHING = SnapshotEntry()
"""A bucket that was not there yet."""


class Snapshot(msgspec.Struct, frozen=True):
    """Every object at `revision`, by bucket."""

    revision: int
    buckets: Mapping[str, SnapshotEntry]

    def __repr__(self) -> str:
        return f"<Snapshot of {sum(len(held.keys) for held in self.buckets.values())} objects at {self.revision}>"


@runtime_checkable
class Snapshots(Protocol):
    """A storage that can restore snapshots."""

    def snapshot(self) -> Snapshot:
        """Return the current state, in constant time."""
        ...

    def restore(self, snapshot: Snapshot, *, reset: bool = False) -> Sequence[StorageChange]:
        """Restore a snapshot's objects in one write; return the changes.

        The revision goes on from the present one, or is that of the snapshot again with `reset`. Listeners hear of
        every object that changed. History before it is forgotten, and every watch ends with `CompactedError`.
        """
        ...
