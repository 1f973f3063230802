"""Makes a run repeatable: seeds the process's random numbers and the system's entropy.

Tokens, uids and UUIDs use the system's entropy. In a simulation the seed determines them.

It does without unittest.mock: programs look for unittest in `sys.modules` to see whether they are tested.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

from opsdk.aio.randomness import seeded


@contextmanager
def seeded_entropy(seed: int) -> Iterator[None]:
    """In the block, `random`, `secrets`, `uuid.uuid4` and `os.urandom` return the same values for the same seed.

    >>> import secrets
    >>> with seeded_entropy(1): first = secrets.token_hex(4)
    >>> with seeded_entropy(1): second = secrets.token_hex(4)
    >>> first == second
    True
    """
    entropy = seeded(seed)
    state = random.getstate()
    urandom, host = os.urandom, os.environ.get("HOSTNAME")
    random.seed(seed)
    os.urandom = entropy.randbytes
    # random.SystemRandom, which `secrets` uses, has its own reference.
    vars(random)["_urandom"] = entropy.randbytes
    # The identity of a replica.
    os.environ["HOSTNAME"] = "simulation"
    try:
        yield
    finally:
        random.setstate(state)
        os.urandom = urandom
        vars(random)["_urandom"] = urandom
        os.environ.pop("HOSTNAME")
        if host is not None:
            os.environ["HOSTNAME"] = host
