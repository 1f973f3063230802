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
from typing import Any

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


def send(**message: object) -> None:
    """Print one line for the orchestrator."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def send_sample(sample: Sample) -> None:
    """Print the result. A client whose own loop ends the process calls this; others return the sample."""
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
            send_sample(sample)


async def _await(sample: Awaitable[Sample]) -> Sample:
    return await sample
