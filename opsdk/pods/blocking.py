"""The client of running Pods for functions that block."""

from __future__ import annotations

from opsdk.pods.generated_blocking import BlockingPodClientMethods

__all__ = ["BlockingPodClient"]


class BlockingPodClient(BlockingPodClientMethods):
    """A `PodClient` whose methods block instead of being awaited: ``ctx.cluster.pods`` of a plain reconciler.

    Streams in both directions have no blocking form: ``open_exec``, ``attach``, ``open_port`` and ``port_forward``.
    Write an async function that uses them, and run it with `BlockingContext.run`.

    >>> def role_of(pods: BlockingPodClient, pod: str) -> str:
    ...     return pods.exec(pod, ["db", "role"], check=True).stdout.decode().strip()

    Args:
        target: sends the requests.
    """

    def __repr__(self) -> str:
        return f"<BlockingPodClient over {self.target!r}>"
