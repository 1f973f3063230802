"""Processes of operators that record themselves, and their server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Self

from opsdk import Operator
from opsdk.builder.flags import parse_flags
from opsdk.engine.replay.timeline import Timeline
from opsdk.recording.files import RecordingError
from opsdk.recording.reading import load_recording
from opsdk.recording.records import ExchangeBegan
from opsdk.testing.webhooks import free_port


@contextmanager
def server(folder: Path) -> Iterator[Path]:
    """Run an API server; yields its kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "opsdk.cli", "apiserver", "--kubeconfig", str(kubeconfig)]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([*command, "--port", "0"], stdout=log, stderr=log)
    try:
        subprocess.run([*command, "--wait"], check=True, timeout=60)
        yield kubeconfig
    finally:
        process.terminate()
        process.wait(60)


class RecordedOperator:
    """The process of an operator that records itself.

    Args:
        folder: for its files.
        kubeconfig: of the server.
        text: of the program.
        mode: see `RecordingMode`.
    """

    def __init__(self, folder: Path, kubeconfig: Path, text: str, mode: str = "always") -> None:
        self.program = folder / "copier.py"
        self.program.write_text(text)
        self.recordings, self.log = folder / "recordings", folder / "operator.log"
        flags = ["--kubeconfig", str(kubeconfig), "--leader-elect", "--recording-dir", str(self.recordings)]
        self.debug_address = f"127.0.0.1:{free_port()}"
        flags += ["--health-probe-bind-address", "127.0.0.1:0", "--debug-bind-address", self.debug_address]
        flags += ["--recording-mode", mode]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(self.program), *flags],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONHASHSEED": "1"},
            )

    def has_written(self, name: str) -> bool:
        """Whether the recording has a write of an object of this name."""
        try:
            records = load_recording(self.recordings).records
        except RecordingError:
            return False  # a busy machine: the files that are left have no checkpoint yet
        return any(isinstance(record, ExchangeBegan) and name in record.target for record in records)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(60)

    def end(self, signal_number: signal.Signals) -> None:
        """Send a signal, and wait for the end of the process."""
        self.process.send_signal(signal_number)
        self.process.wait(60)


def load_operator(recorded: RecordedOperator, timeline: Timeline) -> Operator:
    """Return the operator of the program, with the flags of the process."""
    module = sys.modules["copier"] = ModuleType("copier")  # classes look their module up
    exec(recorded.program.read_text(), vars(module))
    operator = module.operator
    assert isinstance(operator, Operator)
    operator.options, _ = parse_flags("copier", operator.options, timeline.began.arguments, {})
    return operator
