"""The judge of sharded operators: every lease and every patch in the server's order.

Each patch names the identity of its writer. At the revision of the patch, that identity must hold the lease of the
object's shard.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.watch import WatchEventType
from opsdk.fleet.shard_lease import holder_of, shard_of


@dataclass
class ShardJournal:
    """What the server stored. A shard is a namespace.

    Attributes:
        holders: of each shard, the revisions and the identities that hold it from there on; empty for none.
        writes: revision, shard and identity of each patch.
        latest: how far the watch of each kind is.
    """

    holders: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    writes: list[tuple[int, str, str]] = field(default_factory=list)
    latest: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _last: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    async def follow(self, client: Any, kind: type[Lease | ConfigMap], revision: str) -> None:
        """Record every change from a revision on. A revision that has expired is an error: the proof has a hole."""
        while True:
            async with client.watch(kind, resource_version=revision, bookmarks=True) as events:
                async for event in events:
                    revision = event.object.metadata.resource_version
                    if event.type is not WatchEventType.BOOKMARK:
                        self.record(int(revision), event.object, is_deleted=event.type is WatchEventType.DELETED)
                    self.latest[kind.__name__] = int(revision)

    def record(self, revision: int, obj: Lease | ConfigMap, *, is_deleted: bool = False) -> None:
        """Record one state of an object."""
        if isinstance(obj, Lease):
            if shard := shard_of(obj):
                self.holders[shard].append((revision, "" if is_deleted else holder_of(obj)))
            return
        written = obj.data.get("done", ""), obj.data.get("by", "")
        key = obj.metadata.namespace, obj.metadata.name
        if written != ("", "") and written != self._last.get(key) and not is_deleted:
            self._last[key] = written
            self.writes.append((revision, obj.metadata.namespace, written[1]))

    def holder(self, shard: str) -> str:
        """Return the identity that holds a shard by the last record; empty for none."""
        return self.holders[shard][-1][1] if self.holders[shard] else ""

    def violations(self) -> list[str]:
        """Return the patches whose writer did not hold the shard's lease at the revision of the patch."""
        revisions = {shard: [revision for revision, _ in rows] for shard, rows in self.holders.items()}
        wrong = []
        for revision, shard, writer in self.writes:
            position = bisect(revisions.get(shard, []), revision) - 1
            holder = self.holders[shard][position][1] if position >= 0 else ""
            if holder != writer:
                wrong.append(f"revision {revision}: {writer} wrote to {shard}, held by {holder or 'nobody'}")
        return wrong
