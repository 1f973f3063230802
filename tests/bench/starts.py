"""How fast the local API server is there, how small it is, and what it leaves behind: nothing.

Checks, and fails loudly if it does not hold: a hundred environments leave no socket, task, thread or file.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from envtest import Environment
from tests.bench.load import resident, server

ENVIRONMENTS = 100


def open_files() -> int:
    """Descriptors of this process: sockets, pipes, files."""
    return len(list(Path("/proc/self/fd").iterdir()))


def left_behind() -> set[str]:
    """Names in the directory for temporary files."""
    return {path.name for path in Path(tempfile.gettempdir()).iterdir()}


async def in_process(*, sockets: bool) -> list[float]:
    """Seconds until each of many environments was ready; the first is cold."""
    taken = []
    files, tasks, threads, names = open_files(), len(asyncio.all_tasks()), threading.active_count(), left_behind()
    for number in range(ENVIRONMENTS):
        began = time.perf_counter()
        async with Environment() as env:
            if sockets:
                await env.serve()
            taken.append(time.perf_counter() - began)
        if number == 0:
            files, threads = open_files(), threading.active_count()  # what the libraries keep once and for all
    await asyncio.sleep(0)
    assert open_files() == files, "a socket or file was left open"
    assert len(asyncio.all_tasks()) == tasks, "a task was left behind"
    assert threading.active_count() == threads, "a thread was left behind"
    assert not {name for name in left_behind() - names if "envtest" in name}, "a file was left behind"
    return taken


async def from_exec(runs: int) -> tuple[list[float], float]:
    """Seconds from the start of the process to "ready", and the idle server's memory in MB."""
    taken, memory = [], 0.0
    for _ in range(runs):
        began = time.perf_counter()
        async with server() as (_, pid):
            taken.append(time.perf_counter() - began)
            await asyncio.sleep(1)
            memory = resident(pid)
    return taken, memory


async def run() -> None:
    """Everything."""
    print("starts (Go's envtest: about 5 to 15 s for each environment)")
    for words, sockets in (("in process", False), ("in process, with sockets and TLS", True)):
        taken = await in_process(sockets=sockets)
        first, warm = taken[0] * 1e3, statistics.median(taken[1:]) * 1e3
        print(
            f"  {words}: the first ready in {first:.0f} ms, then in {warm:.1f} ms; {ENVIRONMENTS} left nothing behind"
        )
    taken, memory = await from_exec(5)
    print(f"  `envtest serve`, from exec to ready: {statistics.median(taken) * 1e3:.0f} ms; idle {memory:.0f} MB")


if __name__ == "__main__":
    sys.exit(asyncio.run(run()))
