"""Each fault of the simulation fires its alert within two minutes, and no other one; ten calm hours fire none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from boxes import Box
from monitored_simulation import (
    BEFORE,
    DURING,
    INTERVAL,
    NAME,
    NAMESPACE,
    QUIET,
    REPEATED,
    WORKLOADS,
    MonitoredRun,
    Scrapes,
    make_monitored_operator,
    monitored,
)
from promtool import fired, needs_promtool
from slow_cases import mostly_deep

from opsdk import Context, ObjectMeta, Operator, OperatorOptions, TerminalError
from opsdk.api.core.v1 import ConfigMap
from opsdk.monitoring.declaration import MonitoredOperator
from opsdk.monitoring.rules import all_alerts
from opsdk.testing.simulate import Fault
from tests.monitoring.alert_matrix import MATRIX, WITHOUT_FAULT

OPERATOR = MonitoredOperator(name=NAME, namespace=NAMESPACE, controllers={"box": "Box"}, leader_election=True)
# The first scrape is at the second 0 of Prometheus, and at the second 15 of the run.
BEGIN = int(BEFORE) - INTERVAL
HOUR = 3600.0


def test_the_matrix_has_each_fault_and_each_alert() -> None:
    """A new fault needs its alert, and a new alert its fault, or the reason why there is none."""
    alerts = {alert.name for alert in all_alerts(OPERATOR.objective)}
    fired = {row.alert for row in MATRIX.values() if row.alert}
    assert set(MATRIX) == set(Fault)
    assert fired | set(WITHOUT_FAULT) == alerts
    assert not fired & set(WITHOUT_FAULT)


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize("fault", mostly_deep(MATRIX, every=2), ids=lambda fault: fault.value)
def test_a_fault_fires_its_alert_and_no_other(fault: Fault, tmp_path: Path) -> None:
    """The alert fires within two minutes of virtual time. Nothing fires before the fault."""
    row = MATRIX[fault]
    scrapes = MonitoredRun(monitored(), fault, workload=WORKLOADS[row.workload]).scrapes()
    before, meanwhile = fired(tmp_path, OPERATOR, scrapes, BEGIN, BEGIN + int(DURING))
    assert before == frozenset()
    assert meanwhile == frozenset([row.alert] if row.alert else [])


@needs_promtool
@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize(
    "fault",
    [fault for fault, row in MATRIX.items() if row.without_election is not None],
    ids=lambda fault: fault.value,
)
def test_an_operator_without_an_election_has_other_alerts(fault: Fault, tmp_path: Path) -> None:
    """Its process outlives a fault of the network, and has no requests for Leases that show it soon."""
    expected = MATRIX[fault].without_election
    run = MonitoredRun(monitored(lambda: make_monitored_operator(leader_election=False)), fault)
    assert fired(tmp_path, OPERATOR, run.scrapes()) == [frozenset(filter(None, [expected]))]


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize("fault", REPEATED, ids=lambda fault: fault.value)
def test_a_single_fault_heals_itself(fault: Fault, tmp_path: Path) -> None:
    """What opsdk repairs at once needs no alert."""
    # Fewer calm seconds than the windows have: the fault has the larger share of them.
    scrapes = MonitoredRun(monitored(), fault, once=True, before=60, during=180).scrapes()
    assert fired(tmp_path, OPERATOR, scrapes) == [frozenset()]


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize("hours", [1, pytest.param(10, marks=pytest.mark.deep)])
def test_calm_hours_fire_nothing(hours: int, tmp_path: Path) -> None:
    """Users change specs, watches end and begin anew, and no alert fires."""
    scrapes = MonitoredRun(monitored(), workload=QUIET, before=hours * HOUR, during=0).scrapes()
    assert scrapes.count * INTERVAL == hours * HOUR
    assert fired(tmp_path, OPERATOR, scrapes) == [frozenset()]


@needs_promtool
@pytest.mark.slow
def test_the_load_of_the_matrix_fires_nothing(tmp_path: Path) -> None:
    """Ten minutes with a change of a spec each second are calm: only the faults fire."""
    scrapes = MonitoredRun(monitored(), before=HOUR / 6, during=0).scrapes()
    assert fired(tmp_path, OPERATOR, scrapes) == [frozenset()]


# ---------------------------------------------------------------- alerts without a fault of the simulation
def _always(obj: Box) -> None:
    if obj.spec.size > 5:
        raise ValueError("broken since the fifth size")


def _one(obj: Box) -> None:
    if obj.metadata.name == "box-3":
        raise ValueError("broken for one box")


def _rejected(obj: Box) -> None:
    if obj.metadata.name == "box-3":
        raise TerminalError("this box cannot work")


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "alert"),
    [(_always, "OpsdkReconcilesFail"), (_one, "OpsdkSpecChangesWait"), (_rejected, "OpsdkObjectsRejected")],
    ids=["all", "one", "terminal"],
)
def test_a_reconciler_that_raises_fires_one_alert(broken: Callable[[Box], None], alert: str, tmp_path: Path) -> None:
    """All objects fail, or one of them waits: these are two alerts, and one of them fires."""
    scrapes = MonitoredRun(monitored(lambda: make_monitored_operator(broken))).scrapes()
    assert fired(tmp_path, OPERATOR, scrapes) == [frozenset([alert])]


@needs_promtool
@pytest.mark.slow
def test_a_hot_loop_fires_one_alert(tmp_path: Path) -> None:
    """A reconciler writes a new value into its child in each pass."""

    def make() -> Operator:
        operator = Operator(NAME, OperatorOptions(leader_election=True, leader_election_namespace="default"))
        passes = 0

        @operator.reconciler(Box, owns=[ConfigMap])
        async def reconcile(obj: Box, ctx: Context) -> None:
            nonlocal passes
            passes += 1
            value = passes if obj.metadata.name == "box-1" and obj.spec.size > 3 else obj.spec.size
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name=obj.metadata.name), data={"passes": str(value)}))

        return operator

    scrapes = MonitoredRun(monitored(make), before=120, during=0).scrapes()
    assert fired(tmp_path, OPERATOR, scrapes) == [frozenset(["OpsdkHotLoop"])]


TARGET = 'job="boxes-metrics",namespace="boxes-system",pod="boxes-0"'


def written(series: str, values: list[float]) -> Scrapes:
    """Return samples of one series."""
    text = {position: str(value) for position, value in enumerate(values)}
    up = dict.fromkeys(range(len(values)), "1")
    return Scrapes(samples={series: text, f"up{{{TARGET}}}": up}, count=len(values))


def counted(name: str, labels: str, step: float, count: int) -> dict[str, dict[int, str]]:
    """Return the samples of a counter that grows by `step`."""
    return {f"{name}{{{labels},{TARGET}}}": {position: str(position * step) for position in range(count)}}


@needs_promtool
@pytest.mark.parametrize(
    ("series", "step", "alert"),
    [
        ("opsdk_event_loop_stall_seconds_total{@}", 3.0, "OpsdkEventLoopBlocked"),
        ('opsdk_informer_undecodable_total{informer="boxes",@}', 1.0, "OpsdkObjectsUndecodable"),
        ('controller_runtime_webhook_requests_total{webhook="/a",code="500",@}', 1.0, "OpsdkWebhooksFail"),
        ('opsdk_apply_contentions_total{field_owner="boxes",kind="ConfigMap",@}', 1.0, "OpsdkWritersFight"),
        ("opsdk_recording_active{@}", 0.0, "OpsdkRecordingEnded"),
        ('opsdk_fleet_cluster_ready{cluster="a",reason="Down",@}', 0.0, "OpsdkClusterNotReady"),
    ],
)
def test_written_samples_fire_one_alert(series: str, step: float, alert: str, tmp_path: Path) -> None:
    """The alerts that no simulation reaches are proved by their samples."""
    everything = MonitoredOperator(
        name=NAME, namespace=NAMESPACE, controllers={"box": "Box"}, webhooks=True, leader_election=True, fleet=True
    )
    scrapes = written(series.replace("@", TARGET), [position * step for position in range(30)])
    assert fired(tmp_path, everything, scrapes) == [frozenset([alert])]
    scrapes = written(series.replace("@", TARGET), [1.0 for _ in range(30)])
    assert fired(tmp_path, everything, scrapes) == [frozenset()]


@needs_promtool
@pytest.mark.parametrize(("faults", "alerts"), [(1.0, ["OpsdkRegistrationDiffers"]), (0.0, [])])
def test_a_registered_object_with_faults_fires(faults: float, alerts: list[str], tmp_path: Path) -> None:
    """A difference that lasts for five minutes fires; an update of the operator takes less."""
    operator = MonitoredOperator(name=NAME, namespace=NAMESPACE, webhooks=True)
    labels = 'object="CustomResourceDefinition a",critical="true"'
    series = f"opsdk_registered_object_faults{{{labels},{TARGET}}}"
    assert fired(tmp_path, operator, written(series, [faults] * 30)) == [frozenset(alerts)]
    assert fired(tmp_path, operator, written(series, [faults] * 15)) == [frozenset()]


@needs_promtool
def test_a_gap_in_a_recording_is_its_end(tmp_path: Path) -> None:
    """A replay ends at the first record that is missing."""
    samples = {
        f"opsdk_recording_active{{{TARGET}}}": dict.fromkeys(range(30), "1"),
        f"up{{{TARGET}}}": dict.fromkeys(range(30), "1"),
    }
    skipped = {f"opsdk_recording_skipped_records_total{{{TARGET}}}": {n: str(7 * (n > 10)) for n in range(30)}}
    assert fired(tmp_path, OPERATOR, Scrapes(samples=samples, count=30)) == [frozenset()]
    assert fired(tmp_path, OPERATOR, Scrapes(samples={**samples, **skipped}, count=30)) == [
        frozenset(["OpsdkRecordingEnded"])
    ]


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize(
    ("late", "minutes", "expected"),
    [
        (0.5, 120, {"OpsdkErrorBudgetBurnsFast", "OpsdkErrorBudgetBurnsSlowly"}),
        pytest.param(0.1, 420, {"OpsdkErrorBudgetBurnsSlowly"}, marks=pytest.mark.deep),
        pytest.param(0.02, 420, set(), marks=pytest.mark.deep),
    ],
)
def test_the_error_budget_burns(late: float, minutes: int, expected: set[str], tmp_path: Path) -> None:
    """The share of late changes decides which budget alerts fire: at 99 %, 14.4 % burn fast and 6 % burn slowly."""
    count, metric = minutes * 60 // INTERVAL, "opsdk_controller_observed_generation_seconds"
    samples = counted(f"{metric}_count", 'controller="box"', 1.0, count)
    samples |= counted(f"{metric}_bucket", 'controller="box",le="30.0"', 1.0 - late, count)
    scrapes = Scrapes(samples={**samples, f"up{{{TARGET}}}": dict.fromkeys(range(count), "1")}, count=count)
    assert fired(tmp_path, OPERATOR, scrapes) == [expected]
