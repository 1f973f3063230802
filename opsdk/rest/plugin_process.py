"""The process of a credential plugin: its output, and an end that no child of it can delay."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

MAX_OUTPUT: Final = 1 << 20
"""Bytes of a plugin's standard output. A credential with certificates has some kilobytes."""
_PIPE_GRACE: Final = 1.0
"""Seconds for the pipes to end after the plugin. A child that stays in the background keeps them open."""
_KILL_GRACE: Final = 1.0
"""Seconds for a killed plugin to end."""
_STDOUT, _STDERR = 1, 2


class PluginProcess(asyncio.SubprocessProtocol):
    """A running plugin.

    Attributes:
        stdout, stderr: what it has printed; of standard error the last part.
        overflowed: it printed more than `MAX_OUTPUT`, and was ended.
        returncode: the exit status; None while it runs.
    """

    def __init__(self, *, interactive: bool) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.overflowed = False
        self.returncode: int | None = None
        self._interactive = interactive
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited = asyncio.Event()
        self._open_pipes = {_STDOUT} if interactive else {_STDOUT, _STDERR}
        self._pipes_ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.SubprocessProtocol`."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """See `asyncio.SubprocessProtocol`."""
        if fd == _STDERR:
            self.stderr += data
            del self.stderr[:-MAX_OUTPUT]
            return
        self.stdout += data
        if len(self.stdout) > MAX_OUTPUT:
            self.overflowed = True
            self._kill()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """See `asyncio.SubprocessProtocol`."""
        self._open_pipes.discard(fd)
        if not self._open_pipes:
            self._pipes_ended.set()

    def process_exited(self) -> None:
        """See `asyncio.SubprocessProtocol`."""
        if self._transport is not None:
            self.returncode = self._transport.get_returncode()
        self._exited.set()

    async def finished(self) -> None:
        """Return when the plugin has ended and its output has arrived."""
        await self._exited.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._pipes_ended.wait(), _PIPE_GRACE)

    async def aclose(self) -> None:
        """Kill the plugin and its children if they still run, and close the pipes. Waits for the plugin only."""
        self._kill()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), _KILL_GRACE)

    def _kill(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if not self._interactive and (self.returncode is None or self._open_pipes):
            # Its own session is its process group too. The group may outlive the plugin; with neither, the number may
            # be that of another program by now.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(transport.get_pid(), signal.SIGKILL)
        transport.close()  # kills the plugin itself


async def start_process(command: Sequence[str], *, env: Mapping[str, str], interactive: bool) -> PluginProcess:
    """Start a plugin. An interactive one keeps the terminal; any other gets a session of its own.

    Raises:
        OSError: the command cannot be run.
    """
    _, process = await asyncio.get_running_loop().subprocess_exec(
        lambda: PluginProcess(interactive=interactive),
        *command,
        env=env,
        stdin=None if interactive else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        # An interactive plugin prompts on standard error.
        stderr=None if interactive else asyncio.subprocess.PIPE,
        start_new_session=not interactive,
    )
    return process
