"""``opsdk top`` as a command, and the console on a real operator process."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import socket
import struct
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from http_servers import Server, always, answer
from textual.widgets import DataTable, Static

from opsdk import Cluster, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.cli.__main__ import main
from opsdk.cli.target import TargetCluster
from opsdk.cli.top.actions import Actions
from opsdk.cli.top.app import TopApp
from opsdk.cli.top.client import DebugClient
from opsdk.cli.top.monitor import Monitor
from opsdk.cli.top.targets import client_of, config_of

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
pytestmark = pytest.mark.realtime
OPERATOR = """
import asyncio

from opsdk import ControllerOptions, Operator, OperatorOptions, Request
from opsdk.api.core.v1 import ConfigMap

options = OperatorOptions(controller=ControllerOptions(max_concurrent_reconciles=4), pause_config_map="shop-pauses")
operator = Operator("shop", options)


@operator.reconciler(ConfigMap)
async def reconcile(request: Request) -> None:
    if request.name == "hangs":
        await asyncio.Event().wait()
    if request.name == "fails":
        raise ValueError("no luck \\x1b[31m")


if __name__ == "__main__":
    operator.main()
"""


async def top(*arguments: str) -> int:
    """Run the command in a thread: it has a loop of its own."""
    return await asyncio.to_thread(main, ["top", *arguments])


async def test_a_wrong_command_line_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Options that exclude each other, a wrong address and a missing terminal end with a sentence and status 1."""
    for arguments, text in (
        (["--pod", "a/b", "--deployment", "a/b"], "mutually exclusive"),
        (["--once", "--dump", str(tmp_path / "x")], "mutually exclusive"),
        (["--output", "json"], "--once"),
        (["--url", "ftp://x"], "http://host:port"),
        (["--pod", "a", "--once"], "NAMESPACE/NAME"),
        (["--url", "http://127.0.0.1:1", "--once"], "cannot be reached"),
        (["--url", "http://127.0.0.1:1"], "needs a terminal"),
    ):
        assert await top(*arguments) == 1
        assert text in capsys.readouterr().err


async def test_an_operator_without_problems_has_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    """``--once`` prints no problems, and ends with 0; as JSON it is one document."""
    async with Server(always(answer(200, b'{"pages": {"/debug/none": ""}}'))) as server:
        assert await top("--url", server.host, "--once") == 0
        assert "no page process" in capsys.readouterr().out
        assert await top("--url", server.host, "--once", "--output", "json") == 0
        document = json.loads(capsys.readouterr().out)
        assert [problem["level"] for problem in document["problems"]] == ["info"]


# ------------------------------------------------------------------ a real operator
class Process:
    """An operator in another process, on a served environment."""

    def __init__(self, env: Any, folder: Path, kubeconfig: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env, self.kubeconfig = env, kubeconfig
        self._file = folder / "shop.py"
        self._file.write_text(OPERATOR, encoding="utf-8")
        self._log = folder / "log"
        self._running: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it reconciles."""
        variables = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PYTHONPATH": os.pathsep.join(sys.path)}
        with self._log.open("ab") as log:
            self._running = await asyncio.create_subprocess_exec(
                sys.executable, str(self._file), "--debug-bind-address", f"127.0.0.1:{self.port}",
                env=variables, stdout=log, stderr=log,
            )  # fmt: skip
        await self.wait(lambda pages: any(row["name"] == "fails" and row["attempts"] > 4 for row in pages["retries"]))

    async def wait(self, condition: Any) -> None:
        """Wait until the pages fulfil a condition."""
        async with client_of(self.url) as client, asyncio.timeout(60):
            while True:
                try:
                    if condition(await client.pages()):
                        return
                except Exception:  # noqa: BLE001 - it has not started yet
                    assert self._running is not None
                    assert self._running.returncode is None, self._log.read_text()
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """End it at once."""
        if self._running is not None and self._running.returncode is None:
            self._running.kill()
            await self._running.wait()


@asynccontextmanager
async def operator_process(folder: Path) -> AsyncIterator[Process]:
    """An operator process with one ConfigMap that hangs and one that fails."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        web = await env.serve()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(env.kubeconfig(web), encoding="utf-8")
        for name in ("hangs", "fails"):
            await outside.uncached.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
        process = Process(env, folder, kubeconfig)
        try:
            await process.start()
            yield process
        finally:
            await process.kill()


@pytest.mark.slow
async def test_scripts_read_a_real_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--once`` names what hangs and where, and what fails and how often, with status 3; ``--dump`` has all pages."""
    async with operator_process(tmp_path) as process:
        assert await top("--url", process.url, "--once") == 3
        text = capsys.readouterr().out
        assert "configmap default/fails failed " in text
        assert "no luck" in text
        assert "\x1b" not in text
        assert "shop.py:14 reconcile" in text
        assert await top("--url", process.url, "--once", "--output", "json") == 3
        document = json.loads(capsys.readouterr().out)
        (running,) = document["running"]
        assert (running["name"], running["waits_for"]) == ("hangs", "Future")
        assert document["process"]["operator"] == "shop"
        assert document["pause_config_map"] == "default/shop-pauses"
        dump = tmp_path / "dump.json"
        assert await top("--url", process.url, "--dump", str(dump)) == 0
        assert {"tasks", "memory", "reconciles"} <= json.loads(dump.read_text())["pages"].keys()


@pytest.mark.slow
async def test_the_console_acts_on_a_real_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reconcile now, pause and resume of an object and a controller, a killed operator and its next process."""
    async with operator_process(tmp_path) as process:
        monkeypatch.setenv("KUBECONFIG", str(process.kubeconfig))
        client: DebugClient = client_of(process.url)
        monitor = Monitor(client)
        app = TopApp(monitor, Actions(client, config_of(TargetCluster())), interval=0)
        async with client, app.run_test(size=(80, 24)) as pilot, Cluster(process.env.config) as outside:
            await app.refresh_state()
            table: DataTable[Any] = app.query_one(DataTable)

            async def press(*keys: str) -> str:
                """Press keys, and return what the console says."""
                await pilot.press(*keys)
                await pilot.pause()
                await app.workers.wait_for_complete()
                await pilot.pause()
                return [note.message for note in app._notifications][-1]

            await pilot.press("4")
            assert str(table.get_row_at(0)[1]).strip() == "default/fails"
            assert await press("r") == "configmap default/fails: queued"
            assert await press("p", "y") == "ConfigMap default/fails: paused"
            paused = await outside.uncached.get(ConfigMap, "default/fails")
            assert paused.metadata.annotations["opsdk.dev/paused"] == "true"
            assert await press("u", "y") == "ConfigMap default/fails: resumed"
            assert await press("1", "p", "y") == "controller configmap: paused"
            await process.wait(lambda pages: pages["controllers"][0]["paused"] == "paused: paused from opsdk top")
            assert await press("u", "y") == "controller configmap: resumed"
            await process.kill()
            await app.refresh_state()
            assert "no connection for" in str(app.query_one("#head", Static).render())
            await process.start()
            await app.refresh_state()
            assert "no connection" not in str(app.query_one("#head", Static).render())
            assert any("the operator has restarted" in problem.text for problem in monitor.problems)


@pytest.mark.slow
async def test_the_command_runs_in_a_terminal(tmp_path: Path) -> None:
    """In a terminal of 80 x 24 the console shows the problems; ``q`` ends it with status 0."""
    async with operator_process(tmp_path) as process:
        main_end, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        variables = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)}
        console = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "opsdk.cli", "top", "--url", process.url, "--interval", "0.2",
            stdin=terminal, stdout=terminal, stderr=terminal, env=variables, start_new_session=True,
        )  # fmt: skip
        os.close(terminal)
        output = ""
        async with asyncio.timeout(60):
            while "default/fails failed" not in output:
                output += (await asyncio.to_thread(os.read, main_end, 65536)).decode(errors="replace")
            os.write(main_end, b"q")
            reading = asyncio.create_task(asyncio.to_thread(read_all, main_end))
            assert await console.wait() == 0
            await reading
        assert "no luck \x1b[31m" not in output


def read_all(descriptor: int) -> None:
    """Read a terminal until its process has ended."""
    try:
        while os.read(descriptor, 65536):
            pass
    except OSError:
        os.close(descriptor)
