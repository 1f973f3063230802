"""The main loop of the fake binaries: serve until a stop signal, and report why a start failed."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TextIO

import msgspec

from envtest.fake_binaries.flags import Flags, parse
from opsdk.base.extras import RequiredExtra
from opsdk.errors import ConfigError

_HELP = frozenset({"--help", "-h", "--help=true"})


class FakeProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A fake of another program.

    Attributes:
        name: the name of the real program.
        version: returns the output of ``--version``.
        switches: the flags without a value.
        options: the other flags that have an effect here.
        serve: starts the program and pushes its cleanup on the stack. Returns the message to print when it serves.
    """

    name: str
    version: Callable[[], str]
    switches: frozenset[str]
    options: frozenset[str]
    serve: Callable[[Flags, AsyncExitStack], Awaitable[str]]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run until SIGTERM. Returns the exit status."""
        words = sys.argv[1:] if arguments is None else arguments
        if "--version" in words:
            return self._print_version()
        if not _HELP.isdisjoint(words):
            print(self.help())
            return 0

        async def begin(stack: AsyncExitStack) -> str:
            return await self.serve(parse(words, switches=self.switches), stack)

        return run(begin, name=self.name, message_stream=sys.stderr)

    def _print_version(self) -> int:
        try:
            print(f"{self.version()}\n(stand-in of envtest)")
        except ConfigError as error:
            print(f"error: {self.name}: {error}", file=sys.stderr)
            return 1
        return 0

    def help(self) -> str:
        """Return the output of ``--help``: one line for each flag, which Go's envtest looks for at the start of a line.

        Upstream: sigs.k8s.io/controller-runtime/pkg/internal/testing/process/process.go (CheckFlag)
        """
        flags = dict.fromkeys(self.switches, "") | dict.fromkeys(self.options - self.switches, " string")
        lines = [f"      --{name}{kind}" for name, kind in sorted(flags.items())]
        return "\n".join([f"{self.name}, stand-in of envtest", "", "Usage:", f"  {self.name} [flags]", "", *lines])


def run(
    start: Callable[[AsyncExitStack], Awaitable[str]], *, name: str = "", message_stream: TextIO | None = None
) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status: 1 for an error that the user can correct."""
    try:
        with RequiredExtra("envtest", "the local API server"):
            asyncio.run(_until_stopped(start, message_stream))
    except ConfigError as error:
        print(f"error: {name}: {error}" if name else f"error: {error}", file=sys.stderr)
        return 1
    return 0


async def _until_stopped(start: Callable[[AsyncExitStack], Awaitable[str]], message_stream: TextIO | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with AsyncExitStack() as stack:
        print(await start(stack), file=message_stream, flush=True)
        await stopped.wait()
