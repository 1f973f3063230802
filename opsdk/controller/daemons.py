"""Daemons: functions that run while an object exists.

An async function runs in the event loop, a plain one in a thread. A daemon of an object is started by a reconcile of
the object, and restarted with a backoff when it raises. It is cancelled when the object is being deleted or no longer
selected, and has ended before the object's finalizers run.

Upstream: none; kopf has ``@kopf.daemon`` and ``@kopf.timer``.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast, overload

import msgspec

from opsdk.aio.backoff import Backoff, BackoffState
from opsdk.aio.blocking import BlockingPool
from opsdk.aio.clock import monotonic, utc_now
from opsdk.aio.containment import cancellations, contain
from opsdk.aio.randomness import loop_random
from opsdk.aio.tasks import TaskOwner
from opsdk.aio.waiting import wait_ended
from opsdk.apimachinery.object import KubeObject
from opsdk.base.durations import as_seconds, shown_seconds
from opsdk.base.options import Options
from opsdk.base.place import caller_place
from opsdk.controller.blocking_context import BlockingContext, run_in_thread
from opsdk.controller.context import Context
from opsdk.controller.declaration import check_context
from opsdk.controller.journal import ReconcileRecord
from opsdk.controller.retries import is_terminal, requested_delay
from opsdk.errors import ShutdownTimeoutError, TemporaryError, UsageError
from opsdk.event.handlers import is_async
from opsdk.event.request import Request
from opsdk.recipes.finalizers import is_deleting
from opsdk.telemetry.context import log_context
from opsdk.telemetry.describe import repr_of
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["DaemonSpec"]

log = SafeLogger(__name__)

T = TypeVar("T")

DaemonFunction = Callable[[Any, Any], object]
"""``async def monitor(obj, ctx)``, or a plain ``def``. A return ends the daemon; an exception restarts it."""

_BACKOFF = Backoff(base=1.0, cap=300.0, jitter=0.1, reset_after=600.0)
# A hundred threads that wait take 3 MB; a process in a container may often have a few thousand.
_DEFAULT_THREADS = 100
# Seconds until a daemon looks for a free thread again.
_THREAD_SECONDS = 10.0


class DaemonDecorator(Protocol[T]):
    """What `Operator.daemon` returns: declares the function and returns it unchanged."""

    @overload
    def __call__(
        self, function: Callable[[T, Context], Coroutine[Any, Any, object]], /
    ) -> Callable[[T, Context], Coroutine[Any, Any, object]]: ...
    @overload
    def __call__(
        self, function: Callable[[T, BlockingContext], object], /
    ) -> Callable[[T, BlockingContext], object]: ...


class DaemonSpec(Options, frozen=True, kw_only=True):
    """A function that runs while an object exists.

    Attributes:
        function: ``async def monitor(obj, ctx)``, or a plain ``def``, which runs in a thread with a `BlockingContext`.
            It gets the object as it was at its start; ``ctx.client.get`` reads a newer state. An exception is logged,
            and the function is called again with a delay; `TemporaryError` sets the delay, and `TerminalError` ends the
            daemon.
            A return ends it too, unless `every` is set.
        when: the daemon runs for objects for which this returns True; None for all. Called at each reconcile of
            the object.
        every: call the function repeatedly, this many seconds (or a timedelta) after its last return, each time with
            the newest object. None calls it once.
        jitter: adds a random share of `every`, between 0 and this share.
        backoff: the delays after exceptions; default: 1 s to 5 minutes.
        stop_timeout: seconds for the function to end after its cancellation. After that, the reconcile that stops it
            fails and is retried: finalizers do not run while the daemon runs.
        threads: threads of a plain function, which are this daemon's own; 0 for 100. Calls with `every` wait for one.
            Without `every`, a function may run for as long as its object exists: a call that gets no thread fails,
            and is restarted with `backoff`.
        name: for logs, metrics and `opsdk why`; default: the name of the function.

    Raises:
        UsageError: a value has a wrong type, or is out of range; the message has file and line.
    """

    function: DaemonFunction
    when: Callable[[Any], bool] | None = None
    every: float | timedelta | None = None
    jitter: float = 0.0
    backoff: Backoff = _BACKOFF
    stop_timeout: float = 10.0
    threads: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        if (problem := self._problem()) is not None:
            raise UsageError(f"{caller_place()}: {problem}")
        check_context(self.function, f"the daemon {self.shown_name}")

    def _problem(self) -> str | None:
        """Return what is wrong with the values."""
        function: object = self.function
        if not callable(function) or isinstance(function, type):
            return f"the function of a daemon is {function!r}: pass `async def monitor(obj, ctx)`, or a plain `def`"
        when: object = self.when
        if when is not None and (not callable(when) or is_async(when)):
            return f"when is {when!r}: pass a plain function from an object to a bool"
        if self.every is not None and not as_seconds(self.every):
            return f"every is {self.every!r}: pass more than 0 seconds, or a timedelta"
        if as_seconds(self.jitter) is None:
            return f"jitter is {self.jitter!r}: pass a share of `every`, such as 0.1"
        if self.jitter and self.every is None:
            return "jitter needs every=..., the interval that it changes"
        backoff: object = self.backoff
        if not isinstance(backoff, Backoff) or not (as_seconds(backoff.base) and as_seconds(backoff.cap)):
            return f"backoff is {backoff!r}: pass opsdk.aio.backoff.Backoff(base=1, cap=300), in seconds above 0"
        if not as_seconds(self.stop_timeout):
            return f"stop_timeout is {self.stop_timeout!r}: pass more than 0 seconds"
        threads: object = self.threads
        if not isinstance(threads, int) or isinstance(threads, bool) or threads < 0:
            return f"threads is {threads!r}: pass a number of threads, or 0 for {_DEFAULT_THREADS}"
        if threads and is_async(function):
            return f"threads is for plain functions, and {self.shown_name} is async: it runs in the event loop"
        name: object = self.name
        return None if isinstance(name, str) else f"name is {name!r}: pass text"

    @property
    def seconds(self) -> float:
        """`every` in seconds; 0 without it."""
        return as_seconds(self.every) or 0.0

    @property
    def shown_name(self) -> str:
        """`name`, or that of the function."""
        return self.name or getattr(self.function, "__name__", repr(self.function))


async def keep_daemons(request: Request) -> None:
    """Reconcile nothing: a controller that only has daemons starts and stops them."""


class DaemonEvent(Enum):
    """What happened to a daemon."""

    STARTED = "started"
    FAILED = "failed"
    """It raised, and is called again later, or not if the error is terminal."""
    RETURNED = "returned"
    CANCELLED = "cancelled"


class DaemonChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a daemon, for the journal and metrics.

    Attributes:
        daemon: its name.
        request: of its object.
        event: what happened.
        running: number of daemons of this name that run or wait for their restart.
        detail: the error, and the time of the restart.
        attempt: number of failures since the last success.
    """

    daemon: str
    request: Request
    event: DaemonEvent
    running: int
    detail: str = ""
    attempt: int = 0


def daemon_record(controller: str, kind: str, change: DaemonChange) -> ReconcileRecord:
    """Return the record of a change for the journal."""
    return ReconcileRecord(
        controller=controller,
        kind=kind,
        namespace=change.request.namespace,
        name=change.request.name,
        reconcile_id="",
        started_at=utc_now(),
        seconds=0.0,
        attempt=change.attempt,
        result=f"daemon {change.daemon} {change.event.value}",
        detail=change.detail,
    )


class _End(NamedTuple):
    """How a daemon ended for good."""

    event: DaemonEvent
    detail: str = ""


class _Running(msgspec.Struct):
    """A daemon of one object. It is kept after its end, so that it is not started again."""

    uid: str
    task: asyncio.Task[_End]


class Daemons:
    """The daemons of the objects of one controller.

    Args:
        specs: what runs for each object. Each plain function has a pool of threads of its own.
        owner: name of the controller.
        make_context: returns the context of a call: request, object, number of failures.
        read: returns the newest state of an object, or None.
        on_change: is called with each change.
    """

    def __init__(
        self,
        specs: Sequence[DaemonSpec],
        *,
        owner: str,
        make_context: Callable[[Request, KubeObject, int], Context],
        read: Callable[[Request], Awaitable[KubeObject | None]],
        on_change: Callable[[DaemonChange], None],
    ) -> None:
        self._specs = tuple(specs)
        self._owner = owner
        self._make_context = make_context
        self._read = read
        self._on_change = on_change
        self._running: dict[tuple[Request, str], _Running] = {}
        self._counts = Counter[str]()
        self._pools = {
            spec.shown_name: BlockingPool(f"daemon {spec.shown_name}", spec.threads or _DEFAULT_THREADS)
            for spec in self._specs
            if not is_async(spec.function)
        }
        grace = max([spec.stop_timeout for spec in specs], default=0.0)
        self._tasks = TaskOwner(f"controller {owner}", on_error=self._on_crash, grace=grace)
        # A daemon outlives the reconcile that starts it, so it does not run in its context variables.
        self._context = contextvars.copy_context()

    def __bool__(self) -> bool:
        """Whether there are specs."""
        return bool(self._specs)

    def __len__(self) -> int:
        """Return the number of daemons that run or wait for their restart."""
        return sum(not running.task.done() for running in self._running.values())

    def activate(self) -> None:
        """Run later daemons with the caller's context variables: its fence and its log fields."""
        self._context = contextvars.copy_context()

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        """The function of each daemon."""
        return [spec.function for spec in self._specs]

    async def sync(self, request: Request, obj: KubeObject | None) -> None:
        """Start the daemons that select an object, and stop the others.

        Args:
            request: of the object.
            obj: None for an object that no longer exists.

        Raises:
            ShutdownTimeoutError: a daemon ignores its cancellation.
        """
        selected = [] if obj is None or is_deleting(obj) else [s for s in self._specs if s.when is None or s.when(obj)]
        uid = obj.metadata.uid if obj is not None else ""
        await self._stop(
            request,
            [
                spec
                for spec in self._specs
                if (running := self._running.get((request, spec.shown_name))) is not None
                and (spec not in selected or running.uid != uid)
            ],
        )
        for spec in selected:
            if obj is not None and (request, spec.shown_name) not in self._running:
                self._start(spec, request, obj)

    def _start(self, spec: DaemonSpec, request: Request, obj: KubeObject) -> None:
        task = self._context.run(
            self._tasks.start, self._run(spec, request, obj), name=f"daemon {spec.shown_name} {request}"
        )
        self._counts[spec.shown_name] += 1
        task.add_done_callback(partial(self._on_end, spec, request))
        self._running[request, spec.shown_name] = _Running(obj.metadata.uid, task)
        self._report(spec, request, DaemonEvent.STARTED)

    async def _stop(self, request: Request, specs: Iterable[DaemonSpec]) -> None:
        """Cancel daemons of one object, and wait until they have ended."""
        for spec in specs:
            running = self._running[request, spec.shown_name]
            if not running.task.done():
                running.task.cancel()
                if await wait_ended([running.task], spec.stop_timeout):
                    calls = ", and call ctx.sleep(0) between long steps" if spec.shown_name in self._pools else ""
                    raise ShutdownTimeoutError(
                        f"the daemon {spec.shown_name} of {request} ignores its cancellation for "
                        f"{spec.stop_timeout:g} s: let it end when CancelledError is raised in it{calls}"
                    )
            del self._running[request, spec.shown_name]

    async def aclose(self) -> None:
        """Cancel all daemons and wait until they have ended, at most for the longest `stop_timeout`."""
        async with AsyncExitStack() as pools:
            for pool in self._pools.values():
                pools.push_async_callback(pool.aclose)
            await self._tasks.aclose()

    # -------------------------------------------------------------- one daemon
    async def _run(self, spec: DaemonSpec, request: Request, first: KubeObject) -> _End:
        """Call the function until it returns, its object is gone, or the task is cancelled."""
        task, uid = asyncio.current_task(), first.metadata.uid
        obj: KubeObject | None = first
        failures, waits = 0, spec.backoff.start()
        with log_context(daemon=spec.shown_name, namespace=request.namespace, name=request.name):
            while obj is not None and obj.metadata.uid == uid and not is_deleting(obj):
                error = await self._call(spec, request, obj, failures)
                if error is None and (spec.every is None or cancellations(task)):
                    return _End(DaemonEvent.RETURNED)
                if error is None:
                    failures = 0
                    waits.reset()
                    pause = spec.seconds * (1 + spec.jitter * loop_random().random())
                elif is_terminal(error):
                    return _End(DaemonEvent.FAILED, _log_failure(spec, request, error, "not restarted"))
                else:
                    requested = requested_delay(error)
                    pause = waits.next(monotonic()) if requested is None else requested
                    detail = _log_failure(spec, request, error, f"again in {shown_seconds(pause)}")
                    self._report(spec, request, DaemonEvent.FAILED, detail, attempt=failures)
                    failures += 1
                await asyncio.sleep(pause)
                obj = await self._read_until_success(spec, request, waits)
        return _End(DaemonEvent.CANCELLED)

    async def _read_until_success(self, spec: DaemonSpec, request: Request, waits: BackoffState) -> KubeObject | None:
        """Return the newest state of the object: a read that fails, or an object without its class, ends no daemon."""
        task = asyncio.current_task()
        while True:
            before = cancellations(task)
            try:
                return await self._read(request)
            except BaseException as raised:  # noqa: BLE001 - as for the function
                error = contain(raised, task=task, cancelling=before)
            pause = waits.next(monotonic())
            detail = _log_failure(spec, request, error, f"its object is read again in {shown_seconds(pause)}")
            self._report(spec, request, DaemonEvent.FAILED, detail)
            await asyncio.sleep(pause)

    def _on_end(self, spec: DaemonSpec, request: Request, task: asyncio.Task[_End]) -> None:
        self._counts[spec.shown_name] -= 1
        if task.cancelled():
            self._report(spec, request, DaemonEvent.CANCELLED)
        elif task.exception() is None:
            self._report(spec, request, *task.result())

    async def _call(self, spec: DaemonSpec, request: Request, obj: KubeObject, failures: int) -> Exception | None:
        """Call the function once. Returns what it raised, except the task's own cancellation, which is raised."""
        task = asyncio.current_task()
        before = cancellations(task)
        try:
            ctx = self._make_context(request, obj, failures)
            if (pool := self._pools.get(spec.shown_name)) is None:
                await cast("Awaitable[object]", spec.function(obj, ctx))
            else:
                _check_threads(spec, pool)
                await run_in_thread(spec.function, obj, ctx, pool)
        except BaseException as error:  # noqa: BLE001 - a user function may raise anything
            return contain(error, task=task, cancelling=before)
        return None

    def _report(
        self, spec: DaemonSpec, request: Request, event: DaemonEvent, detail: str = "", *, attempt: int = 0
    ) -> None:
        name = spec.shown_name
        self._on_change(
            DaemonChange(
                daemon=name,
                request=request,
                event=event,
                running=self._counts[name],
                detail=detail,
                attempt=attempt,
            )
        )

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.error("%s ended: %r", task, error, exc_info=error)

    def __repr__(self) -> str:
        return f"<Daemons of {self._owner}: {len(self)} running>"


def _check_threads(spec: DaemonSpec, pool: BlockingPool) -> None:
    """Raise `TemporaryError` for a call that may wait for a thread for as long as other objects exist."""
    if spec.every is None and pool.is_full:
        raise TemporaryError(
            f"all {pool.size} threads of the daemon {spec.shown_name} are in use for other objects: "
            "pass a larger threads=..., or declare it with `async def`",
            delay=_THREAD_SECONDS,
        )


def _log_failure(spec: DaemonSpec, request: Request, error: Exception, outlook: str) -> str:
    """Log an exception of a daemon. Returns the text for the journal."""
    log.error("the daemon %s of %s failed, %s: %s", spec.shown_name, request, outlook, error, exc_info=error)
    return f"{outlook}: {repr_of(error)}"
