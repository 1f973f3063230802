"""Snapshots of all objects at one revision; the storage copies on write."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from opsdk.structured_merge.value import JsonObject


class SnapshotEntry(msgspec.Struct, frozen=True):
    """The objects of one bucket and their sorted keys; immutable."""

    objects: dict[str, JsonObject] = msgspec.field(default_factory=dict)
    keys: list[str] = msgspec.field(default_factory=list)


NOTHING = SnapshotEntry()
"""The entry of a bucket that did not exist."""


class Snapshot(msgspec.Struct, frozen=True):
    """All objects at `revision`, by bucket."""

    revision: int
    buckets: Mapping[str, SnapshotEntry]

    def __repr__(self) -> str:
        return f"<Snapshot of {sum(len(held.keys) for held in self.buckets.values())} objects at {self.revision}>"
