"""One run of ``opsdk dev``: a cluster whose informers stay, and the newest version of the operator on it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from opsdk.aio.closing import Closing
from opsdk.builder.operator import Operator
from opsdk.cluster.cluster import Cluster
from opsdk.controller.journal import Journal
from opsdk.errors import OpsdkError
from opsdk.rest.config import Config
from opsdk.testing.definitions import install_definitions
from opsdk.testing.webhooks import install_configurations, with_local_webhooks

log = logging.getLogger("opsdk.dev")

# Seconds that reconciles have to end before new code runs.
_STOP_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """What a reload did.

    Attributes:
        seconds: from the call until the controllers of the new code run.
        definitions: names of the CustomResourceDefinitions that changed.
        error: why the new code does not run, or None.
        first: no code of this session ran before.
    """

    seconds: float
    definitions: tuple[str, ...] = ()
    error: str | None = None
    first: bool = False

    def __str__(self) -> str:
        if self.error is not None:
            state = "nothing runs yet, change a file to try again" if self.first else "the old code goes on"
            return f"{state}: {self.error}"
        definitions = f", applied {', '.join(self.definitions)}" if self.definitions else ""
        return f"{'started' if self.first else 'reloaded'} in {self.seconds:.2f} s{definitions}"


class DevSession(Closing):
    """Runs an operator on a cluster of its own, and replaces it without listing anything again.

    Args:
        config: address and credentials.
        load: imports and returns a new operator; called for each reload.
        webhook_port: where webhooks are served on this machine.
        debug_port: where the debug pages are served on this machine, unless the operator has an address for them; 0
            for none.

    Attributes:
        operator: the operator that runs, or None before the first one and after a failure.
        failure: why the operator ended, or None.
        reloads: number of successful reloads, the first start included.
    """

    def __init__(
        self, config: Config, load: Callable[[], Operator], *, webhook_port: int = 9443, debug_port: int = 0
    ) -> None:
        self.config = config
        self.operator: Operator | None = None
        self.failure: BaseException | None = None
        self.reloads = 0
        self.cluster: Cluster | None = None
        self._load = load
        self._webhook_port = webhook_port
        self._debug_port = debug_port
        self._journal: Journal | None = None
        self._cluster_task: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def reload(self) -> Reload:
        """Load the operator and run it instead of the one that runs. The old one goes on if the new one cannot be made.

        A reload that follows a failure of the operator starts it again.
        """
        began, first = time.monotonic(), self.reloads == 0
        try:
            operator = self._load()
            if operator.has_webhooks:
                operator.options = with_local_webhooks(
                    operator, namespace=self.config.namespace, port=self._webhook_port
                )
            manager = operator.options.manager
            if self._debug_port and not manager.debug_bind_address:
                manager = replace(manager, debug_bind_address=f"127.0.0.1:{self._debug_port}")
            operator.options = replace(operator.options, leader_election=False, manager=manager)
            self._journal = operator.journal = self._journal or operator.journal
            if operator.has_setup:
                # Setup functions may add indices, and a cache has each index once.
                await self._close_cluster()
            cluster = await self._ensure_cluster(operator)
            changed = await install_definitions(cluster.uncached, operator.definitions())
            await install_configurations(cluster.uncached, operator)
            # What cannot be made is found here, before the old code stops.
            operator.prepare(self.config, cluster=cluster)
        except OpsdkError as error:
            return Reload(seconds=time.monotonic() - began, error=str(error), first=first)
        await self._stop()
        self.failure = None
        self.operator = operator
        self._task = asyncio.create_task(operator.start_prepared(), name="opsdk dev/operator")
        self._task.add_done_callback(self._on_end)
        await self._wait_started(operator)
        for kind in cluster.cache.kinds():
            kind.pinned = True  # outlives the handlers of this version
        self.reloads += 1
        return Reload(seconds=time.monotonic() - began, definitions=tuple(changed), first=first)

    async def aclose(self) -> None:
        """Stop the operator and close the cluster. Idempotent."""
        await self._close_cluster()

    async def _close_cluster(self) -> None:
        """Stop the operator and close its cluster; the next reload opens another one."""
        await self._stop()
        task, self._cluster_task = self._cluster_task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        cluster, self.cluster = self.cluster, None
        if cluster is not None:
            await cluster.aclose()

    async def _ensure_cluster(self, operator: Operator) -> Cluster:
        """Return the cluster of the first operator; its options and its scheme hold until the session ends."""
        if self.cluster is None:
            options = replace(operator.options.cluster, name=operator.name, field_owner=operator.name)
            self.cluster = Cluster(self.config, options, scheme=operator.scheme)
            self._cluster_task = asyncio.create_task(self.cluster.start(), name="opsdk dev/cluster")
            await self.cluster.wait_ready()
        return self.cluster

    async def _wait_started(self, operator: Operator) -> None:
        """Return when all controllers run, or the operator has ended."""
        assert self._task is not None
        await asyncio.sleep(0)
        for controller in operator.controllers.values():
            started = asyncio.create_task(controller.wait_ready(), name=f"opsdk dev/wait for {controller.name}")
            await asyncio.wait([started, self._task], return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
            await asyncio.gather(started, return_exceptions=True)

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is None or self.operator is None:
            return
        task.remove_done_callback(self._on_end)
        if not task.done():
            self.operator.manager.stop()
            await asyncio.wait([task], timeout=_STOP_SECONDS)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        self.failure = task.exception()
        if self.failure is not None:
            log.error("the operator ended, change a file to start it again: %s", self.failure, exc_info=self.failure)
