"""Makes a run repeatable: seeds the process's random numbers and the system's entropy.

Tokens, uids and UUIDs use the system's entropy. In a simulation the seed determines them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def seeded_entropy(seed: int) -> Iterator[None]:
    """In the block, `random`, `secrets`, `uuid.uuid4` and `os.urandom` return the same values for the same seed.

    >>> import secrets
    >>> with seeded_entropy(1): first = secrets.token_hex(4)
    >>> with seeded_entropy(1): second = secrets.token_hex(4)
    >>> first == second
    True
    """
    entropy = random.Random(seed)  # noqa: S311 - repeatable on purpose
    state = random.getstate()
    patches = (
        mock.patch.object(os, "urandom", entropy.randbytes),
        # random.SystemRandom, which `secrets` uses, has its own reference.
        mock.patch.object(random, "_urandom", entropy.randbytes),
        # The identity of a replica.
        mock.patch.dict(os.environ, {"HOSTNAME": "simulation"}),
    )
    random.seed(seed)
    try:
        with patches[0], patches[1], patches[2]:
            yield
    finally:
        random.setstate(state)
