"""The operator as a child process: started on the served API server, and killed with its process group."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from opsdk.aio.tasks import TaskOwner
from opsdk.base.shortened import shortened
from opsdk.http.asgi_types import App
from opsdk.testing.webhooks import free_port
from opsdk.verification.foreign.errors import ForeignOperatorError

__all__ = ["CommandOperator", "ForeignOperator", "OpenOperator", "OperatorProcess", "open_command"]

_KUBECONFIG: Final = "{kubeconfig}"
_PORT: Final = "{port}"
_IN_CLUSTER: Final = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
"""Variables by which clients find the cluster around them: the operator must not reach it."""
_SHOWN_BYTES: Final = 20_000
_SHOWN_LINES: Final = 20
_SHOWN_LINE: Final = 200
_MAX_LOG: Final = 16 << 20
"""Bytes of output, after which the file begins anew: a program may print gigabytes."""
_LOG_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 0.02
_PAUSE_TRIES: Final = 25


class OperatorProcess(Protocol):
    """One start of the operator."""

    def kill(self) -> None:
        """End it and its children at once; idempotent."""
        ...

    async def wait(self) -> int:
        """Return its exit status when it has ended; negative if a signal ended it."""
        ...


class ForeignOperator(Protocol):
    """The operator of one run, which is started any number of times."""

    async def start(self) -> OperatorProcess:
        """Start it. Raises `ForeignOperatorError` if that is not possible."""
        ...

    def log_lines(self) -> Sequence[str]:
        """Return the last lines of its output."""
        ...

    def is_in_background(self) -> bool:
        """Whether processes that it started go on, although it has ended."""
        ...


OpenOperator = Callable[[Any, App], AbstractAsyncContextManager[ForeignOperator]]
"""Prepares the operator of a run: takes the environment, and the application that its requests must go to."""


def open_command(command: Sequence[str]) -> OpenOperator:
    """Return a function that prepares a command. ``{kubeconfig}`` and ``{port}`` in its words are replaced.

    Raises:
        ForeignOperatorError: the command does not exist.
    """
    if shutil.which(command[0]) is None:
        raise ForeignOperatorError(f"{command[0]} is not a program: write its path, or install it")

    @asynccontextmanager
    async def opened(environment: Any, app: App) -> AsyncIterator[ForeignOperator]:
        with TemporaryDirectory(prefix="opsdk-verify-") as folder:
            web = await environment.serve(app=app)
            kubeconfig = Path(folder) / "kubeconfig"
            kubeconfig.touch(0o600)
            kubeconfig.write_text(environment.kubeconfig(web))
            operator = CommandOperator(command, kubeconfig=kubeconfig, log=Path(folder) / "log")
            try:
                yield operator
            finally:
                await operator.aclose()

    return opened


class CommandOperator:
    """A command that is started on a kubeconfig.

    Args:
        command: the program and its words.
        kubeconfig: of the served API server.
        log: receives the output.
    """

    def __init__(self, command: Sequence[str], *, kubeconfig: Path, log: Path) -> None:
        self._command, self._kubeconfig, self._log = command, kubeconfig, log
        self._processes: list[_ChildProcess] = []
        self._tasks = TaskOwner("command")
        self._former_output = b""

    async def start(self) -> OperatorProcess:
        words = words_of(self._command, self._kubeconfig)
        with self._log.open("ab") as output:
            try:
                # In a session of its own: it is killed with its children, and only this process handles Ctrl-C.
                child = await asyncio.create_subprocess_exec(
                    *words,
                    env=environment_of(os.environ, self._kubeconfig),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise ForeignOperatorError(f"{words[0]} cannot be started: {error.strerror}") from error
        process = _ChildProcess(child, self._kubeconfig)
        if not self._processes:
            self._tasks.start(self._bound_log(), name="log")
        self._processes.append(process)
        return process

    def log_lines(self) -> Sequence[str]:
        text = (self._former_output + self._last_output())[-_SHOWN_BYTES:].decode(errors="replace")
        return [shortened(line, _SHOWN_LINE) for line in text.splitlines()[-_SHOWN_LINES:]]

    def is_in_background(self) -> bool:
        return bool(_processes_of(self._kubeconfig))

    def _last_output(self) -> bytes:
        try:
            with self._log.open("rb") as file:
                file.seek(max(self._log.stat().st_size - _SHOWN_BYTES, 0))
                return file.read(_SHOWN_BYTES)
        except FileNotFoundError:
            return b""

    async def _bound_log(self) -> None:
        """Let the file begin anew when it is long. Its writers append, so they go on at its end."""
        while True:
            await asyncio.sleep(_LOG_SECONDS)
            if self._log.stat().st_size > _MAX_LOG:
                await self._wait_for_a_pause()
                self._former_output = self._last_output()
                os.truncate(self._log, 0)

    async def _wait_for_a_pause(self) -> None:
        """Wait until the output pauses, at most half a second: what is written between reading and cutting is lost.

        A program that prints much often prints the reason of its end last.
        """
        size = -1
        for _ in range(_PAUSE_TRIES):
            before, size = size, self._log.stat().st_size
            if size == before:
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def aclose(self) -> None:
        """Kill what still runs, and wait for its end."""
        await self._tasks.aclose()
        for process in self._processes:
            process.kill()
        # A start may be cancelled between the start of a process and its entry in the list.
        _kill_all(self._kubeconfig)
        for process in self._processes:
            await process.wait()


class _ChildProcess:
    def __init__(self, child: asyncio.subprocess.Process, kubeconfig: Path) -> None:
        self._child, self._kubeconfig = child, kubeconfig
        self._killed = False

    def kill(self) -> None:
        # Also after it ended: its children may still run, and hold the number of the group.
        if not self._killed:
            self._killed = True
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            # A daemon has a session of its own.
            _kill_all(self._kubeconfig)

    async def wait(self) -> int:
        return await self._child.wait()


def _kill_all(kubeconfig: Path) -> None:
    for pid in _processes_of(kubeconfig):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _processes_of(kubeconfig: Path) -> list[int]:
    """Return the processes that have a kubeconfig in their environment. Only Linux shows them."""
    variable = f"KUBECONFIG={kubeconfig}".encode()
    pids = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = file.read_bytes()
        except OSError:  # it has ended, or is another user's
            continue
        if variable in environment.split(b"\0") and file.parent.name != str(os.getpid()):
            pids.append(int(file.parent.name))
    return pids


def words_of(command: Sequence[str], kubeconfig: Path) -> list[str]:
    """Return a command with the path of the kubeconfig, and with a free port for each ``{port}``."""
    words = []
    for word in command:
        text = word.replace(_KUBECONFIG, str(kubeconfig))
        while _PORT in text:
            text = text.replace(_PORT, str(free_port()), 1)
        words.append(text)
    return words


def environment_of(environment: Mapping[str, str], kubeconfig: Path) -> dict[str, str]:
    """Return the variables of the operator: it finds this kubeconfig, no other cluster, and needs no proxy.

    >>> environment_of({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Path("k"))
    {'KUBECONFIG': 'k', 'NO_PROXY': '127.0.0.1', 'no_proxy': '127.0.0.1'}
    """
    variables = {name: value for name, value in environment.items() if name not in _IN_CLUSTER}
    direct = {
        name: ",".join(filter(None, (environment.get(name, ""), "127.0.0.1"))) for name in ("NO_PROXY", "no_proxy")
    }
    return {**variables, "KUBECONFIG": str(kubeconfig), **direct}
