"""The client of functions that block.

Upstream: none; the client of controller-runtime blocks its goroutine.
"""

from __future__ import annotations

from opsdk.client.generated_blocking import BlockingClientMethods

__all__ = ["BlockingClient"]


class BlockingClient(BlockingClientMethods):
    """A `Client` whose methods block instead of being awaited. They have the same names, arguments and errors.

    It works in functions that opsdk runs in a thread: plain reconcilers and finalizers get one as ``ctx.client``. A
    function that is decorated with `opsdk.aio.blocking.blocking` creates one::

        @blocking
        def map_to_sites(secret: Secret) -> list[Request]:
            sites = BlockingClient(operator.client).list(Site, namespace=secret.metadata.namespace)
            return [Request.of(site) for site in sites]

    Besides the errors of `Client`, each method raises ``asyncio.CancelledError`` when the function should end, and
    `UsageError` in async code.

    Args:
        target: sends the requests.
    """

    def __repr__(self) -> str:
        return f"<BlockingClient over {self.target!r}>"
