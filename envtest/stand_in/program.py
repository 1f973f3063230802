"""What both programs have in common: they serve until they are told to stop, and say why when they cannot."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from opsdk.errors import ConfigError


def run(name: str, start: Callable[[AsyncExitStack], Awaitable[str]]) -> int:
    """Serve until SIGTERM or SIGINT; the exit status is 1 for what the user can mend."""
    try:
        asyncio.run(_until_told(start))
    except ConfigError as error:
        print(f"Error: {name}: {error}", file=sys.stderr)
        return 1
    return 0


async def _until_told(start: Callable[[AsyncExitStack], Awaitable[str]]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with AsyncExitStack() as stack:
        print(await start(stack), file=sys.stderr, flush=True)
        await stopped.wait()
