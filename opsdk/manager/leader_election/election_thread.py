"""Runs a `LeaderElector` in a thread, so that blocking code in the operator's event loop does not lose the lease.

Upstream: client-go renews in a goroutine of its own (k8s.io/client-go/tools/leaderelection/leaderelection.go, v1.36).
Deviates: renewals stop when the operator's event loop is blocked for too long, so that a stuck leader is replaced.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from opsdk.aio.closing import Closing
from opsdk.aio.watchdog import place, stack
from opsdk.errors import LeaderElectionLostError, UsageError
from opsdk.manager.leader_election.leader_elector import LeaderElector
from opsdk.telemetry.records import Record, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

MakeElector = Callable[[TelemetryHook], AbstractAsyncContextManager[LeaderElector]]
"""Creates the elector inside the thread's event loop, with its own connections. Leaving the block closes them."""

# Seconds for the elector to end after a cancellation, and for the thread to end.
_END_SECONDS = 3.0


class ElectionThread(Closing):
    """An election in a thread with its own event loop. A `Fence` for writes that need leadership.

    Call `run` once. `aclose` ends the thread; it never waits longer than a few seconds, and the thread never keeps the
    process from exiting.

    Args:
        make: see `MakeElector`.
        hook: receives the elector's records, in the event loop of `run`.
        max_stall: seconds; a longer blockade of the event loop of `run` ends the leadership. None for no limit.
    """

    def __init__(self, make: MakeElector, *, hook: TelemetryHook | None = None, max_stall: float | None = 60.0) -> None:
        self.max_stall = max_stall
        self._make_elector = make
        self._hook = hook or TelemetryHook()
        self._elector: LeaderElector | None = None
        self._elected = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._last_heartbeat = 0.0
        # These belong to the event loop of the thread.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancelled = asyncio.Event()
        self._shutdown = asyncio.Event()

    # -------------------------------------------------------------- election and fence
    async def run(self) -> None:
        """Start the thread and run the election until cancelled. See `LeaderElector.run`.

        Raises:
            LeaderElectionLostError: the lease could not be renewed in time, or this event loop was blocked too long.
            UsageError: it was called before.
        """
        if self._thread is not None:
            raise UsageError("an ElectionThread runs once: create a new one")
        self._main = asyncio.get_running_loop()
        self._main_thread = threading.get_ident()
        self._result: asyncio.Future[None] = self._main.create_future()
        # Retrieve the exception: after a cancellation nothing else does.
        self._result.add_done_callback(lambda result: result.exception())
        self._thread_done: asyncio.Future[None] = self._main.create_future()
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run_thread, name="leader election", daemon=True)
        self._heartbeat()
        try:
            self._start_thread(self._loop)
            await asyncio.wait([self._result])
            self._result.result()
        except asyncio.CancelledError:
            self._call_in_thread_loop(self._cancelled.set)
            await asyncio.wait([self._result], timeout=_END_SECONDS)
            raise
        finally:
            self._heartbeat_timer.cancel()

    def _start_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._thread is not None
        try:
            self._thread.start()
        except RuntimeError:  # the system cannot start another thread
            loop.close()
            self._thread_done.set_result(None)
            raise

    async def wait_elected(self) -> None:
        """Return when this replica leads."""
        await self._elected.wait()

    async def release(self) -> None:
        if self._elector is None or self._loop is None or self._thread_done.done():
            return
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._elector.release(), self._loop))

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads now, by its own clock. Works from any thread."""
        return self._elector is not None and self._elector.is_leader

    def as_json(self) -> dict[str, object] | None:
        """Return the lease as last observed; None before the thread runs. See `LeaderElector.as_json`."""
        return self._elector.as_json() if self._elector is not None else None

    def check(self, action: str) -> None:
        if self._elector is None:
            raise LeaderElectionLostError(f"{action} was not sent: the leader election has not started")
        self._elector.check(action)

    async def aclose(self) -> None:
        """End the thread and close its connections. A lease that was not released expires. Idempotent."""
        if self._thread is None:
            return
        self._call_in_thread_loop(self._cancelled.set)
        self._call_in_thread_loop(self._shutdown.set)
        await asyncio.wait([self._thread_done], timeout=_END_SECONDS)
        if not self._thread_done.done():
            log.error("the leader election thread did not stop, it is still in %s", place(self._thread.ident or 0))
        elif self._thread.ident is not None:
            # The thread function is about to return, so this waits only for microseconds.
            self._thread.join(_END_SECONDS)

    def __repr__(self) -> str:
        return f"<ElectionThread {self._elector or 'not started'}>"

    # -------------------------------------------------------------- communication between the loops
    def _heartbeat(self) -> None:
        """Report to the thread that this event loop is responsive, while `run` runs."""
        self._last_heartbeat = time.monotonic()
        self._heartbeat_timer = self._main.call_later(self._interval, self._heartbeat)

    @property
    def _interval(self) -> float:
        return 1.0 if self.max_stall is None else min(self.max_stall / 4, 1.0)

    def _call_in_thread_loop(self, function: Callable[[], object]) -> None:
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            log.debug("the leader election thread has stopped")

    def _call_in_main_loop(self, function: Callable[[], object]) -> None:
        try:
            self._main.call_soon_threadsafe(function)
        except RuntimeError:
            log.debug("the event loop of the operator is closed")

    def _set_result(self, error: BaseException | None) -> None:
        if self._result.done():
            return
        if error is None:
            self._result.set_result(None)
        else:
            self._result.set_exception(error)

    # -------------------------------------------------------------- in the thread
    def _run_thread(self) -> None:
        assert self._loop is not None
        error: BaseException | None = None
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as caught:  # noqa: BLE001 - handed to the event loop of `run`
            error = caught
        finally:
            # Does not wait for resolver threads, which must not delay the end.
            self._loop.close()
            self._call_in_main_loop(partial(self._set_result, error))
            self._call_in_main_loop(lambda: None if self._thread_done.done() else self._thread_done.set_result(None))

    async def _serve(self) -> None:
        async with self._make_elector(_MainHook(self._hook, self._call_in_main_loop)) as elector:
            # A replica with a blocked event loop cannot act as the leader.
            elector.may_acquire = self._is_main_alive
            self._elector = elector
            error = await self._run_elector(elector)
            self._call_in_main_loop(partial(self._set_result, error))
            # Keep the connection: the release of the lease may need it.
            await self._shutdown.wait()

    async def _run_elector(self, elector: LeaderElector) -> BaseException | None:
        """Run the elector until it ends, is cancelled, or the operator's event loop is stalled. Returns the error."""
        running = asyncio.create_task(elector.run())
        elected = asyncio.create_task(elector.wait_elected())
        elected.add_done_callback(lambda task: None if task.cancelled() else self._call_in_main_loop(self._elected.set))
        stuck = asyncio.create_task(self._wait_until_stalled())
        cancelled = asyncio.create_task(self._cancelled.wait())
        tasks: list[asyncio.Task[Any]] = [running, elected, stuck, cancelled]
        await asyncio.wait([running, stuck, cancelled], return_when=asyncio.FIRST_COMPLETED)
        error = stuck.result() if stuck.done() else None
        if error is not None:
            elector.abandon()
        for task in tasks:
            task.cancel()
        _, left = await asyncio.wait(tasks, timeout=_END_SECONDS)
        for task in left:
            log.error("a lease request ignores its cancellation and is abandoned")
            task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - logged here
        if error is None and running.done() and not running.cancelled():
            error = running.exception()
        return error

    def _is_main_alive(self) -> bool:
        return time.monotonic() - self._last_heartbeat < 3 * self._interval

    async def _wait_until_stalled(self) -> BaseException:
        """Return the error when the event loop of `run` was blocked for `max_stall`."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(self._interval)
            if self.max_stall is None or time.monotonic() - began > 2 * self._interval + 1:
                continue  # this thread did not run either, as after SIGSTOP
            stalled = time.monotonic() - self._last_heartbeat
            if stalled > self.max_stall:
                where = place(self._main_thread)
                text = f"the event loop was blocked for {stalled:.0f} s in {where}, so renewals of the lease stopped"
                log.critical("%s; another replica will take over\n%s", text, stack(self._main_thread))
                return LeaderElectionLostError(f"leader election lost: {text}")


class _MainHook(TelemetryHook):
    """Forwards records to the event loop of `ElectionThread.run`."""

    def __init__(self, hook: TelemetryHook, in_main: Callable[[Callable[[], object]], None]) -> None:
        self._hook = hook
        self._call_in_main_loop = in_main

    def record(self, record: Record) -> None:
        self._call_in_main_loop(partial(self._hook.record, record))
