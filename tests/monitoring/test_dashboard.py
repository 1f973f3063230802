"""The dashboard: its queries give data in a real Prometheus, and its model is what Grafana reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from monitored_simulation import BEFORE, INTERVAL, NAME, NAMESPACE, MonitoredRun, Scrapes, monitored
from prometheus_process import BEGIN, needs_prometheus, running_prometheus

from opsdk.monitoring.dashboard import dashboard, panels_of
from opsdk.monitoring.declaration import MonitoredOperator
from opsdk.monitoring.rules import rule_groups
from opsdk.telemetry.prometheus import PrometheusHook

OPERATOR = MonitoredOperator(
    name=NAME, namespace=NAMESPACE, controllers={"box": "Box"}, webhooks=True, leader_election=True, fleet=True
)
TARGET = f'job="{NAME}-metrics",namespace="{NAMESPACE}",pod="boxes-0"'
# The simulated operator has no webhooks, no fleet, and no process of its own.
WRITTEN = (
    'controller_runtime_webhook_requests_total{webhook="/a",code="200",@}',
    'controller_runtime_webhook_latency_seconds_bucket{webhook="/a",le="+Inf",@}',
    'controller_runtime_webhook_latency_seconds_bucket{webhook="/a",le="0.1",@}',
    'controller_runtime_webhook_requests_in_flight{webhook="/a",@}',
    'opsdk_fleet_clusters{state="owned",@}',
    'opsdk_fleet_cluster_ready{cluster="a",reason="Ready",@}',
    "process_resident_memory_bytes{@}",
    "process_cpu_seconds_total{@}",
    "process_open_fds{@}",
)


def samples() -> Scrapes:
    """Return the samples of a calm run, and those of what the simulated operator does not have."""
    scrapes = MonitoredRun(monitored(), before=BEFORE, during=0).scrapes()
    for series in WRITTEN:
        scrapes.samples[series.replace("@", TARGET)] = {n: str(float(n + 1)) for n in range(scrapes.count)}
    return scrapes


@needs_prometheus
@pytest.mark.slow
def test_each_query_of_the_dashboard_gives_data(tmp_path: Path) -> None:
    """Prometheus parses each query, and returns a sample: no panel is empty by a wrong name or label."""
    scrapes = samples()
    records = {rule["record"]: rule["expr"] for rule in rule_groups(OPERATOR)[0]["rules"] if "record" in rule}
    end = BEGIN + (scrapes.count - 1) * INTERVAL
    with running_prometheus(tmp_path, scrapes) as prometheus:
        for panel in dashboard(OPERATOR)["panels"]:
            for target in panel.get("targets", ()):
                query = target["expr"].replace("$__rate_interval", "1m").replace("$controller", ".*")
                # Nothing evaluates the recording rules here.
                name = query.partition("{")[0]
                rows = prometheus.query(records.get(name, query), end)
                assert any(row["value"][1] != "NaN" for row in rows), f"{panel['title']}: {query} gives no number"


@needs_prometheus
@pytest.mark.slow
def test_the_rules_name_only_metrics_that_exist(tmp_path: Path) -> None:
    """A metric that was renamed would silence an alert."""
    exposed = {series.partition("{")[0] for series in samples().samples}
    rules = rule_groups(OPERATOR)[0]["rules"]
    recorded = {rule.get("record") for rule in rules}
    metrics = set(re.findall(r"([a-z][a-z_:0-9]+)(?=\{)", " ".join(rule["expr"] for rule in rules)))
    # These appear with their first sample, and with a recording.
    assert metrics - exposed - recorded == {
        "opsdk_apply_contentions_total",
        "opsdk_recording_active",
        "opsdk_recording_skipped_records_total",
        "opsdk_registered_object_faults",
    }


def test_the_written_samples_have_the_names_of_a_process() -> None:
    """The panels of the process use what the library exposes for a real one."""
    page = PrometheusHook(now=lambda: 0.0).expose().decode()
    names = {series.partition("{")[0] for series in WRITTEN}
    for name in {*names, "process_start_time_seconds"}:
        if not name.startswith("opsdk_fleet"):
            assert f"\n# TYPE {name.removesuffix('_bucket')} " in page


def test_panels_have_ids_and_places_of_their_own() -> None:
    """Grafana needs unique ids, and panels that do not overlap."""
    panels = dashboard(OPERATOR)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells
        assert place["x"] + place["w"] <= 24
        cells |= own


def test_rows_follow_the_features() -> None:
    """A dashboard has no row about what the operator does not have."""
    titles = [title for title, _ in panels_of(MonitoredOperator(name="hooks", webhooks=True))]
    assert titles == ["Caches", "API requests", "Webhooks", "Event loop and process"]
    assert len(panels_of(OPERATOR)) == 9


def test_equal_operators_have_equal_dashboards() -> None:
    """Equal input gives equal bytes; another namespace is another dashboard."""
    assert json.dumps(dashboard(OPERATOR)) == json.dumps(dashboard(OPERATOR))
    assert dashboard(MonitoredOperator(name="a"))["uid"] != dashboard(MonitoredOperator(name="a", namespace="b"))["uid"]
