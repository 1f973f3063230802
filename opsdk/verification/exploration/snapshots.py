"""Processes as snapshots of a run: at each point, a copy for each option waits until its turn comes.

A run first goes to its end, so that the states on its way are known before others reach them. Then its copies continue,
one after the other, each with copies of its own. Other branches run beside them while there are free slots.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Sequence
from typing import Final, NoReturn, TypeVar

__all__ = ["ProcessSlots", "Snapshots"]

T = TypeVar("T")
_PARENT_CHECK_SECONDS: Final = 1.0
_WITH_SLOT, _WITHOUT_SLOT = b"+", b"-"


class ProcessSlots:
    """The number of processes that run at the same time, as bytes in a pipe.

    Args:
        count: of processes, with the first one.
    """

    def __init__(self, count: int) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.write(self._write, b"." * (count - 1))

    def take(self) -> bool:
        """Take a slot if one is free."""
        try:
            return bool(os.read(self._read, 1))
        except BlockingIOError:
            return False

    def give_back(self) -> None:
        """Give a slot back."""
        os.write(self._write, b".")

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._read)
        os.close(self._write)


class Snapshots:
    """The copies of the process of one run."""

    def __init__(self, slots: ProcessSlots) -> None:
        self._slots = slots
        self._waiting: list[tuple[int, int]] = []
        self._has_slot = False

    def take(self, options: Sequence[T]) -> T | None:
        """Keep a copy of this process for each option, and return None.

        Each copy returns its option when its turn has come.
        """
        for option in options:
            read, write = os.pipe()
            if pid := _copy_process():
                os.close(read)
                self._waiting.append((pid, write))
                continue
            for other in (write, *(other for _, other in self._waiting)):
                os.close(other)
            self._waiting = []
            self._has_slot = _wait_turn(read)
            return option
        return None

    def end(self) -> NoReturn:
        """Continue all copies, wait for them, and end this process."""
        beside: list[int] = []
        for pid, write in self._waiting:
            has_slot = self._slots.take()
            os.write(write, _WITH_SLOT if has_slot else _WITHOUT_SLOT)
            os.close(write)
            if has_slot:
                beside.append(pid)
            else:
                os.waitpid(pid, 0)
        for pid in beside:
            os.waitpid(pid, 0)
        if self._has_slot:
            self._slots.give_back()
        os._exit(0)


def _copy_process() -> int:
    """Fork. The event loop goes on in the copy, although asyncio forgets in a child that it runs."""
    loop = asyncio.get_running_loop()
    pid = os.fork()
    if not pid:
        asyncio._set_running_loop(loop)
    return pid


def _wait_turn(read: int) -> bool:
    """Return whether this process has a slot of its own, when its turn has come.

    Ends the process if that of its run is gone.
    """
    parent = os.getppid()
    while not select.select([read], [], [], _PARENT_CHECK_SECONDS)[0]:
        if os.getppid() != parent:
            os._exit(1)
    turn = os.read(read, 1)
    os.close(read)
    if not turn:
        os._exit(1)
    return turn == _WITH_SLOT
