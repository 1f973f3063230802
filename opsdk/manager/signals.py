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

log = logging.getLogger(__name__)


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Inside the block, the first SIGTERM or SIGINT calls `stop`; a second one exits the process with status 1.

    Call it from the main thread, inside the running event loop.
    """
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def on_signal(number: int) -> None:
        received.append(number)
        name = signal.Signals(number).name
        if len(received) == 1:
            log.info("%s: stopping; a second signal ends the process at once", name)
            stop()
        else:
            log.error("%s again: exiting at once", name)
            # Not sys.exit: handlers and tasks that ignore cancellation must not delay the exit.
            os._exit(1)

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
