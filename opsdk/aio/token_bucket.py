"""Token bucket: limits a rate, with bursts. Pure: the caller passes the time.

Upstream: k8s.io/client-go/util/flowcontrol/throttle.go (v1.36)
"""

from __future__ import annotations

import msgspec


class TokenBucket(msgspec.Struct):
    """Allows `qps` events a second on average, and `burst` at once."""

    qps: float
    burst: int
    _tokens: float = 0.0
    _refilled_at: float | None = None

    def reserve(self, now: float) -> float:
        """Take a token, and return the seconds until it is valid."""
        if self._refilled_at is None:
            self._tokens = float(self.burst)
        else:
            self._tokens = min(float(self.burst), self._tokens + (now - self._refilled_at) * self.qps)
        self._refilled_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self.qps)

    def is_full(self, now: float) -> bool:
        """Whether all tokens are there again."""
        return self._refilled_at is None or self._tokens + (now - self._refilled_at) * self.qps >= self.burst

    def cancel(self) -> None:
        """Return a token that was not used."""
        self._tokens += 1
