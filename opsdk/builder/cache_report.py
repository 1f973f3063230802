"""What an operator caches: a table in the log once its informers have synced, and readiness checks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import CachedKind
from opsdk.errors import CacheError, OpsdkError
from opsdk.telemetry.safe_logger import SafeLogger

_SECRET = GroupVersionKind("", "v1", "Secret")

log = SafeLogger(__name__)

# Seconds in which controllers start their informers, and in which these sync.
_DELAY = 1.0
_PATIENCE = 120.0
_HEADINGS = ("cached", "objects", "size", "form")


class CacheReport:
    """Logs a table of the informers with their scopes and sizes. A Runnable that ends after that.

    Args:
        cache: of the operator.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def needs_leader_election(self) -> bool:
        """Return False: each replica has caches of its own."""
        return False

    async def start(self) -> None:
        """Wait until all informers have synced, at most two minutes, and log the table."""
        await self._cache.wait_ready()
        try:
            async with asyncio.timeout(_PATIENCE):
                await asyncio.sleep(_DELAY)
                for kind in self._cache.kinds():
                    await kind.wait_synced()
        except (TimeoutError, OpsdkError) as error:
            log.debug("not every informer has synced: %s", error)
        kinds = self._cache.kinds()
        if kinds:
            log.info("the cache holds:\n%s", "\n".join(cache_table(kinds)))
        for warning in cache_warnings(kinds):
            log.warning("%s", warning)

    def __repr__(self) -> str:
        return f"<CacheReport of {self._cache!r}>"


def cache_table(kinds: Iterable[CachedKind]) -> list[str]:
    """Return one line for each informer: what it lists, objects, size in memory, whole objects or metadata."""
    rows = [
        (health.name, f"{health.objects:,}", _megabytes(health.size), "metadata" if kind.metadata_only else "objects")
        for kind in kinds
        for health in kind.health()
    ]
    table = [_HEADINGS, *sorted(rows)]
    first, second, third = (max(len(row[column]) for row in table) for column in range(3))
    return [f"  {row[0]:<{first}}  {row[1]:>{second}}  {row[2]:>{third}}  {row[3]}" for row in table]


def cache_warnings(kinds: Iterable[CachedKind]) -> list[str]:
    """Return a sentence for each informer that holds more than most operators want to."""
    return [
        f"the cache holds all Secrets of the cluster ({health.objects:,}): restrict it with CacheOptions.namespaces "
        "or a label_selector, or watch metadata_only(Secret) and read what you need with uncached=True"
        for kind in kinds
        if kind.gvk == _SECRET and not kind.metadata_only
        for namespace, health in zip(kind.informers, kind.health(), strict=True)
        if not namespace and kind.informers[namespace].options.label_selector == LabelRequirements()
    ]


async def check_caches(cache: Cache) -> None:
    """Raise `CacheError` while an informer is not ready."""
    if unready := [str(health) for health in cache.health() if not health.ready]:
        raise CacheError("; ".join(unready))


async def check_functions(cache: Cache) -> None:
    """Raise `CacheError` while an index or a transform raises."""
    if failing := [f"{health.name}: {text}" for health in cache.health() for text in health.failing_functions]:
        raise CacheError("; ".join(failing))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
