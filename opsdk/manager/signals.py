"""SIGTERM and SIGINT: the first signal stops the manager, the second exits the process.

Upstream: sigs.k8s.io/controller-runtime/pkg/manager/signals/signal.go
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)


@contextmanager
def stop_on_signals(stop: Callable[[], None], *, on_signal: Callable[[], None] | None = None) -> Iterator[None]:
    """Inside the block, the first SIGTERM or SIGINT calls `stop`; a second one exits the process with status 1.

    Call it from the main thread, inside the running event loop.

    Args:
        stop: called in the event loop.
        on_signal: called at once at the first signal, also while the event loop is blocked by Python code.
    """
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def begin(name: str) -> None:
        log.info("received %s: stopping; a second signal exits the process immediately", name)
        stop()

    def handle(number: int, _: FrameType | None) -> None:
        received.append(number)
        name = signal.Signals(number).name
        if len(received) > 1:
            # No log: the interrupted code may hold its lock. No sys.exit: user code could delay the exit.
            os.write(2, f"second signal ({name}): exiting immediately\n".encode())
            os._exit(1)
        if on_signal is not None:
            on_signal()
        # Do not use add_signal_handler: its handlers need the event loop, which may be blocked.
        loop.call_soon_threadsafe(begin, name)

    numbers = (signal.SIGTERM, signal.SIGINT)
    previous = [signal.signal(number, handle) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
