"""pytest plugin: ``async def`` tests run in virtual time, and a test that leaves a task behind fails.

Load it with ``-p opsdk.testing.plugin``. Mark a test ``realtime`` to run it on an ordinary loop.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from opsdk.structured_merge.value import JsonObject
from opsdk.testing.loop import VirtualLoop


class LeakedTaskError(AssertionError):
    """The test has ended, but tasks that it started have not."""


async def _run(function: Any, arguments: JsonObject) -> None:
    await function(**arguments)
    leaked: set[asyncio.Task[object]] = set()
    # Closing transports and cancelled tasks finish in the next few loop iterations.
    for _ in range(10):
        leaked = {t for t in asyncio.all_tasks() if t is not asyncio.current_task()}
        if not leaked:
            return
        await asyncio.sleep(0)
    names = ", ".join(sorted(t.get_name() for t in leaked))
    raise LeakedTaskError(f"tasks left behind: {names}")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "realtime: run this async test on an ordinary event loop")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an ``async def`` test function."""
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    factory = None if pyfuncitem.get_closest_marker("realtime") else VirtualLoop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_run(function, arguments))
    return True
