"""Exponential backoff as a value: pure, with the time and the randomness passed in."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to wait before the next try, in seconds.

    Attributes:
        base: the first wait.
        factor: each wait is this many times the one before.
        cap: no wait (before jitter) is longer.
        jitter: each wait is stretched by a random share of itself, up to this share.
        reset_after: this many quiet seconds after a wait make the next one the first again; 0 never does.
    """

    base: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0

    def start(self, seed: int | None = None) -> BackoffState:
        """A fresh state; `seed` makes the jitter repeatable."""
        return BackoffState(policy=self, rng=random.Random(seed))  # noqa: S311 - jitter, not a secret


@dataclass(slots=True)
class BackoffState:
    """One sequence of tries."""

    policy: Backoff
    rng: random.Random
    tries: int = 0
    _last: float | None = field(default=None, repr=False)

    def next(self, now: float) -> float:
        """The next wait in seconds, counted from `now`."""
        p = self.policy
        if self._last is not None and p.reset_after and now - self._last >= p.reset_after:
            self.tries = 0
        # The exponent is bounded so that a long outage cannot overflow the float.
        wait = min(p.cap, p.base * p.factor ** min(self.tries, 64))
        wait *= 1 + p.jitter * self.rng.random()
        self.tries += 1
        self._last = now + wait
        return wait

    def reset(self) -> None:
        """The next wait is the first again."""
        self.tries = 0
        self._last = None
