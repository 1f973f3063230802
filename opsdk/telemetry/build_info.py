"""The metric with the versions of a program."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from opsdk.base.version import VERSION


class BuildInfoCollector(Collector):
    """``opsdk_build_info``: the versions of opsdk and Python as labels."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metric."""
        info = GaugeMetricFamily("opsdk_build_info", "Versions.", labels=["version", "python_version"])
        info.add_metric([VERSION, sys.version.partition(" ")[0]], 1)
        yield info
