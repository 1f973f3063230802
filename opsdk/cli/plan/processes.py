"""Programs that ``opsdk plan --against`` runs: without a shell, with a time limit, and killed with their children."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from opsdk.errors import OpsdkError

__all__ = ["FinishedProgram", "OtherVersionError", "run_program", "stopped_by_sigterm"]

_MAX_LINES: Final = 20
"""The last lines of standard error that a message has."""


class OtherVersionError(OpsdkError):
    """The other version of ``--against`` cannot be planned. The message says why, and what to do."""


class FinishedProgram:
    """A program that ended.

    Args:
        status: its exit status; negative if a signal ended it.
        output: its standard output.
        errors: its standard error.
    """

    def __init__(self, status: int, output: str, errors: str) -> None:
        self.status, self.output, self.errors = status, output, errors

    @property
    def reason(self) -> str:
        """The exit status and the last lines of standard error, to end a message with."""
        lines = self.errors.strip().splitlines()[-_MAX_LINES:]
        ended = f"signal {-self.status}" if self.status < 0 else f"status {self.status}"
        return f"it ended with {ended}" + "".join(f"\n  {line}" for line in lines)


def run_program(
    command: Sequence[str | Path],
    *,
    folder: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> FinishedProgram:
    """Run a program until it ends. If it does not, or this process is interrupted, it is killed with its children.

    Args:
        command: the program and its arguments.
        folder: in which it runs.
        timeout: seconds.
        environment: its variables; None for those of this process.

    Raises:
        OtherVersionError: it cannot be started, or does not end in time.
    """
    program = Path(command[0])
    try:
        # In a session of its own, so that its children are killed with it, and only this process handles Ctrl-C.
        process = subprocess.Popen(  # noqa: S603 - no shell
            [str(word) for word in command],
            cwd=folder,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise OtherVersionError(f"{program} cannot be started: {error.strerror}") from error
    with process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            message = f"{program.name} did not end within {timeout:g} s: pass more with --against-timeout"
            raise OtherVersionError(message) from error
        finally:
            if process.poll() is None:
                _kill(process)
    return FinishedProgram(process.returncode, output, errors)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a program with its children, and wait until it is gone: it may write into a temporary folder."""
    if os.name == "posix":
        # The group has the number of its first process, which still runs.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """In the block, SIGTERM ends the process as Ctrl-C does: programs are killed, temporary folders go away.

    As Ctrl-C, it raises where the process is: nothing else ends an operator that computes without an await, or a wait
    for another program. Code whose awaits are its own cancels its task instead, as ``opsdk verify -- COMMAND`` does.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can set handlers.
        yield
        return
    former = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _exit(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
