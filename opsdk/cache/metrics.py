"""Prometheus metrics of informers, computed from their health when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from opsdk.cache.health import InformerHealth
from opsdk.cache.own_writes import revision_of
from opsdk.telemetry.series import Counters, Gauges

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_PREFIX = "opsdk_informer"
# Name, help, value.
_GAUGES: tuple[tuple[str, str, Callable[[InformerHealth], float | None]], ...] = (
    ("ready", "1 while cached reads are up to date, else 0.", lambda h: float(h.ready)),
    ("objects", "Objects in the store.", lambda h: h.objects),
    ("bytes", "Bytes of the objects in the store, large ones compressed.", lambda h: h.size),
    (
        "seconds_without_watch",
        "Seconds since the watch was lost; 0 while it is open.",
        lambda h: h.seconds_without_watch,
    ),
    ("seconds_since_contact", "Seconds since a list, event or bookmark.", lambda h: h.seconds_since_contact),
    ("lag_seconds", "Seconds for which a change has been missing in the store, if measured.", lambda h: h.lag_seconds),
    (
        "resource_version",
        "Resource version up to which the store has everything, if it is a number.",
        lambda h: _number(h.resource_version),
    ),
)
_COUNTERS: tuple[tuple[str, str, Callable[[InformerHealth], float]], ...] = (
    ("lists", "Complete lists. More than one means that the watch was interrupted for too long.", lambda h: h.lists),
    ("watches", "Watch requests, streaming lists not included.", lambda h: h.watches),
    ("events", "Watch events, bookmarks included.", lambda h: h.events),
    ("errors", "Failed lists and watches.", lambda h: h.errors),
    ("undecodable", "Objects that did not decode.", lambda h: h.undecodable),
    ("rollbacks", "Times the API server went back to older resource versions.", lambda h: h.rollbacks),
    ("function_failures", "Failures of index and transform functions.", lambda h: h.function_failures),
)


def _number(resource_version: str) -> float | None:
    """Return a resource version as a number, exact up to 2**53; None if it is not one of Kubernetes."""
    revision = revision_of(resource_version)
    return float(revision) if revision and revision < 1 << 128 else None


class InformerCollector:
    """Collects the health of informers.

    Args:
        health: returns the health of every informer.
    """

    def __init__(self, health: Callable[[], Iterable[InformerHealth]]) -> None:
        self._health = health

    def collect(self) -> Iterator[Metric]:
        """Yield one sample of each metric for each informer."""
        from prometheus_client.metrics_core import SummaryMetricFamily

        health = list(self._health())
        for name, text, value in _GAUGES:
            gauge = Gauges(f"{_PREFIX}_{name}", text, ["informer"])
            for one in health:
                if (number := value(one)) is not None:
                    gauge.set(number, one.name)
            yield from gauge.collect()
        for name, text, count in _COUNTERS:
            counter = Counters(f"{_PREFIX}_{name}", text, ["informer"])
            for one in health:
                counter.inc(one.name, by=count(one))
            yield from counter.collect()
        delay = SummaryMetricFamily(
            f"{_PREFIX}_own_write_delay_seconds",
            "Seconds from the end of the operator's own write until the watch shows it.",
            labels=["informer"],
        )
        for one in health:
            delay.add_metric([one.name], count_value=one.own_writes_seen, sum_value=one.own_write_delay)
        yield delay
