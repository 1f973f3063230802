"""The conversation between the orchestrator and one measured process; standard library only.

``python -m benchmarks.clients.NAME WORKLOAD OPTIONS`` gets the options as one JSON object. It prints one line of JSON
for each `Message`: ``{"ready": ...}`` when the orchestrator may begin to change objects, and at the end
``{"result": ...}``, ``{"skipped": reason}`` or ``{"failed": error}``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

Options = dict[str, Any]
"""What the orchestrator passes: kubeconfig, namespace, count, workers and others, by workload."""


class SkippedError(Exception):
    """This client cannot run the workload; the message is the reason that the table shows."""


@dataclass(slots=True, kw_only=True)
class Sample:
    """What one process measured.

    Attributes:
        wall: seconds.
        cpu: user and system seconds of all threads of this process.
        count: operations, by which `wall` and `cpu` are divided.
        rss: resident memory at the end, in KiB.
        rss_before: resident memory before the work, in KiB.
        peak: the largest resident memory, in KiB.
        values: more figures of the workload by name.
        latencies: lists of seconds by name.
    """

    wall: float
    cpu: float
    count: int
    rss: int = 0
    rss_before: int = 0
    peak: int = 0
    values: dict[str, float] = field(default_factory=dict)
    latencies: dict[str, list[float]] = field(default_factory=dict)


def memory(field_name: str = "VmRSS") -> int:
    """Return a figure of ``/proc/self/status`` in KiB: ``VmRSS`` or ``VmHWM``; 0 where the file is missing."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    match = re.search(rf"{field_name}:\s+(\d+) kB", status.read_text())
    return int(match.group(1)) if match else 0


class Meter:
    """Measures wall time, CPU and memory between its creation and `stop`."""

    def __init__(self) -> None:
        gc.collect()
        self._rss = memory()
        self._cpu = time.process_time()
        self._wall = time.perf_counter()

    def stop(self, count: int) -> Sample:
        """Return what `count` operations took since the creation."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        gc.collect()
        return Sample(wall=wall, cpu=cpu, count=count, rss=memory(), rss_before=self._rss, peak=memory("VmHWM"))


class Heartbeat:
    """Measures the longest time between two turns of the running loop, and the longest pause of the collector.

    A context manager. Off unless the option ``heartbeat`` is set: a timer every millisecond costs CPU.
    """

    def __init__(self, *, enabled: bool = False) -> None:
        self.longest = self.longest_cpu = self.collector = 0.0
        self._enabled = enabled
        self._last = self._last_cpu = self._collecting = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin; the loop must run."""
        if self._enabled:
            gc.callbacks.append(self._collect)
            self._last, self._last_cpu = time.perf_counter(), time.thread_time()
            self._beat()

    def stop(self) -> None:
        """End; idempotent."""
        if self._enabled and self._collect in gc.callbacks:
            self._note()
            gc.callbacks.remove(self._collect)
        if self._timer is not None:
            self._timer.cancel()

    def figures(self) -> dict[str, float]:
        """Return seconds for `Sample.values`: the stall, the CPU time in it, and the collector's pause."""
        if not self._enabled:
            return {}
        return {"stall": self.longest, "stall_cpu": self.longest_cpu, "gc_pause": self.collector}

    def _beat(self) -> None:
        self._note()
        self._timer = asyncio.get_running_loop().call_later(0.001, self._beat)

    def _note(self) -> None:
        now, cpu = time.perf_counter(), time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self.longest_cpu = max(self.longest_cpu, cpu - self._last_cpu)
        self._last, self._last_cpu = now, cpu

    def _collect(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            self.collector = max(self.collector, time.perf_counter() - self._collecting)


def send(**message: object) -> None:
    """Print one line for the orchestrator."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def send_sample(sample: Sample, options: Options) -> None:
    """Print the result. A client whose own loop ends the process calls this; others return the sample.

    With the option ``started``, the monotonic time at which the process was started, the seconds since then are added.
    """
    if "started" in options:
        sample.values.setdefault("since_start", time.monotonic() - options["started"])
    send(result=asdict(sample))


def run_client(workloads: Mapping[str, Callable[[Options], Awaitable[Sample] | Sample | None]]) -> None:
    """Run the workload that the command line names, and print its result.

    A workload is an async or a plain function. One that returns None has called `send_sample` itself.
    """
    name, options = sys.argv[1], json.loads(sys.argv[2])
    if name not in workloads:
        send(skipped="not offered by this client")
        return
    try:
        sample = workloads[name](options)
        if sample is not None and not isinstance(sample, Sample):
            sample = asyncio.run(_await(sample))
    except SkippedError as error:
        send(skipped=str(error))
    except BaseException as error:  # noqa: BLE001 - every failure becomes a row of the table
        traceback.print_exc()
        send(failed=f"{type(error).__name__}: {error}"[:300])
    else:
        if sample is not None:
            send_sample(sample, options)


async def _await(sample: Awaitable[Sample]) -> Sample:
    return await sample
