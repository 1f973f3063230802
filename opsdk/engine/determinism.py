"""Makes a run repeatable: seeds the process's random numbers and the system's entropy.

Tokens, uids and UUIDs use the system's entropy. In a simulation the seed determines them.

It does without unittest.mock: programs look for unittest in `sys.modules` to see whether they are tested.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
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
    urandom = os.urandom
    random.seed(seed)
    os.urandom = entropy.randbytes
    # random.SystemRandom, which `secrets` uses, has its own reference.
    vars(random)["_urandom"] = entropy.randbytes
    try:
        # The identity of a replica.
        with environment_variables({"HOSTNAME": "simulation"}):
            yield
    finally:
        random.setstate(state)
        os.urandom = urandom
        vars(random)["_urandom"] = urandom


@contextmanager
def environment_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment during the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
