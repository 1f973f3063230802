"""Records the operator of this process, from its start to its end."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import random
import secrets
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from opsdk.aio.blocking import THREAD_ORDER
from opsdk.errors import ConfigError
from opsdk.recording.loop import RecordingLoop
from opsdk.recording.options import RecordingMode, RecordingOptions
from opsdk.recording.recorder import ExchangeRecorder, RecordedConfig, begin_recording, describe_start
from opsdk.recording.records import OperatorEnded, Record, RecordingBegan
from opsdk.recording.redaction import Redactor
from opsdk.recording.status import RecordingStatus
from opsdk.recording.threads import ThreadRecorder
from opsdk.recording.unrecorded import UNRECORDED_ADVICE, unrecorded_calls
from opsdk.recording.writer import RecordingWriter

__all__ = ["ProcessRecording", "RecordedProgram", "code_digest"]

_VARIABLES: Final = ("HOSTNAME", "POD_NAME", "POD_NAMESPACE", "PYTHONHASHSEED")
"""Variables of the environment that a replay needs besides flags. Others may hold secrets."""
_log: Final = logging.getLogger("opsdk.recording")
_PANIC_SECONDS: Final = 600.0
"""Seconds after a panic in which others save nothing: one error may come with each retry."""
_MAX_FILES: Final = 2_000
_MAX_FILE: Final = 4 << 20
"""Files, and bytes of one, that the digest of the code reads."""


class RecordedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording says about the process of an operator.

    Attributes:
        operator: its name.
        reference: how a command line named it; empty for the program that runs.
        arguments: flags of the operator. Other arguments may hold secrets.
        environment: flags of the operator that are variables of the environment.
        modules: names of modules with the operator's code.
    """

    operator: str
    reference: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    modules: tuple[str, ...] = ()


class ProcessRecording:
    """Records the run of an operator.

    Args:
        options: the directory, its size, the age of files.
        program: what the recording says about this process.
        checkpoint: returns the state of the operator; None if it works.
    """

    def __init__(
        self,
        options: RecordingOptions,
        program: RecordedProgram,
        checkpoint: Callable[[ExchangeRecorder], Iterable[Record] | None],
    ) -> None:
        self._options, self._program, self._checkpoint = options, program, checkpoint
        self._recorder: ExchangeRecorder | None = None
        self._writer: RecordingWriter | None = None
        self._next_panic_at = -math.inf

    async def record(self, main: Coroutine[object, None, None], config: RecordedConfig) -> None:
        """Record from now on, and run `main` on a `RecordingLoop`.

        Args:
            main: runs the operator.
            config: of its API server.

        Raises:
            ConfigError: the directory cannot be written to.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, RecordingLoop)
        began = self._began(config, loop)
        if began.unrecorded:
            _log.warning(
                "the recording does not have %s, so a replay gets other results: %s",
                ", ".join(began.unrecorded),
                UNRECORDED_ADVICE,
            )
        writer = self._writer = RecordingWriter(
            self._options,
            began,
            redactor=None if self._options.secrets else Redactor(secrets.token_bytes(32)),
        )
        try:
            writer.start()
        except OSError as error:
            main.close()
            raise ConfigError(f"the recording cannot be written: {error}; set another --recording-dir") from error
        # The operator's own code may draw from it. It is not for secrets: its numbers can be guessed in any case.
        random.seed(began.seed)
        recorder = self._recorder = begin_recording(writer.add, began, loop)
        threads = ThreadRecorder(writer.add, loop)
        recorder.thread_calls = lambda: threads.calls
        THREAD_ORDER.set(threads)

        def observe_idle() -> None:
            if writer.wants_checkpoint and (checkpoint := self._checkpoint(recorder)):
                writer.add_checkpoint(checkpoint)

        loop.observe(writer.add_iteration, writer.add_wall, observe_idle)
        try:
            await main
        except Exception as error:
            self.note_panic(f"the operator ended: {error!r}")
            raise
        finally:
            writer.add(OperatorEnded(loop.iteration))
            writer.close()

    def status(self) -> RecordingStatus:
        """Return what becomes of the recording, after its begin."""
        assert self._writer is not None
        return self._writer.status()

    def save(self, reason: str) -> None:
        """Write what is in memory into the directory, within a second.

        Args:
            reason: for the log.
        """
        assert self._writer is not None
        self._writer.request_save(reason)

    def note_panic(self, reason: str) -> None:
        """Save the recording after an unexpected error, if its mode asks for that."""
        now = time.monotonic()
        if self._options.mode is RecordingMode.ON_PANIC and now >= self._next_panic_at:
            self._next_panic_at = now + _PANIC_SECONDS
            self.save(reason)

    def request_stop(self, stop: Callable[[], None]) -> None:
        """Note that a signal asks the operator to stop, and call `stop`, first in the next iteration of the loop."""
        recorder = self._recorder
        if recorder is None:
            stop()
            return

        def noted() -> None:
            recorder.note_stop()
            stop()

        loop = asyncio.get_running_loop()
        assert isinstance(loop, RecordingLoop)
        loop.call_first(noted)

    def _began(self, config: RecordedConfig, loop: RecordingLoop) -> RecordingBegan:
        return replace(
            describe_start(config, loop, operator=self._program.operator, seed=secrets.randbits(48)),
            reference=self._program.reference or _main_reference(),
            arguments=self._program.arguments,
            environment={
                "HOSTNAME": socket.gethostname(),
                **{name: os.environ[name] for name in _VARIABLES if name in os.environ},
                **self._program.environment,
            },
            code=code_digest(self._program.modules),
            unrecorded=unrecorded_calls(self._program.modules),
        )

    def __repr__(self) -> str:
        return f"<ProcessRecording of {self._program.operator} in {self._options.directory}>"


def code_digest(modules: Iterable[str]) -> str:
    """Return a digest of the packages of some modules; empty if they have no files.

    >>> code_digest(["builtins"])
    ''
    """
    digest, count = hashlib.sha256(), 0
    for top in sorted({name.partition(".")[0] for name in modules}):
        place = getattr(sys.modules.get(top), "__file__", None)
        if place is None:
            continue
        path = Path(place)
        files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
        for file in files[:_MAX_FILES]:
            try:
                if file.stat().st_size <= _MAX_FILE:
                    digest.update(f"{file.relative_to(path.parent)}\n".encode() + file.read_bytes())
                    count += 1
            except OSError:
                continue
    return digest.hexdigest() if count else ""


def _main_reference() -> str:
    """Return the program that runs, as a command line names it; empty if it is not known."""
    main = sys.modules["__main__"]
    spec, place = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name)
    return str(Path(place).absolute()) if place else ""
