"""How much of the processor a call takes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the seconds of CPU of a call.

    No garbage is collected meanwhile: a collection takes as long as what other tests have left in this process is
    large.
    """
    gc.disable()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        gc.enable()
