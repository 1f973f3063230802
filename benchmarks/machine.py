"""Describes the machine and the versions that a run measured."""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.process import PEERS_PYTHON, ROOT

_PEERS = ("kubernetes_asyncio", "lightkube", "kopf", "kr8s", "kubesdk", "aiohttp")
_VERSIONS = "import importlib.metadata as m; print(*(f'{p} {m.version(p)}' for p in %r), sep=', ')"


def describe(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the lines of the page's table of the machine."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": str(os.cpu_count()),
        "CPU": _cpu_model(),
        "speed": f"{_loop_time():.0f} ns for a turn of an empty Python loop",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "opsdk": _commit(),
        "peers": _peers(),
        "server": "the cluster of a kubeconfig" if arguments.kubeconfig else "`envtest serve`, TLS, in memory",
        "workloads": ", ".join(arguments.only) or "all",
        "size": f"{arguments.rounds} rounds, scale {arguments.scale:g}",
        "load": f"{os.getloadavg()[2]:.1f} runnable processes over the last 15 minutes",
    }


def _loop_time() -> float:
    """Return nanoseconds for a turn of a simple loop, the best of five: the same machine differs by the hour."""
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(200_000):
            pass
        best = min(best, time.perf_counter() - start)
    return best / 200_000 * 1e9


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "not in a git checkout"


def _peers() -> str:
    if not PEERS_PYTHON.exists():
        return "not installed"
    command = [str(PEERS_PYTHON), "-c", _VERSIONS % (_PEERS,)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
