"""Limits the new Events about one object: a note with a number in it makes each Event another one. Pure.

Upstream: k8s.io/client-go/tools/record/events_cache.go, EventSourceObjectSpamFilter (v1.36)
Deviates: warnings have a bucket of their own, so that normal Events do not hide them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from cachetools import LRUCache

from opsdk.aio.token_bucket import TokenBucket

BURST: Final = 25
"""New Events about an object at once (defaultSpamBurst)."""
REFILL_SECONDS: Final = 300.0
"""Seconds for one more (defaultSpamQPS)."""


class SpamFilter:
    """Token buckets by object and type. Buckets that are full again are forgotten, and the least recent ones.

    Args:
        size: the most buckets.
    """

    def __init__(self, size: int) -> None:
        self._buckets: LRUCache[tuple[str, tuple[str, ...]], TokenBucket] = LRUCache(size)

    def allows(self, type_: str, regarding: tuple[str, ...], now: datetime) -> bool:
        """Whether a new Event may be written, which then counts."""
        seconds, key = now.timestamp(), (type_, regarding)
        bucket = self._buckets.get(key) or TokenBucket(1 / REFILL_SECONDS, BURST)
        if bucket.reserve(seconds) > 0:
            bucket.cancel()
            return False
        self._buckets[key] = bucket
        return True

    def forget_full(self, now: datetime) -> None:
        """Forget the buckets that are full again."""
        seconds = now.timestamp()
        for key, bucket in list(self._buckets.items()):
            if bucket.is_full(seconds):
                self._buckets.pop(key, None)

    def __len__(self) -> int:
        return len(self._buckets)

    def __repr__(self) -> str:
        return f"<SpamFilter of {len(self)} objects>"
