"""The cluster of functions that block.

Upstream: none; a reconciler of controller-runtime blocks its goroutine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsdk.aio.blocking import Waiting
from opsdk.client.blocking import BlockingClient
from opsdk.cluster.cluster import Cluster

if TYPE_CHECKING:  # start-up time: see `Cluster.pods`
    from opsdk.pods.blocking import BlockingPodClient

__all__ = ["BlockingCluster"]


class BlockingCluster(Waiting[Cluster]):
    """What a function that blocks may use of a `Cluster`: ``ctx.cluster`` of a plain reconciler.

    The rest belongs to the event loop: caches, appliers, ``http``, ``wait_for``. `BlockingContext.run` runs an async
    function that uses it, with `target`.

    >>> def role_of(cluster: BlockingCluster, pod: str) -> str:
    ...     return cluster.pods.exec(pod, ["db", "role"], check=True).stdout.decode().strip()

    Args:
        target: the cluster, for code in the event loop.
    """

    @property
    def name(self) -> str:
        """See `Cluster.name`."""
        return self.target.name

    @property
    def client(self) -> BlockingClient:
        """See `Cluster.client`."""
        return BlockingClient(self.target.client, self._call)

    @property
    def uncached(self) -> BlockingClient:
        """See `Cluster.uncached`."""
        return BlockingClient(self.target.uncached, self._call)

    @property
    def pods(self) -> BlockingPodClient:
        """See `Cluster.pods`."""
        from opsdk.pods.blocking import BlockingPodClient  # noqa: PLC0415 - start-up time: see `Cluster.pods`

        return BlockingPodClient(self.target.pods, self._call)

    def __repr__(self) -> str:
        return f"<BlockingCluster over {self.target!r}>"
