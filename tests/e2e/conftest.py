"""The stage for tests with real processes: the API server, operators, kubectl, all as programs of their own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from opsdk.structured_merge.value import JsonObject
from tests.e2e.transcripts import GO_ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 60.0


class Program:
    """A process, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log

    def said(self) -> str:
        """Everything it has written to stderr so far."""
        return self.log.read_text()

    async def kill(self) -> None:
        """SIGKILL: no last words."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> float:
        """SIGTERM; returns the seconds until it ended, and fails if it did not end well."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = await asyncio.wait_for(self.process.wait(), 40)
        assert status == 0, self.said()
        return time.monotonic() - began


class Stage:
    """Starts programs and remembers them, so that none outlives its test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.port = 0
        self._programs: list[Program] = []

    async def start(self, name: str, *arguments: str) -> Program:
        """Start ``python -m ...``."""
        log = self.folder / f"{name}-{len(self._programs)}.log"
        samples = [str(ROOT / "samples" / name) for name in ("website", "bookshelf", "database")]
        path = os.pathsep.join([str(ROOT), *samples])
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *arguments,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                env={**os.environ, "PYTHONPATH": path, "KUBECONFIG": str(self.kubeconfig)},
            )
        program = Program(process, log)
        self._programs.append(program)
        return program

    async def server(self, *more: str) -> Program:
        """Start the API server, on the port it had before if it was started before, and wait until it serves."""
        arguments = ["--port", str(self.port), "--kubeconfig", str(self.kubeconfig), "--controllers", "cluster", *more]
        program = await self.start("server", "envtest", "serve", *arguments)
        assert program.process.stdout is not None
        line = (await asyncio.wait_for(program.process.stdout.readline(), _PATIENCE)).decode()
        assert line.startswith("ready https://127.0.0.1:"), line + program.said()
        self.port = int(line.strip().rpartition(":")[2])
        return program

    async def operator(self, *more: str) -> Program:
        """Start the controllers of the sample operator. Its webhooks need certificates, and a Service."""
        arguments = ("website.operator:make_operator", "--", "--kubeconfig", str(self.kubeconfig), *more)
        return await self.start("operator", "opsdk.cli", "run", *arguments)

    async def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Run kubectl; its output."""
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            f"--kubeconfig={self.kubeconfig}",
            f"--cache-dir={self.folder / 'kube-cache'}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **GO_ENVIRONMENT},
        )
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), _PATIENCE)
        assert not check or process.returncode == 0, f"kubectl {' '.join(arguments)}: {err.decode()}"
        return out.decode() + ("" if check else err.decode())

    async def follow(self, *arguments: str) -> Program:
        """Start kubectl in the background. `said` has its output."""
        log = self.folder / f"kubectl-{len(self._programs)}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments, stdout=output, stderr=output
            )
        program = Program(process, log)
        self._programs.append(program)
        return program

    async def install_kind(self) -> None:
        """Install the definition of Website, as its README says."""
        from opsdk import crd_for
        from website.api import Website

        await self.kubectl("apply", "-f", "-", stdin=json.dumps(crd_for(Website)))
        await self.kubectl("wait", "--for=condition=Established", "crd/websites.demo.opsdk.dev", "--timeout=30s")

    async def close(self) -> None:
        """Kill what still runs."""
        for program in self._programs:
            if program.process.returncode is None:
                await program.kill()


def site(name: str, image: str = "nginx:1", replicas: int = 1) -> JsonObject:
    """A Website to apply."""
    return {
        "apiVersion": "demo.opsdk.dev/v1",
        "kind": "Website",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"image": image, "replicas": replicas},
    }


async def eventually(what: str, look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `look` holds."""
    deadline = time.monotonic() + _PATIENCE
    while not await look():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        await asyncio.sleep(0.1)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """An empty stage; skipped where there is no kubectl."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: these tests drive the server and the operator with it")
    return Stage(tmp_path)


@pytest.fixture
def make_site() -> Callable[..., JsonObject]:
    """`site`, for tests that cannot import from here."""
    return site


@pytest.fixture
def wait_until() -> Callable[[str, Callable[[], Awaitable[bool]]], Awaitable[None]]:
    """`eventually`, for tests that cannot import from here."""
    return eventually
