"""pytest plugin: ``async def`` tests and fixtures run in virtual time, and a test with a leaked task fails.

Load it with ``-p opsdk.testing.plugin``. Mark a test ``realtime`` to run it on an ordinary loop.

Each test has its own loop, so only fixtures of function scope may be async. Setup, test and teardown run in one
task, so a fixture may hold a task group, a timeout or a context variable open.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

import pytest

from opsdk.aio.virtual_loop import VirtualLoop
from opsdk.structured_merge.value import JsonObject

__all__ = ["LeakedTaskError"]

T = TypeVar("T")
_LOOP = pytest.StashKey["TestLoop"]()


class LeakedTaskError(AssertionError):
    """A task of the test still runs after its end."""


class TestLoop:
    """The event loop of one test, and the task in which its async fixtures and the test run.

    Args:
        realtime: use an ordinary loop.
    """

    __test__ = False

    def __init__(self, *, realtime: bool) -> None:
        self._runner = asyncio.Runner(loop_factory=None if realtime else VirtualLoop)
        self._host: asyncio.Task[None] | None = None
        self._calls: asyncio.Queue[tuple[Coroutine[Any, Any, Any], asyncio.Future[Any]] | None] = asyncio.Queue()
        self.shared = False
        """Whether async fixtures use the loop too."""
        self._leak_reported = False

    def __repr__(self) -> str:
        return f"<TestLoop of {self._runner.get_loop()!r}>"

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the test's task. An error of the loop itself, such as a deadlock, ends that task."""
        loop = self._runner.get_loop()
        if self._host is None:
            self._host = loop.create_task(self._serve(), name="test")
        result: asyncio.Future[T] = loop.create_future()
        self._calls.put_nowait((coro, result))
        try:
            value: T = loop.run_until_complete(result)
            return value
        finally:
            if not result.done():
                result.cancel()
                # Cancel the coroutine of the task; the next call creates a new task.
                host, self._host = self._host, None
                if host is not None:
                    host.cancel()
                    with suppress(asyncio.CancelledError, AssertionError):
                        self._runner.get_loop().run_until_complete(host)

    def enter(self, request: pytest.FixtureRequest, context: AbstractAsyncContextManager[T]) -> T:
        """Enter an async context manager, and leave it at the teardown of the requesting fixture."""
        self.shared = True
        value = self.run(_awaited(context.__aenter__()))
        request.addfinalizer(lambda: self.run(_awaited(context.__aexit__(None, None, None))))
        return value

    async def _serve(self) -> None:
        while (call := await self._calls.get()) is not None:
            coro, result = call
            try:
                value = await coro
            except BaseException as error:
                if result.cancelled():
                    raise
                result.set_exception(error)
            else:
                if result.cancelled():
                    return
                result.set_result(value)

    def close(self) -> None:
        """End the loop. Raises `LeakedTaskError` for tasks that still run."""
        try:
            if self._host is not None:
                self.run(self._check_leaks())
        finally:
            self._calls.put_nowait(None)
            if self._host is not None:
                self._runner.get_loop().run_until_complete(self._host)
            self._runner.close()

    async def run_test(self, function: Callable[..., Coroutine[Any, Any, object]], arguments: JsonObject) -> None:
        """Run the test function; without async fixtures it must not leave tasks behind."""
        await function(**arguments)
        if not self.shared:
            await self._check_leaks()

    async def _check_leaks(self) -> None:
        leaked: set[asyncio.Task[object]] = set()
        # Closing transports and cancelled tasks finish in the next few loop iterations.
        for _ in range(10):
            leaked = {t for t in asyncio.all_tasks() if t is not asyncio.current_task()}
            if not leaked or self._leak_reported:
                return
            await asyncio.sleep(0)
        self._leak_reported = True
        names = ", ".join(sorted(t.get_name() for t in leaked))
        raise LeakedTaskError(f"tasks left behind: {names}")


async def _awaited(step: Awaitable[T]) -> T:
    return await step


def loop_of(item: pytest.Item) -> TestLoop:
    """Return the loop of a test; the first caller creates it."""
    loop = item.stash.get(_LOOP, None)
    if loop is None:
        loop = item.stash[_LOOP] = TestLoop(realtime=item.get_closest_marker("realtime") is not None)
    return loop


# ------------------------------------------------------------------ hooks
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker. Raises ``pytest.UsageError`` if another plugin runs all async tests."""
    config.addinivalue_line("markers", "realtime: run this async test on an ordinary event loop")
    for plugin, option in (("pytest-asyncio", "asyncio_mode"), ("anyio", "anyio_mode")):
        try:
            mode = config.getoption(option, None) or config.getini(option)
        except ValueError:
            continue  # the plugin is not installed
        if str(getattr(mode, "value", mode)) == "auto":
            raise pytest.UsageError(
                f"{option} is auto, so {plugin} runs all async tests, in real time: "
                f'set {option} = "strict" in the pytest configuration; opsdk.testing.plugin then runs them in virtual '
                "time"
            )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an ``async def`` test function."""
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    loop = loop_of(pyfuncitem)
    loop.run(loop.run_test(function, arguments))
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Run an async fixture on the loop of its test."""
    function: Any = fixturedef.func
    is_generator = inspect.isasyncgenfunction(function)
    if not is_generator and not inspect.iscoroutinefunction(function):
        return (yield)
    if request.scope != "function":
        pytest.fail(
            f"the async fixture {fixturedef.argname} has the scope {request.scope}: each test has its own loop, "
            "so async fixtures must have the scope function",
            pytrace=False,
        )
    bound = getattr(function, "__self__", None)
    target = function
    if bound is not None and isinstance(request.instance, type(bound)):
        target = function.__func__.__get__(request.instance)  # each test has an instance of its own
    make = _generator if is_generator else _value
    fixturedef.func = make(loop_of(request.node), target)  # type: ignore[misc]
    try:
        return (yield)
    finally:
        fixturedef.func = function  # type: ignore[misc]


def _value(loop: TestLoop, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def fixture(*args: Any, **kwargs: Any) -> Any:
        loop.shared = True
        return loop.run(function(*args, **kwargs))

    return fixture


def _generator(loop: TestLoop, function: Callable[..., AsyncGenerator[Any, None]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def fixture(*args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        loop.shared = True
        values = function(*args, **kwargs)
        yield loop.run(_awaited(anext(values)))
        try:
            loop.run(_awaited(anext(values)))
        except StopAsyncIteration:
            return
        pytest.fail(f"the async fixture {function.__name__} yields more than once", pytrace=False)

    return fixture


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Close the loop of the test after its fixtures."""
    try:
        return (yield)
    finally:
        loop = item.stash.get(_LOOP, None)
        if loop is not None:
            del item.stash[_LOOP]
            loop.close()
