"""Programs end in bounded time, whatever user code does, and say what they left. Every program is a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

# What `Operator.run` does around a manager, without a cluster.
_HEAD = """
import asyncio, atexit, logging, sys, threading, time
from opsdk.manager.manager import Manager, ManagerOptions
from opsdk.manager.phases import Phase
from opsdk.manager.process import ExitGuard, run_program
from opsdk.manager.signals import stop_on_signals
logging.basicConfig(stream=sys.stderr, level=logging.INFO)
atexit.register(lambda: print("exit handler", flush=True))

async def deaf():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

class Part:
    def __init__(self, function):
        self.function = function
    async def start(self):
        await self.function()
    def __repr__(self):
        return f"<Part {self.function.__name__}>"

async def serve(*functions, timeout=1.0):
    manager = Manager(ManagerOptions(shutdown_timeout=timeout))
    for function in functions:
        manager.add(Part(function))
    manager.on_stop(guard.arm)
    with stop_on_signals(manager.stop, on_signal=guard.arm):
        asyncio.get_running_loop().call_later(0.1, print, "ready", -1)
        asyncio.get_running_loop().call_later(0.11, sys.stdout.flush)
        await manager.start()

guard = ExitGuard(6.0)
"""


class Program:
    """A process that runs a script, and what it printed."""

    def __init__(self, script: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HEAD + script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.status = 0
        self.seconds = 0.0
        self.out = self.log = ""

    def stop(self, *, signals: int = 1) -> Program:
        """Wait until it is ready, send SIGTERM, and wait for its end."""
        assert self.process.stdout is not None
        self.process.stdout.readline()
        time.sleep(0.2)
        began = time.monotonic()
        for _ in range(signals):
            os.kill(self.process.pid, signal.SIGTERM)
            time.sleep(0.3)
        return self.end(began)

    def end(self, began: float | None = None) -> Program:
        """Wait for its end."""
        began = time.monotonic() if began is None else began
        try:
            self.out, self.log = self.process.communicate(timeout=40)
        finally:
            self.process.kill()
        self.seconds = time.monotonic() - began
        self.status = self.process.returncode
        return self


@pytest.mark.behaviour(116)
def test_a_program_without_faults() -> None:
    """SIGTERM ends it at once with status 0, and exit handlers run."""
    program = Program("run_program(serve(lambda: asyncio.sleep(3600)))").stop()
    assert (program.status, program.out) == (0, "exit handler\n"), program.log
    assert program.seconds < 2


def test_the_thread_for_large_documents_delays_no_exit() -> None:
    """The idle thread for large documents does not delay the program's exit."""
    program = Program(
        "from opsdk.aio.large_work import LARGE_BYTES, compute\n"
        "async def work():\n"
        "    print('worked', await compute(LARGE_BYTES + 1, threading.get_ident) != threading.get_ident())\n"
        "run_program(work())\n"
    ).end()
    assert (program.status, program.out) == (0, "worked True\nexit handler\n"), program.log
    assert program.log == ""


def test_a_coroutine_that_swallows_its_cancellation() -> None:
    """A coroutine that ignores its cancellation is named, and the process ends with status 1 after the timeout."""
    program = Program("run_program(serve(deaf))").stop()
    assert program.status == 1
    assert "ShutdownTimeoutError: failed waiting for all runnables to end within grace period of 1 s" in program.log
    assert "<Part deaf>" in program.log
    assert "ignores its cancellation and is abandoned in" in program.log
    assert "was destroyed but it is pending" not in program.log
    assert program.seconds < 8


def test_a_leftover_task_is_cancelled() -> None:
    """A leftover task is cancelled at the end; one that ignores that is named, and the exit status is 0."""
    script = """
async def main():
    asyncio.create_task(deaf(), name="stray")
    await serve(lambda: asyncio.sleep(3600))
run_program(main())
"""
    program = Program(script).stop()
    assert program.status == 0, program.log
    assert "the task 'stray' ignores its cancellation" in program.log
    assert program.seconds < 5


def test_a_thread_that_hangs() -> None:
    """The work of ``asyncio.to_thread`` cannot be cancelled: it is named with its stack, and cut off. Status 0."""
    script = """
def blocking_upload():
    time.sleep(3600)
run_program(serve(lambda: asyncio.to_thread(blocking_upload)))
"""
    program = Program(script).stop()
    assert program.status == 0, program.log
    assert "the thread 'asyncio_0' does not end" in program.log
    assert "in blocking_upload" in program.log
    assert program.seconds < 6


def test_a_thread_that_hangs_and_an_error() -> None:
    """Status 1, and the error is logged with its traceback before the process exits."""
    script = """
async def fails():
    threading.Thread(target=time.sleep, args=(3600,), name="mine").start()
    raise ValueError("broken reconciler")
run_program(serve(fails))
"""
    program = Program(script).end()
    assert program.status == 1
    assert "ValueError: broken reconciler" in program.log
    assert "the thread 'mine' does not end" in program.log
    assert program.seconds < 10


def test_an_event_loop_that_is_blocked() -> None:
    """The loop never sees the signal: the guard ends the process, and the log has the stack."""
    script = """
async def spins():
    await asyncio.sleep(0.15)
    while True:
        pass
run_program(serve(spins))
"""
    program = Program(script).stop()
    assert program.status == 1
    assert "still running 6 s after the stop began" in program.log
    assert "in spins" in program.log
    assert 5 < program.seconds < 12


@pytest.mark.behaviour(116)
def test_a_second_signal_while_the_loop_is_blocked() -> None:
    """A second signal ends the process at once, also while the loop is blocked."""
    script = """
async def sleeps():
    await asyncio.sleep(0.15)
    time.sleep(3600)
run_program(serve(sleeps))
"""
    program = Program(script).stop(signals=2)
    assert program.status == 1
    assert "second signal (SIGTERM): exiting immediately" in program.log
    assert program.seconds < 2


def test_a_log_that_is_blocked() -> None:
    """The process ends without its last log lines when a thread holds the lock of the log."""
    script = """
def holds_the_lock():
    logging.getLogger().handlers[0].acquire()
    time.sleep(3600)
async def waits():
    await asyncio.to_thread(holds_the_lock)
run_program(serve(waits))
"""
    program = Program(script).stop()
    assert program.status == 1
    assert program.seconds < 12


def test_an_error_without_leftovers_is_raised() -> None:
    """The caller of `run_program` may handle it."""
    script = """
async def fails():
    raise ValueError("mine")
try:
    run_program(serve(fails))
except ValueError as error:
    print("caught", error)
"""
    program = Program(script).end()
    # On a busy machine the program lives until its line "ready".
    assert (program.status, program.out.removeprefix("ready -1\n")) == (0, "caught mine\nexit handler\n"), program.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_stop(number: signal.Signals) -> None:
    """Both signals stop the manager, and the former handlers are restored."""
    script = f"""
before = signal.getsignal({int(number)})
run_program(serve(lambda: asyncio.sleep(3600)))
print("restored", signal.getsignal({int(number)}) is before)
"""
    program = Program("import signal\n" + script)
    assert program.process.stdout is not None
    program.process.stdout.readline()
    time.sleep(0.2)
    program.process.send_signal(number)
    program.end()
    assert (program.status, program.out) == (0, "restored True\nexit handler\n"), program.log
