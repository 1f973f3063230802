"""Runs the commands of the demo as a user types them, and ends all programs that it has started."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from opsdk import OpsdkError

_PATIENCE = 60.0
"""Seconds to wait for what usually takes a few."""
_POLL = 0.1
_STOP = 15.0
"""Seconds that a program has to stop after SIGTERM."""


class IncidentError(OpsdkError):
    """The demo cannot go on."""


class Shell:
    """A folder with commands, whose output is printed; a context manager, which ends the programs at its end.

    Attributes:
        folder: where the commands run.
        environment: their variables.
    """

    def __init__(self, folder: Path) -> None:
        sample = Path(__file__).resolve().parents[2]
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": str(sample),
            "COLUMNS": "120",
        }
        self._programs = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._programs.close()

    def say(self, *lines: str) -> None:
        """Print lines."""
        print(*lines, sep="\n", flush=True)  # noqa: T201 - output of the demo

    def chapter(self, title: str, *lines: str) -> None:
        """Print the title of a part of the demo, and what happens in it."""
        self.say("", f"=== {title}", *lines)

    def export(self, name: str, value: str) -> None:
        """Set a variable for the commands after it."""
        self.say(f"$ export {name}={shlex.quote(value)}")
        self.environment[name] = value

    def run(self, command: str, *, statuses: Iterable[int] = (0,), lines: int = 0) -> str:
        """Run a command to its end, print it and what it prints, and return that.

        Args:
            command: a line of a shell.
            statuses: the exit statuses that are answers.
            lines: number of lines to print; 0 for all. The rest is only counted.

        Raises:
            IncidentError: the command ends with another status.
        """
        self.say(f"$ {command}")
        program = self._spawn(command, subprocess.PIPE)
        output = program.communicate()[0].decode(errors="replace")
        printed = output.splitlines()
        hidden = len(printed) - lines if lines else 0
        if hidden > 0:
            printed = [*printed[:lines], f"... {hidden} more lines"]
        if printed:
            self.say(*printed)
        if program.returncode not in statuses:
            raise IncidentError(f"{command}: status {program.returncode}")
        return output

    def start(self, command: str, log: str) -> subprocess.Popen[bytes]:
        """Start a program, which ends with the demo at the latest.

        Args:
            command: a line of a shell.
            log: the file in the folder for its output.
        """
        self.say(f"$ {command} > {log} 2>&1 &")
        with (self.folder / log).open("wb") as output:
            return self._spawn(command, output)

    def stop(self, program: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM to a program, and wait for its end."""
        self.say(f"$ kill {program.pid}")
        _end(program)

    def wait(self, check: Callable[[], bool], purpose: str) -> None:
        """Wait until a check returns True. Raises `IncidentError` after a minute."""
        deadline = time.monotonic() + _PATIENCE
        while not check():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text(errors="replace")[-2_000:] for path in self.folder.glob("*.log"))
                raise IncidentError(f"{purpose}: not within {_PATIENCE:g} s\n{logs}")
            time.sleep(_POLL)

    def _spawn(self, command: str, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
        # In a session of its own: Ctrl-C ends the demo, and the demo ends its programs, the newest first.
        with _signals_held():
            program = subprocess.Popen(  # noqa: S603 - commands of the demo
                ["/bin/sh", "-c", f"exec {command}"],  # one process: SIGTERM reaches it, and its end is seen
                cwd=self.folder, env=self.environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self._programs.callback(_end, program)
        return program


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold SIGTERM and SIGINT back in the block: a program that has just started would not be ended."""
    held: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: held.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for each in held:
        signal.raise_signal(each)


def _end(program: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the session of a program that runs, and SIGKILL if it does not end in time."""
    if program.poll() is not None:
        return
    os.killpg(program.pid, signal.SIGTERM)
    try:
        program.wait(_STOP)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
