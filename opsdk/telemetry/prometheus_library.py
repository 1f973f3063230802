"""The names of prometheus_client that opsdk uses.

The library takes longer to import than the client and the cache, so this module is imported on first use. A package
cannot be: an import statement of one of its submodules would run that submodule twice.
"""

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

__all__ = [
    "CONTENT_TYPE_LATEST",
    "Collector",
    "CollectorRegistry",
    "CounterMetricFamily",
    "GCCollector",
    "GaugeMetricFamily",
    "HistogramMetricFamily",
    "Metric",
    "PlatformCollector",
    "ProcessCollector",
    "floatToGoString",
    "generate_latest",
]
