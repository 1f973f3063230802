"""Records the operator of this process, from its start to its end."""

from __future__ import annotations

import asyncio
import os
import platform
import random
import secrets
import socket
import sys
from collections.abc import Coroutine
from typing import Final, Protocol

from opsdk.base.version import VERSION
from opsdk.errors import ConfigError
from opsdk.recording.loop import RecordingLoop
from opsdk.recording.options import RecordingOptions
from opsdk.recording.recorder import Recorder, begin_recording
from opsdk.recording.records import RecordingBegan, Stopped
from opsdk.recording.redaction import Redactor
from opsdk.recording.writer import RecordingWriter

__all__ = ["ProcessRecording"]

_VARIABLES: Final = ("HOSTNAME", "POD_NAME", "POD_NAMESPACE", "PYTHONHASHSEED")
"""Variables of the environment that a replay needs. Others may hold secrets."""


class _Endpoint(Protocol):
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def base_path(self) -> str: ...


class _Config(Protocol):
    """What a recording says about the configuration of the operator."""

    @property
    def endpoint(self) -> _Endpoint: ...
    @property
    def namespace(self) -> str: ...


class ProcessRecording:
    """Records the run of an operator.

    Args:
        options: the directory, its size, the age of files.
        operator: its name.
    """

    def __init__(self, options: RecordingOptions, operator: str) -> None:
        self._options, self._operator = options, operator
        self._recorder: Recorder | None = None

    async def record(self, main: Coroutine[object, None, None], config: _Config) -> None:
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
        writer = RecordingWriter(
            self._options,
            began,
            redact=(lambda record: record) if self._options.secrets else Redactor(secrets.token_bytes(32)).redact,
        )
        try:
            writer.start()
        except OSError as error:
            main.close()
            raise ConfigError(f"the recording cannot be written: {error}; set another --recording-dir") from error
        # The operator's own code may draw from it. It is not for secrets: its numbers can be guessed in any case.
        random.seed(began.seed)
        self._recorder = begin_recording(writer.add, began, loop)
        loop.observe(writer.add_iteration, writer.add_wall)
        try:
            await main
        finally:
            writer.flush_iterations()
            writer.add(Stopped(loop.iteration))
            writer.close()

    def note_stop(self) -> None:
        """Note that a signal asks the operator to stop."""
        if self._recorder is not None:
            self._recorder.note_stop()

    def _began(self, config: _Config, loop: RecordingLoop) -> RecordingBegan:
        endpoint = config.endpoint
        return RecordingBegan(
            opsdk=VERSION,
            python=platform.python_version(),
            operator=self._operator,
            arguments=tuple(sys.argv),
            environment={
                "HOSTNAME": socket.gethostname(),
                **{name: os.environ[name] for name in _VARIABLES if name in os.environ},
            },
            namespace=config.namespace,
            host=f"http://{endpoint.host}:{endpoint.port}{endpoint.base_path}",
            wall=loop.wall_origin,
            iteration=loop.iteration,
            time=loop.time(),
            seed=secrets.randbits(48),
        )

    def __repr__(self) -> str:
        return f"<ProcessRecording of {self._operator} in {self._options.directory}>"
