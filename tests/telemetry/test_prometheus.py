"""Records as metrics: the names and labels that dashboards know."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from opsdk.errors import RequestInfo
from opsdk.telemetry.prometheus import PrometheusHook
from opsdk.telemetry.records import (
    CertificateRead,
    Contended,
    ControllerPaused,
    Hooks,
    HotLoopFound,
    Leadership,
    LoopStalled,
    PausedObjects,
    Queued,
    QueueHooks,
    Reconciled,
    ReconcileOutcome,
    Record,
    RenewedSlowly,
    Requested,
    TelemetryHook,
    WebhookLoad,
    WebhookServed,
    Workers,
)

NAMES = {
    "opsdk_event_loop_stall_seconds_total": set(),
    "opsdk_event_loop_longest_stall_seconds": set(),
    "controller_runtime_reconcile_total": {"controller", "result"},
    "controller_runtime_reconcile_errors_total": {"controller"},
    "controller_runtime_terminal_reconcile_errors_total": {"controller"},
    "controller_runtime_reconcile_panics_total": {"controller"},
    "controller_runtime_reconcile_timeouts_total": {"controller"},
    "controller_runtime_reconcile_time_seconds": {"controller"},
    "controller_runtime_max_concurrent_reconciles": {"controller"},
    "controller_runtime_active_workers": {"controller"},
    "workqueue_depth": {"name", "controller", "priority"},
    "workqueue_adds_total": {"name", "controller"},
    "workqueue_queue_duration_seconds": {"name", "controller"},
    "workqueue_work_duration_seconds": {"name", "controller"},
    "workqueue_unfinished_work_seconds": {"name", "controller"},
    "workqueue_longest_running_processor_seconds": {"name", "controller"},
    "workqueue_retries_total": {"name", "controller"},
    "leader_election_master_status": {"name"},
    "leader_election_slowpath_total": {"name"},
    "certwatcher_read_certificate_total": set(),
    "certwatcher_read_certificate_errors_total": set(),
    "controller_runtime_webhook_latency_seconds": {"webhook"},
    "controller_runtime_webhook_requests_total": {"webhook", "code"},
    "controller_runtime_webhook_requests_in_flight": {"webhook"},
    "controller_runtime_webhook_panics_total": set(),
    "controller_runtime_conversion_webhook_panics_total": set(),
    "rest_client_requests_total": {"code", "method", "host"},
    "rest_client_request_duration_seconds": {"verb", "host"},
    "rest_client_rate_limiter_duration_seconds": {"verb", "host"},
    "rest_client_request_size_bytes": {"verb", "host"},
    "rest_client_response_size_bytes": {"verb", "host"},
    "rest_client_request_retries_total": {"code", "verb", "host"},
    "opsdk_controller_paused_objects": {"controller"},
    "opsdk_controller_paused": {"controller"},
    "opsdk_controller_hot_loops_total": {"controller"},
}


@dataclass
class FakeQueue:
    """A queue in a fixed state."""

    ready: dict[int, int] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)

    def depth(self) -> dict[int, int]:
        """Return the ready items."""
        return self.ready

    def processing(self) -> dict[str, float]:
        """Return the start times."""
        return self.started


QUEUE = FakeQueue({0: 2, -100: 5}, {"a": 90.0, "b": 95.0})


def shown(hook: PrometheusHook) -> dict[str, float]:
    """Each line of the page: ``name{labels}`` and its value."""
    lines = [line for line in hook.expose().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def full(hook: PrometheusHook) -> None:
    """One record of each kind."""
    hook.record(Workers(controller="c", limit=3, queue=QUEUE))
    for event in ("added", "taken", "finished", "retried"):
        hook.record(Queued(controller="c", event=event, seconds=1.5, queue=QUEUE))
    hook.record(
        Reconciled(
            controller="c", result=ReconcileOutcome.ERROR, seconds=2, terminal=True, panicked=True, timed_out=True
        )
    )
    hook.record(PausedObjects(controller="c", count=2))
    hook.record(ControllerPaused(controller="c", paused=True))
    hook.record(HotLoopFound(controller="c", request="default/a", description="again and again"))
    hook.record(Leadership(name="lease", leading=True))
    hook.record(LoopStalled(seconds=3, where="here"))
    hook.record(LoopStalled(seconds=2, where="there"))
    hook.record(RenewedSlowly(name="lease"))
    hook.record(
        Requested(
            method="GET",
            host="h:6443",
            status=200,
            seconds=0.1,
            throttled=2,
            attempt=1,
            sent_bytes=0,
            received_bytes=3000,
        )
    )
    hook.record(Requested(method="GET", host="h:6443", status=0, seconds=0.1))
    for failed in (False, True):
        hook.record(CertificateRead(failed=failed))
    hook.record(WebhookLoad(webhook="/w", in_flight=1))
    for panicked in ("", "admission", "conversion"):
        hook.record(WebhookServed(webhook="/w", status=200, seconds=0.1, panicked=panicked))


@pytest.mark.behaviour(134)
def test_names_and_labels_are_those_of_controller_runtime() -> None:
    """After one record of each kind the page has exactly these metrics with exactly these labels."""
    hook = PrometheusHook(CollectorRegistry(), now=lambda: 100.0)
    full(hook)
    result: dict[str, set[str]] = {}
    for line in shown(hook):
        name, _, labels = line.partition("{")
        name = re.sub(r"_(bucket|sum|count)$", "", name)
        result[name] = set(re.findall(r"(\w+)=", labels)) - {"le"}
    assert result == NAMES


@pytest.mark.behaviour(79, 88)
def test_metrics_follow_the_hooks_records() -> None:
    """Counters count records, gauges show the last state, and durations grow while items are at work."""
    hook = PrometheusHook(CollectorRegistry(), now=lambda: 100.0)
    full(hook)
    page = shown(hook)
    for kind in ("errors", "panics", "timeouts"):
        assert page[f'controller_runtime_reconcile_{kind}_total{{controller="c"}}'] == 1
    assert page['controller_runtime_reconcile_total{controller="c",result="error"}'] == 1
    assert page['controller_runtime_reconcile_total{controller="c",result="requeue_after"}'] == 0
    assert page['workqueue_depth{controller="c",name="c",priority="-100"}'] == 5
    assert page['workqueue_unfinished_work_seconds{controller="c",name="c"}'] == 15
    assert page['controller_runtime_active_workers{controller="c"}'] == 2
    assert page['controller_runtime_max_concurrent_reconciles{controller="c"}'] == 3
    assert page['workqueue_longest_running_processor_seconds{controller="c",name="c"}'] == 10
    assert page['leader_election_master_status{name="lease"}'] == 1
    assert page['rest_client_requests_total{code="<error>",host="h:6443",method="GET"}'] == 1
    assert page['rest_client_request_duration_seconds_count{host="h:6443",verb="GET"}'] == 2
    assert page['rest_client_rate_limiter_duration_seconds_sum{host="h:6443",verb="GET"}'] == 2
    assert page['rest_client_response_size_bytes_sum{host="h:6443",verb="GET"}'] == 3000
    assert page['rest_client_response_size_bytes_bucket{host="h:6443",le="4096.0",verb="GET"}'] == 1
    assert page['rest_client_request_retries_total{code="200",host="h:6443",verb="GET"}'] == 1
    assert page['leader_election_slowpath_total{name="lease"}'] == 1
    assert page['controller_runtime_webhook_requests_total{code="200",webhook="/w"}'] == 3
    assert page['controller_runtime_webhook_requests_total{code="500",webhook="/w"}'] == 0
    assert page['controller_runtime_webhook_requests_in_flight{webhook="/w"}'] == 1
    assert page["controller_runtime_webhook_panics_total"] == 1
    assert page["controller_runtime_conversion_webhook_panics_total"] == 1
    assert page["certwatcher_read_certificate_total"] == 2
    assert page["certwatcher_read_certificate_errors_total"] == 1
    assert page["opsdk_event_loop_stall_seconds_total"] == 5
    assert page["opsdk_event_loop_longest_stall_seconds"] == 3
    hook.record(Queued(controller="c", event="finished", queue=FakeQueue()))
    hook.record(Leadership(name="lease", leading=False))
    page = shown(hook)
    assert page['workqueue_depth{controller="c",name="c",priority="0"}'] == 0
    assert page['workqueue_unfinished_work_seconds{controller="c",name="c"}'] == 0
    assert page['leader_election_master_status{name="lease"}'] == 0


@pytest.mark.behaviour(88)
def test_every_series_of_a_controller_is_there_from_the_start() -> None:
    """When the workers start, every result has a series at zero, so that rates have a first point."""
    hook = PrometheusHook(CollectorRegistry())
    hook.record(Queued(controller="c", event="added", queue=FakeQueue()))
    hook.record(Workers(controller="c", limit=1, queue=FakeQueue()))
    page = shown(hook)
    for result in ReconcileOutcome:
        assert page[f'controller_runtime_reconcile_total{{controller="c",result="{result.value}"}}'] == 0
    assert page['controller_runtime_reconcile_errors_total{controller="c"}'] == 0
    assert page['controller_runtime_reconcile_time_seconds_count{controller="c"}'] == 0


@pytest.mark.behaviour(72)
def test_priorities_do_not_grow_without_bound() -> None:
    """After 25 different priorities the rest share one label value."""
    hook = PrometheusHook(CollectorRegistry())
    hook.record(Queued(controller="c", event="added", queue=FakeQueue(dict.fromkeys(range(40), 1))))
    values = {line: v for line, v in shown(hook).items() if line.startswith("workqueue_depth")}
    assert len(values) == 26
    assert sum(values.values()) == 40
    assert values['workqueue_depth{controller="c",name="c",priority="exceeded_cardinality_limit"}'] == 15


def test_process_metrics_are_shown_unless_a_registry_is_passed() -> None:
    """A hook's own registry shows the process too; two hooks in one process do not meet."""
    one, two = PrometheusHook(), PrometheusHook()
    full(one)
    assert any(line.startswith("python_info") for line in shown(one))
    assert [value for line, value in shown(one).items() if line.startswith("opsdk_build_info{")] == [1]
    assert 'workqueue_adds_total{controller="c",name="c"}' not in shown(two)


def test_a_raising_hook_does_not_stop_other_hooks(caplog: pytest.LogCaptureFixture) -> None:
    """Each hook gets each record; exceptions are logged."""

    class Broken(TelemetryHook):
        def record(self, record: Record) -> None:
            raise RuntimeError("mine")

    class Kept(TelemetryHook):
        def __init__(self) -> None:
            self.records: list[Record] = []

        def record(self, record: Record) -> None:
            self.records.append(record)

    recorder = Kept()
    record = Leadership(name="l", leading=True)
    Hooks([Broken(), recorder]).record(record)
    assert recorder.records == [record]
    assert "a telemetry hook raised" in caplog.text


@given(st.lists(st.tuples(st.sampled_from(["added", "retried", "taken", "finished"]), st.floats(0, 100))))
def test_the_hooks_of_a_queue_count_as_records_do(events: list[tuple[str, float]]) -> None:
    """A hook that passes records on shows the same page as one whose series the queue uses."""
    direct, passing = PrometheusHook(CollectorRegistry()), PrometheusHook(CollectorRegistry())
    hooks = direct.queue_hooks("c", FakeQueue())
    passing.queue_hooks("c", FakeQueue())
    for event, seconds in events:
        getattr(hooks, event)(*([seconds] if event in ("taken", "finished") else []))
        passing.record(Queued(controller="c", event=event, seconds=seconds, queue=FakeQueue()))
    assert shown(direct) == shown(passing)


def test_a_hook_without_methods_of_its_own_gets_no_events_of_queues() -> None:
    """Records are made only for hooks that take them, and what one hook raises reaches no other."""

    class Broken(TelemetryHook):
        def record(self, record: Record) -> None:
            raise RuntimeError

    prometheus = PrometheusHook(CollectorRegistry())
    hooks = Hooks([TelemetryHook(), Broken(), prometheus]).queue_hooks("c", FakeQueue())
    hooks.added()
    hooks.taken(1)
    hooks.finished(1)
    hooks.retried()
    page = shown(prometheus)
    assert page['workqueue_adds_total{controller="c",name="c"}'] == 1
    assert page['workqueue_retries_total{controller="c",name="c"}'] == 1


def test_fights_are_counted_for_each_field_manager_and_kind() -> None:
    """Each record is one apply that another writer had undone."""
    hook = PrometheusHook(CollectorRegistry())
    for owner in ("shop/one", "shop/one", "shop/two"):
        hook.record(Contended(field_owner=owner, kind="ConfigMap"))
    page = shown(hook)
    assert page['opsdk_apply_contentions_total{field_owner="shop/one",kind="ConfigMap"}'] == 2
    assert page['opsdk_apply_contentions_total{field_owner="shop/two",kind="ConfigMap"}'] == 1


class Changes:
    """Changes of specs that wait, as a controller shows them."""

    def __init__(self, count: int, oldest: float) -> None:
        self.receivers: list[Callable[[float], None]] = []
        self._count, self._oldest = count, oldest

    def oldest_seconds(self) -> float:
        """Return the age of the oldest change."""
        return self._oldest

    def rejected_objects(self) -> int:
        """Return as many objects as wait."""
        return self._count

    def __len__(self) -> int:
        """Return the number of objects."""
        return self._count


@pytest.mark.slow
def test_controllers_of_equal_names_share_their_series() -> None:
    """The controllers of a fleet's clusters have equal names: all of them count until they end."""
    hook = PrometheusHook(CollectorRegistry())
    first, second = Changes(2, 5.0), Changes(1, 7.0)
    for changes in (first, second):
        hook.record(Workers(controller="c", limit=1, queue=QUEUE, generations=changes))
        for receive in changes.receivers:
            receive(0.2)
    text = hook.expose().decode()
    assert 'opsdk_controller_unobserved_generations{controller="c"} 3.0' in text
    assert 'opsdk_controller_oldest_unobserved_generation_seconds{controller="c"} 7.0' in text
    assert 'opsdk_controller_observed_generation_seconds_count{controller="c"} 2.0' in text
    assert 'opsdk_controller_rejected_objects{controller="c"} 3.0' in text
    del second, changes
    gc.collect()
    assert 'opsdk_controller_unobserved_generations{controller="c"} 2.0' in hook.expose().decode()


def test_requests_for_leases_count_twice() -> None:
    """They count among all requests, and apart from them with equal labels."""
    hook = PrometheusHook(CollectorRegistry())
    for resource in ("leases", "pods"):
        info = RequestInfo(verb="update", resource=resource)
        hook.record(Requested(method="PUT", host="h", status=503, seconds=0.1, request=info))
    text = hook.expose().decode()
    assert 'rest_client_requests_total{code="503",host="h",method="PUT"} 2.0' in text
    assert 'opsdk_lease_requests_total{code="503",host="h",method="PUT"} 1.0' in text


def test_receivers_of_queue_events_have_each_event() -> None:
    """A receiver of opsdk overrides each method of `QueueHooks`; one of an author needs only those that it uses."""
    events = {name for name, member in vars(QueueHooks).items() if not name.startswith("_") and callable(member)}
    queue = FakeQueue()
    combined = Hooks([TelemetryHook(), PrometheusHook()]).queue_hooks("c", queue)
    for receiver in (combined, PrometheusHook().queue_hooks("c", queue), TelemetryHook().queue_hooks("c", queue)):
        for event in events:
            assert getattr(receiver, event) != getattr(QueueHooks, event).__get__(receiver)
    for event in events:
        getattr(QueueHooks(), event)(*([1.0] if event in ("taken", "finished") else []))
