"""Operators as real processes, with reconcilers that do what no reconciler should."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_HEAD = """
import asyncio, sys, time
from opsdk import ControllerOptions, ManagerOptions, Operator, OperatorOptions, Request
from opsdk.api.core.v1 import ConfigMap
options = OperatorOptions(
    manager=ManagerOptions(shutdown_timeout=2),
    controller=ControllerOptions(shutdown_timeout=1),
    leader_election=True, leader_election_namespace="default",
    lease_duration=3, renew_deadline=2, retry_period=0.3, watchdog_limit=0.3,
)
operator = Operator("rude", options)
done = []
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A server process with some ConfigMaps, and the way to it."""
    path = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "envtest", "serve", "--port", "0", "--kubeconfig", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("ready")
        yield path
        server.kill()


def run(kubeconfig: Path, script: str, *, until: str = "") -> tuple[int, str, float]:
    """Start an operator, and send SIGTERM when it has logged `until`; without `until` it ends by itself.

    Returns status, log and seconds until its end.
    """
    log = kubeconfig.parent / "operator.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _HEAD + script],
            stdout=output,
            stderr=output,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        )
    deadline = time.monotonic() + 40
    try:
        while (not until or until not in log.read_text()) and process.poll() is None:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        began = time.monotonic()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=40)
        return status, log.read_text(), time.monotonic() - began
    finally:
        process.kill()


def test_a_reconcile_that_swallows_its_cancellation(kubeconfig: Path) -> None:
    """The process ends with status 1 soon after the shutdown timeout, and names the controller."""
    script = """
@operator.reconciler(ConfigMap)
async def reconcile(request: Request) -> None:
    print("at work", flush=True)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
operator.run()
"""
    status, log, seconds = run(kubeconfig, script, until="at work")
    assert status == 1, log
    assert "ShutdownTimeoutError" in log
    assert seconds < 15


def test_a_reconcile_in_a_thread_that_hangs(kubeconfig: Path) -> None:
    """The thread is named, with its stack."""
    script = """
def upload():
    print("at work", flush=True)
    time.sleep(3600)
@operator.reconciler(ConfigMap)
async def reconcile(request: Request) -> None:
    await asyncio.to_thread(upload)
operator.run()
"""
    status, log, seconds = run(kubeconfig, script, until="at work")
    assert status in (0, 1), log
    assert "in upload" in log
    assert "does not end" in log
    assert seconds < 15


def test_a_plain_reconciler_that_hangs(kubeconfig: Path) -> None:
    """The log names object, thread and line; the process ends with status 1 although the thread does not end."""
    script = """
def reconcile(config_map: ConfigMap) -> None:
    print("at work", flush=True)
    time.sleep(3600)
operator.reconciler(ConfigMap)(reconcile)
operator.run()
"""
    status, log, seconds = run(kubeconfig, script, until="at work")
    assert status == 1, log
    assert "ShutdownTimeoutError" in log
    assert re.search(r"the thread 'configmap/reconcile [-a-z]+/[-.a-z]+' does not end", log), log
    assert "in reconcile" in log
    assert seconds < 20


def test_idle_threads_do_not_delay_the_exit(kubeconfig: Path) -> None:
    """An operator whose plain reconcilers have ended stops at once, with status 0."""
    script = """
@operator.reconciler(ConfigMap)
def reconcile(config_map: ConfigMap) -> None:
    print("at work", flush=True)
operator.run()
"""
    status, log, seconds = run(kubeconfig, script, until="at work")
    assert status == 0, log
    assert "does not end" not in log
    assert seconds < 10


def test_a_reconcile_that_blocks_the_loop_keeps_the_lease(kubeconfig: Path) -> None:
    """Longer than the lease lasts: the watchdog names the line, the leadership survives, and the stop is clean."""
    script = """
@operator.reconciler(ConfigMap)
async def reconcile(request: Request) -> None:
    if not done:
        done.append(1)
        time.sleep(6)
        await operator.client.get(ConfigMap, request.key, uncached=True)
        print("still leading", operator.manager.is_elected, flush=True)
operator.run()
"""
    status, log, seconds = run(kubeconfig, script, until="still leading")
    assert status == 0, log
    assert "still leading True" in log
    assert "the event loop has been blocked for" in log
    assert "in reconcile" in log
    assert "the event loop was blocked for" in log
    assert "released the lease" in log
    assert seconds < 10


def test_a_loop_that_is_stuck_is_replaced(kubeconfig: Path) -> None:
    """After `leader_election_max_stall` the lease runs out, and the process that wakes up ends by itself."""
    script = """
from dataclasses import replace
operator.options = replace(options, leader_election_max_stall=1.0)
@operator.reconciler(ConfigMap)
async def reconcile(request: Request) -> None:
    time.sleep(6)
operator.run()
"""
    status, log, _ = run(kubeconfig, script)
    assert status == 1, log
    assert "another replica will take over" in log
    assert "LeaderElectionLostError: leader election lost: the event loop was blocked for" in log
