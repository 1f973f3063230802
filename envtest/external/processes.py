"""Child processes: start, wait until healthy, stop with all descendants."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opsdk.errors import ConfigError

_POLL = 0.1
"""Seconds between two health checks."""
_SHOWN = 2000
"""Characters of the output that an error shows."""
_PR_SET_PDEATHSIG = 1
_alive: set[Process] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """Options of a child process.

    Attributes:
        start_timeout: seconds until the process must be healthy.
        stop_timeout: seconds between SIGTERM and SIGKILL.
        attach_output: inherit this process's output; else the output is kept for error messages.
    """

    start_timeout: float = 20.0
    stop_timeout: float = 20.0
    attach_output: bool = False


class Process:
    """One child process; `healthy` returns whether it serves. On Linux it is killed when this process ends."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        healthy: Callable[[], Awaitable[bool]],
        options: ProcessOptions,
    ) -> None:
        self.command = list(command)
        self.name = Path(command[0]).name
        self._log = directory / f"{self.name}.log"
        self._healthy = healthy
        self._options = options
        self._child: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Process {self.name} {self.pid or 'not running'}>"

    @property
    def pid(self) -> int:
        """The process id; 0 when it is not running."""
        return self._child.pid if self._child is not None and self._child.poll() is None else 0

    async def start(self) -> None:
        """Run the process; return when it is healthy.

        Raises:
            ConfigError: the process did not start, ended early, or was not healthy in time. It is stopped then.
        """
        self._spawn()
        try:
            await self._wait_healthy()
        except BaseException:
            await self.stop()
            raise

    def _spawn(self) -> None:
        """Start the process, which ends with this one. Raises `ConfigError`."""
        output = None if self._options.attach_output else self._log.open("wb")
        try:
            self._child = subprocess.Popen(  # noqa: S603 - the user's own binaries
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output is not None else None,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - one libc call
            )
        except OSError as error:
            raise ConfigError(f"{self.command[0]} cannot be run: {error}") from error
        finally:
            if output is not None:
                output.close()
        if not _alive:
            atexit.register(_kill_all)
        _alive.add(self)

    async def _wait_healthy(self) -> None:
        child, end = self._child, time.monotonic() + self._options.start_timeout
        assert child is not None
        while True:
            if child.poll() is not None:
                raise ConfigError(f"{self.name} ended with {child.returncode} before it served: {self.last_words()}")
            if await self._healthy():
                return
            if time.monotonic() >= end:
                seconds = self._options.start_timeout
                raise ConfigError(f"{self.name} was not healthy within {seconds:g} s: {self.last_words()}")
            await asyncio.sleep(_POLL)

    def last_words(self) -> str:
        """Return the last lines of the output."""
        try:
            return self._log.read_bytes()[-_SHOWN:].decode(errors="replace").strip() or "no output"
        except OSError:
            return "its output was not kept"

    async def stop(self) -> None:
        """Send SIGTERM, then SIGKILL to the process group; idempotent. Cancellation sends SIGKILL immediately."""
        child = self._child
        if child is None:
            return
        try:
            if child.poll() is None:
                _signal(child.pid, signal.SIGTERM)
                end = time.monotonic() + self._options.stop_timeout
                while child.poll() is None and time.monotonic() < end:  # noqa: ASYNC110 - the end causes no event
                    await asyncio.sleep(_POLL / 5)
        finally:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL; idempotent."""
        child, self._child = self._child, None
        _alive.discard(self)
        if child is not None:
            _signal(child.pid, signal.SIGKILL)
            child.wait()


def _signal(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group, which includes children of the child."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return  # the whole group has ended


def _kill_all() -> None:
    for process in tuple(_alive):
        process.kill()


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Run in the child: have the kernel send SIGKILL when the parent ends, even by SIGKILL."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
