"""The metric with the versions of a program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opsdk.base.version import VERSION
from opsdk.telemetry.series import Gauges

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class BuildInfoCollector:
    """``opsdk_build_info``: the versions of opsdk and Python as labels."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metric."""
        info = Gauges("opsdk_build_info", "Versions.", ["version", "python_version"])
        info.set(1, VERSION, sys.version.partition(" ")[0])
        return info.collect()
