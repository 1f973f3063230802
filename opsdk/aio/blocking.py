"""Functions that block: they run in threads of a bounded pool, and call back into the event loop.

A thread behaves like a task whose awaits are calls of `BlockingCall.wait`: it inherits the context variables of the
task that waits for it, and a cancellation of that task is raised in the thread's next wait. No thread can be stopped
between two waits, so the task ends after its thread.

In virtual time, the loop and its threads take turns: the loop stands still while a thread computes, and a thread while
it waits for the loop. So a run repeats exactly, and time does not advance while a thread computes.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import inspect
import logging
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from opsdk.aio.clock import THREAD_LOOP, is_virtual
from opsdk.aio.closing import Closing
from opsdk.aio.watchdog import place, stack
from opsdk.base.place import caller_place
from opsdk.errors import UsageError

__all__ = ["blocking"]

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Target = TypeVar("Target")

_DEFAULT_THREADS: Final = 4
# Seconds after its cancellation, and then between messages, after which a thread that does not end is named.
_ENDS_WITHIN: Final = 5.0
_REMIND_EVERY: Final = 60.0
# Seconds of real time after which a thread that virtual time waits for is named.
_COMPUTES_WITHIN: Final = 10.0

_CALL: ContextVar[BlockingCall | None] = ContextVar("opsdk_blocking_call", default=None)
_POOLS: weakref.WeakSet[BlockingPool] = weakref.WeakSet()


class ThreadOrder(Protocol):
    """Decides in which iterations the event loop sees what threads do, so that a run can be repeated."""

    def next_call(self) -> int:
        """Return the number of a new call, from 0. In the loop."""
        ...

    def arrive(self, call: int, callback: Callable[[], None]) -> None:
        """Let the loop call a function. In the thread.

        Args:
            call: its number.
            callback: begins a wait of the thread, or ends the call.

        Raises:
            RuntimeError: the loop is closed.
        """
        ...


THREAD_ORDER: ContextVar[ThreadOrder | None] = ContextVar("opsdk_thread_order", default=None)
"""The order of calls that begin in this context; None for that of their arrival."""


class BlockingCall:
    """One call of a function in a thread.

    `wait` is for the function and for threads that it starts; everything else runs in the event loop.

    Args:
        name: of the thread during the call.
        on_end: called in the loop when the thread has ended.
    """

    def __init__(self, name: str, on_end: Callable[[], None]) -> None:
        self._name = name
        self._on_thread_end = on_end
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._is_virtual = is_virtual()
        self._order = THREAD_ORDER.get()
        self._number = self._order.next_call() if self._order is not None else 0
        self._context = contextvars.copy_context()
        self._context.run(_CALL.set, self)
        self._context.run(THREAD_LOOP.set, self._loop)
        self._ident = 0
        self._turns = threading.Condition()
        self._waits = 0
        """Number of waits that the loop has not answered."""
        self._has_ended = False
        self._is_cancelled = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._result: Any = None
        self._error: BaseException | None = None

    # -------------------------------------------------------------- the thread
    def run(self, function: Callable[[], object]) -> None:
        """Call the function. In the thread."""
        thread = threading.current_thread()
        idle_name, thread.name = thread.name, self._name
        self._ident = threading.get_ident()
        try:
            self._result = self._context.run(function)
        except BaseException as error:  # noqa: BLE001 - raised in the task that waits for the call
            self._error = error
        thread.name = idle_name
        with self._turns:
            self._has_ended = True
            try:
                self._arrive(self._on_end)
            except RuntimeError:
                log.debug("%s ended after its event loop", self._name)
            self._turns.notify()

    def wait(self, coroutine: Coroutine[Any, Any, T], *, always: bool = False) -> T:
        """Run a coroutine in the event loop, and block until it ends. In the function's thread, or one that it started.

        Args:
            coroutine: what to run.
            always: run it also if the call is cancelled, because it releases something.

        Raises:
            asyncio.CancelledError: the call was cancelled, before or during the wait. Every later wait raises it too.
            UsageError: the caller runs in the event loop, or the call has ended.
        """
        if threading.get_ident() == self._loop_thread:
            coroutine.close()
            raise UsageError("this call would block the event loop: in async code, await the method of the async class")
        if self._has_ended:
            coroutine.close()
            raise UsageError(f"{self._name} has ended: its context is valid until then")
        # A thread that the function started has no context variables, so it would have no fence.
        is_own = threading.get_ident() == self._ident
        context = contextvars.copy_context() if is_own else self._context.copy()
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        with self._turns:
            try:
                self._arrive(functools.partial(context.run, self._start, coroutine, answer, always))
            except RuntimeError:
                coroutine.close()
                raise asyncio.CancelledError(f"{self._name} was cancelled: its event loop has ended") from None
            self._waits += 1
            self._turns.notify()
        return answer.result()

    def _arrive(self, callback: Callable[[], None]) -> None:
        """Let the loop call a function. Raises ``RuntimeError`` if it is closed."""
        if self._order is None:
            self._loop.call_soon_threadsafe(callback)
        else:
            self._order.arrive(self._number, callback)

    # -------------------------------------------------------------- the loop
    def _start(self, coroutine: Coroutine[Any, Any, T], answer: concurrent.futures.Future[T], always: bool) -> None:
        if self._is_cancelled and not always:
            coroutine.close()
            self._answer(lambda: answer.set_exception(self._cancellation()))
            return
        task = self._loop.create_task(coroutine, name=self._name)
        if not always:
            self._tasks.add(task)
        task.add_done_callback(functools.partial(self._on_done, answer))

    def _on_done(self, answer: concurrent.futures.Future[T], task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._answer(lambda: answer.set_exception(self._cancellation()))
        elif (error := task.exception()) is not None:
            self._answer(lambda: answer.set_exception(error))
        else:
            self._answer(lambda: answer.set_result(task.result()))

    def _answer(self, answer: Callable[[], None]) -> None:
        with self._turns:
            self._waits -= 1
        answer()
        self.take_turns()

    def take_turns(self) -> None:
        """In virtual time, block the loop until the thread waits or has ended."""
        if not self._is_virtual:
            return
        with self._turns:
            while not self._turns.wait_for(lambda: self._has_ended or self._waits > 0, timeout=_COMPUTES_WITHIN):
                log.warning(
                    "virtual time waits for the thread %r in %s\n%s", self._name, place(self._ident), stack(self._ident)
                )

    def _cancellation(self) -> asyncio.CancelledError:
        reason = "its deadline has passed, or its caller stops" if self._is_cancelled else "a task cancelled itself"
        return asyncio.CancelledError(f"{self._name} was cancelled: {reason}")

    def cancel(self) -> None:
        """Raise `asyncio.CancelledError` in the running wait of the thread, and in every later one."""
        self._is_cancelled = True
        for task in tuple(self._tasks):
            task.cancel()

    def _on_end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
        self._on_thread_end()

    async def finish(self) -> Any:
        """Wait until the thread has ended; return its result, or raise its exception.

        A cancellation is passed on to the thread, and raised here after the end of the thread. One that does not end
        is logged with its position.
        """
        cancelled: asyncio.CancelledError | None = None
        patience: float | None = None
        try:
            while not self._ended.done():
                try:
                    done, _ = await asyncio.wait((self._ended,), timeout=patience)
                except asyncio.CancelledError as cancellation:
                    cancelled = cancellation
                    patience = patience or _ENDS_WITHIN
                    self.cancel()
                    continue
                if not done:
                    self._report_stuck()
                    patience = _REMIND_EVERY
        except GeneratorExit:  # the loop is closed: nothing waits for the thread any more
            self.cancel()
            raise
        error, self._error = self._error, None
        try:
            if cancelled is not None:
                raise cancelled from None if isinstance(error, asyncio.CancelledError) else error
            if error is not None:
                raise error
            return self._result
        finally:
            del error, cancelled  # no cycle: an exception refers to this frame

    def _report_stuck(self) -> None:
        log.warning(
            "the thread %r was cancelled, and still runs in %s\n%s", self._name, place(self._ident), stack(self._ident)
        )

    def __repr__(self) -> str:
        state = "ended" if self._has_ended else "cancelled" if self._is_cancelled else "running"
        return f"<BlockingCall {self._name}: {state}>"


class BlockingPool(Closing):
    """At most `size` threads for functions that block. Threads are started when they are needed, and reused.

    Args:
        name: prefix of the names of idle threads.
        size: number of threads. Further calls wait in the order of their arrival.

    >>> async def main():
    ...     async with BlockingPool("example", 2) as pool:
    ...         return await pool.run(sum, [1, 2])
    >>> asyncio.run(main())
    3
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._busy = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self._calls: set[BlockingCall] = set()
        self._is_closed = False
        _POOLS.add(self)

    @property
    def is_full(self) -> bool:
        """Whether the next call has to wait for a thread."""
        return self._busy >= self.size

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread, with the caller's context variables, and return its result.

        A cancelled caller waits until the thread has ended, because a thread cannot be stopped. The thread has the name
        of the running task.

        Raises ``RuntimeError`` after `aclose`.
        """
        await self._wait_for_thread()
        try:
            self._check_open(function)
            if self._executor is None:
                self._executor = concurrent.futures.ThreadPoolExecutor(self.size, thread_name_prefix=self.name)
            call = BlockingCall(_current_name(self.name), self._release)
            self._executor.submit(call.run, functools.partial(function, *args, **kwargs))
        except BaseException:
            self._release()
            raise
        self._calls.add(call)
        try:
            call.take_turns()
            return cast("T", await call.finish())
        finally:
            self._calls.discard(call)

    def _check_open(self, function: object) -> None:
        if self._is_closed:
            raise RuntimeError(f"{self.name} is closed: it cannot run {function!r}")

    async def _wait_for_thread(self) -> None:
        if self._busy < self.size:
            self._busy += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._release()  # it got a thread, and was cancelled at the same time
            raise

    def _release(self) -> None:
        """Pass the thread of a call that has ended to the next caller."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._busy -= 1

    def release_threads(self) -> None:
        """Let idle threads end. The next call starts a new one."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None

    async def aclose(self) -> None:
        """Cancel running calls, and let the threads end. Does not wait for them. Idempotent."""
        self._is_closed = True
        for call in tuple(self._calls):
            call.cancel()
        self.release_threads()

    def __repr__(self) -> str:
        return f"<BlockingPool {self.name}: {self._busy} of {self.size} threads busy>"


def release_threads() -> None:
    """Let the idle threads of all pools end. A program calls it before it exits: they would block the exit."""
    for pool in tuple(_POOLS):
        pool.release_threads()


def _current_name(default: str) -> str:
    task = asyncio.current_task()
    return task.get_name() if task is not None else default


def current_call() -> BlockingCall:
    """Return the call that the running function belongs to. Raises `UsageError` outside a call."""
    call = _CALL.get()
    if call is None:
        raise UsageError(
            "this works only in a function that opsdk runs in a thread: in async code, await the async method"
        )
    return call


class Waiting(Generic[Target]):
    """A base class for the generated blocking form of a class: its methods wait for those of `target`.

    Args:
        target: has the async methods. Code in the event loop may use it; the function must not.
        call: the call whose thread waits; None for the one of the running function.
    """

    def __init__(self, target: Target, call: BlockingCall | None = None) -> None:
        self.target = target
        self._call = call

    def _wait(self, coroutine: Coroutine[Any, Any, T], *, always: bool = False) -> T:
        try:
            call = self._call if self._call is not None else current_call()
        except UsageError:
            coroutine.close()
            raise
        return call.wait(coroutine, always=always)

    def _call_in_loop(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        async def call() -> T:
            return function(*args, **kwargs)

        return self._wait(call())

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        ended = object()

        async def following() -> T | object:
            return await anext(items, ended)

        async def close() -> None:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

        try:
            while (item := self._wait(following())) is not ended:
                yield item  # type: ignore[misc] # it is not `ended`
        finally:
            with suppress(UsageError):  # after the end of the call: the event loop closes what is left
                self._wait(close(), always=True)

    @contextmanager
    def _open(self, block: AbstractAsyncContextManager[AsyncIterator[T]]) -> Iterator[Iterator[T]]:
        async def enter() -> AsyncIterator[T]:
            return await block.__aenter__()

        async def leave() -> None:
            await block.__aexit__(None, None, None)

        items = self._wait(enter())
        try:
            yield self._iterate(items)
        finally:
            self._wait(leave(), always=True)


@overload
def blocking(function: Callable[P, T], /) -> Callable[P, Coroutine[Any, Any, T]]: ...
@overload
def blocking(*, threads: int = ...) -> Callable[[Callable[P, T]], Callable[P, Coroutine[Any, Any, T]]]: ...
def blocking(function: Callable[..., Any] | None = None, /, *, threads: int = _DEFAULT_THREADS) -> Any:
    """Turn a plain function that blocks into an async one, which runs it in a thread. Also a decorator.

    For map functions, handlers and webhooks, whose plain functions run in the event loop. Reconcilers and finalizers
    need no decorator. The function may use `opsdk.client.blocking.BlockingClient`.

    Args:
        function: a plain function or method.
        threads: number of threads for all its calls; further calls wait.

    Raises:
        UsageError: the function is async or not a function, or `threads` is not a positive number.

    >>> @blocking
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> asyncio.run(double(2))
    4
    """
    number: object = threads
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise UsageError(f"{caller_place()}: threads is {threads!r}: pass a number of threads, at least 1")
    if function is None:
        return functools.partial(_in_pool, threads)
    return _in_pool(threads, function)


def _in_pool(threads: int, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    if not callable(function):
        raise UsageError(
            f"{caller_place()}: blocking got {function!r}: "
            "decorate a plain function with @blocking or @blocking(threads=4)"
        )
    if isinstance(function, type) or _has_form(function, inspect.iscoroutinefunction) or returns_generator(function):
        raise UsageError(
            f"{caller_place()}: blocking got {function!r}: it takes a plain function, neither a class nor an async one"
        )
    name = getattr(function, "__qualname__", repr(function))
    pool = BlockingPool(f"blocking {name}", threads)

    async def run_in_thread(*args: Any, **kwargs: Any) -> Any:
        return await pool.run(function, *args, **kwargs)

    functools.update_wrapper(run_in_thread, function)
    run_in_thread.blocking_pool = pool  # type: ignore[attr-defined]
    return run_in_thread


def returns_generator(function: Any) -> bool:
    """Whether a call returns a generator instead of a result, also for partials and callable objects."""
    return _has_form(function, inspect.isgeneratorfunction) or _has_form(function, inspect.isasyncgenfunction)


def _has_form(function: Any, test: Callable[[object], bool]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return any(test(target) for target in (function, type(function).__call__))
