"""The source of chance: jitter, identifiers and choices.

opsdk draws every random number from `loop_random`, so a run on a seeded loop repeats exactly. Secrets come from the
system instead.
"""

from __future__ import annotations

import asyncio
import random
import uuid

_SYSTEM = random.Random()  # noqa: S311 - jitter and identifiers, not secrets


def loop_random() -> random.Random:
    """Return the running loop's generator if it has one (`opsdk.testing.loop.VirtualLoop`), else the process's."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _SYSTEM
    seeded: random.Random | None = getattr(loop, "random", None)
    return seeded if seeded is not None else _SYSTEM


def loop_uuid4() -> uuid.UUID:
    """Return a random UUID from `loop_random`."""
    return uuid.UUID(int=loop_random().getrandbits(128), version=4)
