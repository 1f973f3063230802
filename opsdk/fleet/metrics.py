"""Prometheus metrics of a fleet, computed when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from opsdk.apimachinery.meta import Condition
from opsdk.fleet.ownership_rules import ShardState


class FleetCollector(Collector):
    """Collects the states of the clusters or shards of a fleet on this replica.

    Args:
        states: returns the state of each cluster that this replica owns, warms up or drains.
        conditions: returns the ``Ready`` conditions of these clusters.
        version: of the operator; empty for none.
    """

    def __init__(
        self,
        states: Callable[[], Mapping[str, ShardState]],
        conditions: Callable[[], Mapping[str, Condition]],
        *,
        version: str = "",
    ) -> None:
        self._version = version
        self._states = states
        self._conditions = conditions

    def collect(self) -> Iterator[Metric]:
        """Yield the number of clusters by state, and one sample for each cluster that this replica works for."""
        clusters = GaugeMetricFamily(
            "opsdk_fleet_clusters", "Clusters or shards that this replica has, by state.", labels=["state"]
        )
        states = list(self._states().values())
        for state in ShardState:
            if state is not ShardState.NONE:
                clusters.add_metric([state.value], states.count(state))
        yield clusters
        owned = GaugeMetricFamily(
            "opsdk_fleet_owned_shards",
            "Clusters or shards that this replica owns, by the version of the operator.",
            labels=["version"],
        )
        owned.add_metric([self._version], states.count(ShardState.OWNED))
        yield owned
        ready = GaugeMetricFamily(
            "opsdk_fleet_cluster_ready",
            "1 while a cluster of this replica answers and its informers are current.",
            labels=["cluster", "reason"],
        )
        for name, condition in self._conditions().items():
            ready.add_metric([name, condition.reason], float(condition.status == "True"))
        yield ready
