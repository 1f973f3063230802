"""The words and variables of a command, and real processes that end with their children."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from opsdk.verification.foreign import child
from opsdk.verification.foreign.child import CommandOperator, environment_of, open_command, words_of
from opsdk.verification.foreign.errors import ForeignOperatorError

PARENT = """\
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.environ["KUBECONFIG"], child.pid, "started", flush=True)
child.wait()
"""


def is_running(pid: str) -> bool:
    """Whether a process runs, and is not waiting for its parent to read its status."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().split()[2] != "Z"


def test_placeholders_are_replaced() -> None:
    """The kubeconfig as often as it occurs, and a free port of its own for each port."""
    program, config, ports = words_of(["m", "--c={kubeconfig}", ":{port},:{port}"], Path("/k"))
    assert (program, config) == ("m", "--c=/k")
    first, second = (int(port.removeprefix(":")) for port in ports.split(","))
    assert first != second


def test_the_operator_finds_no_other_cluster() -> None:
    """The variables of a pod go, a kubeconfig of the user is replaced, and no proxy stands before the server."""
    variables = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": "/mine", "NO_PROXY": "a.test", "HOME": "/h"}
    assert environment_of(variables, Path("/k")) == {
        "HOME": "/h",
        "KUBECONFIG": "/k",
        "NO_PROXY": "a.test,127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


def test_a_program_that_does_not_exist_is_an_error() -> None:
    """Before anything starts."""
    with pytest.raises(ForeignOperatorError, match="no-such-manager is not a program"):
        open_command(["no-such-manager"])


@pytest.mark.slow
@pytest.mark.realtime
async def test_a_process_is_killed_with_its_children(tmp_path: Path) -> None:
    """They are one process group; the last lines of the output stay."""
    operator = CommandOperator([sys.executable, "-c", PARENT], kubeconfig=tmp_path / "k", log=tmp_path / "log")
    process = await operator.start()
    words: list[str] = []
    while words[-1:] != ["started"]:
        await asyncio.sleep(0.01)
        words = " ".join(operator.log_lines()).split()
    kubeconfig, pid, _ = words
    assert kubeconfig == str(tmp_path / "k")
    process.kill()
    assert await process.wait() == -9
    await operator.aclose()
    while is_running(pid):
        await asyncio.sleep(0.01)  # it was killed at the same time, and ends as soon as it is scheduled


DAEMON = """\
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), "started", flush=True)
    time.sleep(600)
"""
TALKATIVE = "print('x' * 1_000_000); print('the end', flush=True); import time; time.sleep(600)"


async def until_printed(operator: CommandOperator, end: str) -> list[str]:
    """Wait until the output ends with a word, and return its words."""
    words: list[str] = []
    while words[-1:] != [end]:
        await asyncio.sleep(0.01)
        words = " ".join(operator.log_lines()).split()
    return words


@pytest.mark.realtime
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of processes")
async def test_a_daemon_is_killed_too(tmp_path: Path) -> None:
    """It has left the process group, and ignores SIGTERM."""
    operator = CommandOperator([sys.executable, "-c", DAEMON], kubeconfig=tmp_path / "k", log=tmp_path / "log")
    process = await operator.start()
    pid, _ = await until_printed(operator, "started")
    assert await process.wait() == 0
    assert operator.is_in_background()
    process.kill()
    await operator.aclose()
    while is_running(pid):
        await asyncio.sleep(0.01)
    assert not operator.is_in_background()


@pytest.mark.realtime
async def test_a_long_output_takes_little_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file begins anew, and the last lines stay."""
    monkeypatch.setattr(child, "_MAX_LOG", 100_000)
    log = tmp_path / "log"
    operator = CommandOperator([sys.executable, "-c", TALKATIVE], kubeconfig=tmp_path / "k", log=log)
    await operator.start()
    await until_printed(operator, "end")
    while log.stat().st_size:
        await asyncio.sleep(0.01)
    assert operator.log_lines()[-1] == "the end"
    await operator.aclose()
