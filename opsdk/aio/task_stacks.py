"""Shows what the tasks of an event loop wait for, and since when they exist.

Upstream: net/http/pprof's ``/debug/pprof/goroutine?debug=2``
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

import msgspec

# An await chain is rarely deeper than 30; a defect must not make the page endless.
_MAX_DEPTH = 100
_OPSDK = f"{Path(__file__).resolve().parents[1]}{os.sep}"
# Frames without a file, such as "<string>", are of generated code.
_LIBRARIES = (_OPSDK, str(Path(os.__file__).parent), "<")
_PACKAGES = ("site-packages", "dist-packages")
_FRAME_ATTRIBUTES = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))


class TaskState(msgspec.Struct, frozen=True, kw_only=True):
    """One task.

    Attributes:
        name: the task's name.
        age: seconds since it was created; None if that was before `TaskAges.install`.
        stack: file, line and function of each awaiting frame, the outermost first. Values of variables are not shown.
        waits_for: the name of the task, or the type of the future, that it waits for; empty while it can run.
    """

    name: str
    age: float | None
    stack: tuple[str, ...]
    waits_for: str


class TaskAges:
    """Remembers when tasks are created, by means of the loop's task factory. Ages are in the loop's time."""

    def __init__(self) -> None:
        self._created: weakref.WeakKeyDictionary[asyncio.Future[Any], float] = weakref.WeakKeyDictionary()
        self._previous_factory: Any = None
        self._factory: Callable[..., asyncio.Future[Any]] | None = None

    def install(self) -> None:
        """Remember the tasks that the running loop creates from now on. A task factory of the program is kept."""
        if self._factory is not None:
            return
        loop = asyncio.get_running_loop()
        inner = self._previous_factory = loop.get_task_factory()

        def make(
            loop: asyncio.AbstractEventLoop,
            coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
            **kwargs: Any,
        ) -> asyncio.Future[Any]:
            # asyncio.Task takes the arguments that `create_task` of this Python version passes.
            task: asyncio.Future[Any] = (inner or _default_task_factory)(loop, coro, **kwargs)
            # Not through a Clock: asyncio also creates tasks while the loop does not run, at its end for example.
            self._created[task] = loop.time()
            return task

        self._factory = make
        loop.set_task_factory(make)

    def uninstall(self) -> None:
        """Restore the task factory, unless the program has set another one. Idempotent."""
        loop = asyncio.get_running_loop()
        if self._factory is not None and loop.get_task_factory() is self._factory:
            loop.set_task_factory(self._previous_factory)
        self._factory = None

    def states(self) -> list[TaskState]:
        """Return all tasks of the running loop that are not done, the oldest first."""
        now = asyncio.get_running_loop().time()
        states = []
        for task in asyncio.all_tasks():
            created = self._created.get(task)
            state = TaskState(
                name=task.get_name(),
                age=None if created is None else now - created,
                stack=tuple(await_stack(task.get_coro())),
                waits_for=waits_for(task),
            )
            states.append(state)
        return sorted(states, key=lambda state: (state.age is not None, -(state.age or 0.0), state.name))

    def __repr__(self) -> str:
        return f"<TaskAges of {len(self._created)} tasks>"


def _default_task_factory(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Future[Any]:
    return asyncio.Task(coro, loop=loop, **kwargs)


def author_frame(frames: Sequence[str]) -> str:
    """Return the innermost frame of code that is neither of opsdk, of Python nor of an installed package.

    Without such a frame, return the innermost one; empty for no frames.

    >>> author_frame(["/app/site.py:31 reconcile", f"{_OPSDK}client/client.py:10 Client.get"])
    '/app/site.py:31 reconcile'
    """
    of_author = (frame for frame in reversed(frames) if is_of_author(frame))
    return next(of_author, frames[-1] if frames else "")


def author_frame_of(error: BaseException) -> str:
    """Return `author_frame` of the traceback of an error."""
    return author_frame([_frame_text(frame, line) for frame, line in walk_tb(error.__traceback__)])


def _frame_text(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename}:{line} {frame.f_code.co_qualname}"


def waits_for(task: asyncio.Task[Any]) -> str:
    """Return the name of the task, or the type of the future, that a task waits for; empty while it can run."""
    # Not its repr: that of a future shows its result.
    future = getattr(task, "_fut_waiter", None)
    if future is None:
        return ""
    return str(future.get_name()) if isinstance(future, asyncio.Task) else type(future).__name__


def is_of_author(path: str) -> bool:
    """Whether a file, or a frame that begins with it, is neither of opsdk, of Python nor of an installed package."""
    return not path.startswith(_LIBRARIES) and not any(folder in path for folder in _PACKAGES)


def await_frames(awaitable: object) -> Iterator[FrameType]:
    """Yield the frames of a chain of awaiting coroutines, the outermost first."""
    for _ in range(_MAX_DEPTH):
        for frame_name, next_name in _FRAME_ATTRIBUTES:
            frame = getattr(awaitable, frame_name, None)
            if frame is not None:
                yield frame
                awaitable = getattr(awaitable, next_name, None)
                break
        else:
            return


def await_stack(awaitable: object) -> list[str]:
    """Return file, line and function of each frame in a chain of awaiting coroutines, the outermost first.

    >>> async def outer():
    ...     await asyncio.sleep(1)
    >>> async def main():
    ...     task = asyncio.create_task(outer())
    ...     await asyncio.sleep(0)
    ...     return await_stack(task.get_coro())
    >>> [frame.rpartition(" ")[2] for frame in asyncio.run(main())]
    ['outer', 'sleep']
    """
    return [_frame_text(frame, frame.f_lineno) for frame in await_frames(awaitable)]
