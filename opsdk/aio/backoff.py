"""Exponential backoff without I/O: the caller passes the time.

Upstream: k8s.io/apimachinery/pkg/util/wait/backoff.go (v1.36)
"""

from __future__ import annotations

import random

import msgspec

from opsdk.aio.randomness import loop_random


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of an exponential backoff. All times are in seconds.

    Attributes:
        base: the first delay.
        factor: multiplies the delay after each attempt.
        cap: the largest delay before jitter.
        jitter: adds a random share of the delay, between 0 and this share.
        reset_after: start again at `base` after this time without an attempt; 0 disables the reset.
    """

    base: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0

    def start(self, rng: random.Random | None = None) -> BackoffState:
        """Return a new state. `rng` draws the jitter; default: the running loop's `loop_random`."""
        return BackoffState(policy=self, rng=rng or loop_random())


class BackoffState(msgspec.Struct):
    """The state of one sequence of attempts."""

    policy: Backoff
    rng: random.Random
    tries: int = 0
    last: float | None = None
    """When the last attempt is made; None before the first."""

    def next(self, now: float) -> float:
        """Return the delay before the next attempt, in seconds from `now`."""
        p = self.policy
        if self.last is not None and p.reset_after and now - self.last >= p.reset_after:
            self.tries = 0
        # The exponent is bounded so that a long outage cannot overflow the float.
        wait = min(p.cap, p.base * p.factor ** min(self.tries, 64))
        wait *= 1 + p.jitter * self.rng.random()
        self.tries += 1
        self.last = now + wait
        return wait

    def reset(self) -> None:
        """Start again at the first delay."""
        self.tries = 0
        self.last = None
