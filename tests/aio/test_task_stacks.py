"""What tasks wait for, and how old they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from opsdk.aio.task_stacks import TaskAges, TaskState, await_stack


async def _inner(secret: str) -> None:
    await asyncio.sleep(1000)


async def _outer() -> None:
    await _inner("s3cret")


async def _generator() -> AsyncIterator[int]:
    await asyncio.sleep(1000)
    yield 1


async def _iterates() -> None:
    async for _ in _generator():
        pass


def state_of(ages: TaskAges, name: str) -> TaskState:
    """The state of the task of this name."""
    return next(state for state in ages.states() if state.name == name)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_stack_names_each_awaiting_function() -> None:
    """Outermost first, with file and line, and the type of what is awaited; no value of a variable."""
    task = asyncio.create_task(_outer(), name="t")
    await asyncio.sleep(0)
    state = state_of(TaskAges(), "t")
    assert [frame.rpartition(" ")[2] for frame in state.stack] == ["_outer", "_inner", "sleep"]
    assert "test_task_stacks.py:" in state.stack[0]
    assert state.waits_for == "Future"
    assert "s3cret" not in repr(state)
    await _end(task)


async def test_ages_begin_at_the_creation() -> None:
    """Tasks from before the installation have no age; the oldest come first."""
    before = asyncio.create_task(_outer(), name="before")
    ages = TaskAges()
    ages.install()
    first = asyncio.create_task(_outer(), name="first")
    await asyncio.sleep(10)
    second = asyncio.create_task(_outer(), name="second")
    await asyncio.sleep(5)
    names = [state.name for state in ages.states()]
    assert names.index("before") < names.index("first") < names.index("second")
    assert [state_of(ages, name).age for name in ("before", "first", "second")] == [None, 15, 5]
    await _end(before, first, second)
    ages.uninstall()
    assert asyncio.get_running_loop().get_task_factory() is None


async def test_a_factory_of_the_program_is_kept() -> None:
    """Ours calls theirs, with all arguments; uninstalling restores theirs, and never removes a newer one."""
    created: list[object] = []

    def theirs(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        created.append(coro)
        return asyncio.Task(coro, loop=loop, **kwargs)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(theirs)
    ages = TaskAges()
    ages.install()
    ages.install()
    task = asyncio.create_task(_outer(), name="named")
    await asyncio.sleep(2)
    assert (len(created), task.get_name(), state_of(ages, "named").age) == (1, "named", 2)
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
    await _end(task)
    ages.uninstall()
    ages.uninstall()
    assert loop.get_task_factory() is theirs
    ages.install()
    loop.set_task_factory(None)
    ages.uninstall()
    assert loop.get_task_factory() is None


def test_tasks_may_be_created_while_the_loop_does_not_run() -> None:
    """Before its first and after its last run a loop has a time, but is not the running one."""
    loop = asyncio.new_event_loop()
    ages = TaskAges()

    async def install() -> None:
        ages.install()

    try:
        loop.run_until_complete(install())
        loop.run_until_complete(loop.create_task(asyncio.sleep(0)))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def test_every_kind_of_awaitable_has_a_stack() -> None:
    """Async generators, plain generators and finished coroutines end the chain without an error."""
    tasks = [asyncio.create_task(_iterates()), asyncio.create_task(asyncio.sleep(1000))]
    await asyncio.sleep(0)
    stacks = [await_stack(task.get_coro()) for task in tasks]
    assert stacks[0][0].endswith(" _iterates")
    assert stacks[1][0].endswith(" sleep")
    await _end(*tasks)
    assert await_stack(tasks[0].get_coro()) == []
    assert await_stack(None) == []


async def test_a_task_that_waits_for_another_names_it() -> None:
    """The chain of waiting tasks can be followed by name."""
    first = asyncio.create_task(_outer(), name="first")

    async def wait() -> None:
        await first

    second = asyncio.create_task(wait(), name="second")
    await asyncio.sleep(1)
    assert state_of(TaskAges(), "second").waits_for == "first"
    await _end(second, first)


async def test_the_calling_task_is_listed_too() -> None:
    """The running task is in the list, and waits for nothing."""
    ages = TaskAges()
    current = asyncio.current_task()
    assert current is not None
    assert state_of(ages, current.get_name()).waits_for == ""
