"""The source of chance: jitter, identifiers and choices.

opsdk draws every random number from `loop_random`, so a run on a seeded loop repeats exactly. Secrets come from the
system instead.
"""

from __future__ import annotations

import asyncio
import random

_SYSTEM = random.Random()  # noqa: S311 - jitter and identifiers, not secrets


def loop_random() -> random.Random:
    """Return the running loop's generator if it has one (`opsdk.testing.loop.VirtualLoop`), else the process's."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _SYSTEM
    seeded: random.Random | None = getattr(loop, "random", None)
    return seeded if seeded is not None else _SYSTEM


def loop_uuid4() -> str:
    """Return a random UUID (version 4) from `loop_random`, as text."""
    return uuid4_of(loop_random())


def uuid4_of(rng: random.Random) -> str:
    """Return a random UUID (version 4) from a generator, as text. `uuid.UUID` takes four times as long."""
    bits = rng.getrandbits(128) & _RANDOM_BITS | _VERSION_4
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# Four bits hold the version, and two the variant (RFC 9562).
_RANDOM_BITS = ~(0xF000 << 64 | 0xC000 << 48)
_VERSION_4 = 0x4000 << 64 | 0x8000 << 48
