"""Runs the runnable of one shard: warm-up, work, drain, restart after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Protocol

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.aio.containment import cancellations, contain
from opsdk.aio.fence import FENCE
from opsdk.aio.waiting import finish, wait_ended
from opsdk.fleet.shard_fence import ShardFence
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Back-off before a failed runnable is replaced.
_RESTART_BACKOFF = Backoff(base=1.0, factor=2.0, cap=60.0, jitter=0.2, reset_after=300.0)
# Seconds for a cancelled runnable to end. One that ignores its cancellation is abandoned; its writes are rejected.
_CANCEL_GRACE = 5.0


class ShardRunnable(Protocol):
    """The runnable of one shard on the replica that owns it. Its tasks inherit the fence of the shard."""

    async def warmup(self) -> None:
        """Fill the caches, then return. It is cancelled when the work begins, or does not begin on this replica."""
        ...

    async def start(self) -> None:
        """Work until cancelled. The first cancellation lets running work finish; a second one cancels it."""
        ...

    async def aclose(self) -> None:
        """Release everything. Idempotent."""
        ...


class ShardRunner:
    """Runs the runnable of one shard in its own task, from `warm` or `activate` to `drain` or `kill`.

    Args:
        shard: the shard.
        make: creates the runnable, also after a failure.
        fence: the fence of the shard.
        drain_timeout: seconds for running work to finish.
        after: a killed earlier runner of the shard; this runner waits for its end.
        on_warm: called when the first warm-up has ended.
        on_end: called with this runner when all tasks have ended.
    """

    def __init__(
        self,
        shard: str,
        make: Callable[[str], ShardRunnable],
        *,
        fence: ShardFence,
        drain_timeout: float,
        after: ShardRunner | None = None,
        on_warm: Callable[[], None],
        on_end: Callable[[ShardRunner], None],
    ) -> None:
        self.shard = shard
        self._make = make
        self._fence = fence
        self._predecessor = after
        self._drain_timeout = drain_timeout
        self._on_warm = on_warm
        self._owned = asyncio.Event()
        self._stop = asyncio.Event()
        self._draining = False
        # The new task must not inherit the fence of the caller's task.
        context = copy_context()
        context.run(FENCE.set, fence)
        self._task = asyncio.get_running_loop().create_task(self._supervise(), name=f"shard {shard}", context=context)
        self._task.add_done_callback(lambda _: on_end(self))

    def activate(self) -> None:
        """Start the runnable; cancels a running warm-up."""
        self._owned.set()

    def drain(self) -> None:
        """Finish running work, and end. Idempotent."""
        self._draining = True
        self._stop.set()

    def restart(self) -> None:
        """Finish running work, and begin again with a new runnable."""
        self._stop.set()

    async def kill(self) -> None:
        """Reject writes and cancel all tasks. Return when they have ended, or ignored the cancellation for seconds."""
        self._fence.closed = True
        self._draining = True
        self._task.cancel()
        await self.wait_ended()

    async def wait_ended(self) -> None:
        """Return when all tasks have ended, or ignore their cancellation for some seconds."""
        await wait_ended([self._task], 2 * _CANCEL_GRACE)

    # -------------------------------------------------------------- the task
    async def _supervise(self) -> None:
        """Run the shard's runnable, and restart it with a backoff when it fails, until it is drained."""
        waits = _RESTART_BACKOFF.start()
        if self._predecessor is not None:
            await self._predecessor.wait_ended()
        while not self._draining:
            self._stop.clear()
            runnable: ShardRunnable | None = None
            wait = 0.0
            task = asyncio.current_task()
            before = cancellations(task)
            try:
                runnable = self._make(self.shard)
                await self._serve(runnable)
            except BaseException as error:
                contain(error, task=task, cancelling=before)
                wait = waits.next(monotonic())
                log.exception(
                    "the runnable of %s failed: restarting in %.0f s unless the shard is released", self.shard, wait
                )
            finally:
                if runnable is not None:
                    await finish(runnable.aclose(), name=f"shard {self.shard}/close")
            if wait:
                await self._wait_first(asyncio.sleep(wait), self._stop.wait())

    async def _serve(self, runnable: ShardRunnable) -> None:
        """Warm the runnable up, and let it work while the shard is owned, until `drain` or `restart`."""
        if not self._owned.is_set():
            await self._wait_first(self._warm(runnable), self._owned.wait(), self._stop.wait())
        if self._stop.is_set():
            return
        working = asyncio.get_running_loop().create_task(runnable.start(), name=f"shard {self.shard}/work")
        grace = 0.0
        try:
            await self._wait_first(asyncio.wait([working]), self._stop.wait())
            grace = self._drain_timeout
        finally:
            await finish(self._cancel(working, grace), name=f"shard {self.shard}/drain")
        if working.done() and not working.cancelled():
            working.result()

    async def _warm(self, runnable: ShardRunnable) -> None:
        await runnable.warmup()
        self._on_warm()
        await self._owned.wait()

    async def _wait_first(self, *waits: Coroutine[object, None, object]) -> None:
        """Return when one of `waits` has ended, and cancel the others. Raises its exception."""
        tasks = [asyncio.get_running_loop().create_task(wait, name=f"shard {self.shard}/wait") for wait in waits]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await wait_ended(tasks, _CANCEL_GRACE)
        for task in done:
            task.result()

    async def _cancel(self, working: asyncio.Task[None], grace: float) -> None:
        """Cancel the work, and after `grace` seconds again."""
        working.cancel()
        if not await wait_ended([working], grace):
            return
        if grace:
            log.warning("the runnable of %s did not drain within %g s: cancelling it", self.shard, grace)
        working.cancel()
        if await wait_ended([working], _CANCEL_GRACE):
            log.error("the runnable of %s ignores its cancellation: its writes are rejected from now on", self.shard)

    def __repr__(self) -> str:
        state = "draining" if self._draining else "owned" if self._owned.is_set() else "warming"
        return f"<ShardRunner {self.shard}: {state}>"
