"""Records as Prometheus metrics, with controller-runtime's names, so its dashboards work.

Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller/metrics/metrics.go, pkg/metrics/workqueue.go,
pkg/metrics/leaderelection.go; k8s.io/component-base/metrics/prometheus/restclient/metrics.go (v1.36)
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakSet

import msgspec

from opsdk.telemetry.build_info import BuildInfoCollector
from opsdk.telemetry.records import (
    CertificateRead,
    Contended,
    ControllerPaused,
    DaemonChanged,
    GenerationsView,
    HotLoopFound,
    Leadership,
    LoopStalled,
    PausedObjects,
    Queued,
    QueueHooks,
    QueueView,
    Reconciled,
    ReconcileOutcome,
    Record,
    RegisteredFaults,
    RenewedSlowly,
    Requested,
    TelemetryHook,
    WebhookLoad,
    WebhookServed,
    Workers,
)
from opsdk.telemetry.safe_logger import SafeLogger
from opsdk.telemetry.series import Counters, Gauges, Histograms, LoopHistogramSeries

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.registry import Collector

__all__ = ["PrometheusHook"]

log = SafeLogger(__name__)

_RECONCILE_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip
_REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZE_BUCKETS = (64, 256, 512, *(1024 * 4**power for power in range(8)))
_WEBHOOK_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
GENERATION_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of ``opsdk_controller_observed_generation_seconds``: the thresholds that a service level may have."""
_QUEUE_BUCKETS = tuple(10e-9 * 10**power for power in range(12))
# Further priorities share one label value, to bound the number of series (as in controller-runtime).
_MAX_PRIORITIES = 25
_LEASES = "leases"
_OVERFLOW_LABEL = "exceeded_cardinality_limit"


class PrometheusHook(TelemetryHook):
    """Counts records, and shows them in `registry`; the default is a new registry with the process's own metrics.

    Args:
        registry: also for metrics of your own.
        now: the clock of the work queues, in seconds.

    >>> from prometheus_client import CollectorRegistry, Gauge
    >>> hook = PrometheusHook(CollectorRegistry())
    >>> sites = Gauge("sites", "Sites that are up.", registry=hook.registry)
    >>> sites.set(3)
    >>> b"sites 3.0" in hook.expose()
    True
    """

    def __init__(self, registry: CollectorRegistry | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._collectors: list[Callable[[], Collector]] = []
        self._now = now
        self._priorities: set[int] = set()
        self._queues: dict[str, QueueView] = {}
        # The controllers of a fleet's clusters have equal names.
        self._generations: dict[str, WeakSet[GenerationsView]] = {}
        self._create_reconcile_metrics()
        self._create_queue_metrics()
        self._create_request_metrics()
        self._create_webhook_metrics()
        self._leader = Gauges("leader_election_master_status", "1 while this replica is the leader, else 0.", ["name"])
        self._leases = Counters(
            "opsdk_lease_requests", "Requests for Leases, which hold elections.", ["code", "method", "host"]
        )
        self._slow_renewals = Counters(
            "leader_election_slowpath", "Lease renewals that had to read the Lease first.", ["name"]
        )
        self._contentions = Counters(
            "opsdk_apply_contentions",
            "Applies of an unchanged desired object after another writer undid them, from the fifth on.",
            ["field_owner", "kind"],
        )
        self._daemons = Gauges(
            "opsdk_controller_daemons",
            "Daemons of objects that run or wait for their restart.",
            ["controller", "daemon"],
        )
        self._daemon_failures = Counters(
            "opsdk_controller_daemon_failures", "Daemons of objects that raised an exception.", ["controller", "daemon"]
        )
        self._longest_stall = 0.0
        self._stalls = Counters("opsdk_event_loop_stall_seconds", "Total time for which the event loop was blocked.")
        self._longest_stall_gauge = Gauges(
            "opsdk_event_loop_longest_stall_seconds", "Longest time for which the event loop was blocked."
        )
        for metric in (self._stalls, self._certificates, self._certificate_errors, *self._webhook_panics.values()):
            metric.inc(by=0)
        self._longest_stall_gauge.set(0)
        if registry is not None:
            self.registry = self._register_in(registry)

    @cached_property
    def registry(self) -> CollectorRegistry:
        """Shows all metrics. The library is imported on first access: a program without scrapes does not need it."""
        from prometheus_client import (
            CollectorRegistry,
            GCCollector,
            PlatformCollector,
            ProcessCollector,
        )

        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(BuildInfoCollector())
        return self._register_in(registry)

    @property
    def content_type(self) -> str:
        """The media type of `expose`."""
        from prometheus_client import CONTENT_TYPE_LATEST

        return CONTENT_TYPE_LATEST

    def add_collector(self, make: Callable[[], Collector]) -> None:
        """Add a collector to `registry`; `make` is called when the registry is first read."""
        if "registry" in self.__dict__:
            self.registry.register(make())
        else:
            self._collectors.append(make)

    def _register_in(self, registry: CollectorRegistry) -> CollectorRegistry:
        series = [value for value in vars(self).values() if isinstance(value, Counters | Gauges | Histograms)]
        for metric in (*series, *self._webhook_panics.values()):
            registry.register(metric)
        for make in self._collectors:
            registry.register(make())
        return registry

    def _create_reconcile_metrics(self) -> None:
        """Create the metrics of controllers, with controller-runtime's names."""
        name, labels = "controller_runtime", ["controller"]
        self._total = Counters(f"{name}_reconcile", "Reconciles by result.", [*labels, "result"])
        self._errors = Counters(f"{name}_reconcile_errors", "Reconciles that failed.", labels)
        self._terminal = Counters(
            f"{name}_terminal_reconcile_errors", "Reconciles with a terminal error, which are not retried.", labels
        )
        self._panics = Counters(
            f"{name}_reconcile_panics", "Reconciles that raised CancelledError without being cancelled.", labels
        )
        self._timeouts = Counters(
            f"{name}_reconcile_timeouts", "Reconciles cancelled by reconciliation_timeout.", labels
        )
        self._seconds = Histograms(
            f"{name}_reconcile_time_seconds",
            "Duration of reconciles.",
            labels,
            buckets=_RECONCILE_BUCKETS,
            form=LoopHistogramSeries,  # a controller and its queue run in one loop
        )
        self._hot_loops = Counters(
            "opsdk_controller_hot_loops", "Requests that reconciled themselves again and again.", labels
        )
        self._controller_paused = Gauges("opsdk_controller_paused", "1 while the controller is paused, else 0.", labels)
        self._paused = Gauges("opsdk_controller_paused_objects", "Objects that a pause holds back now.", labels)
        self._observed = Histograms(
            "opsdk_controller_observed_generation_seconds",
            "Seconds from a change of a spec until it was observed or reconciled.",
            labels,
            buckets=GENERATION_BUCKETS,
        )
        self._unobserved = Gauges(
            "opsdk_controller_unobserved_generations",
            "Objects whose change of the spec was not observed or reconciled yet.",
            labels,
        )
        self._oldest_unobserved = Gauges(
            "opsdk_controller_oldest_unobserved_generation_seconds",
            "Seconds since the oldest change of a spec that was not observed or reconciled yet.",
            labels,
        )
        self._rejected = Gauges(
            "opsdk_controller_rejected_objects",
            "Objects whose last reconcile failed, and that are not retried until their next event.",
            labels,
        )
        self._limit = Gauges(f"{name}_max_concurrent_reconciles", "Workers of the controller.", labels)
        self._active = Gauges(f"{name}_active_workers", "Workers that run a reconcile now.", labels)

    def _create_request_metrics(self) -> None:
        """Create the metrics of requests to API servers, with client-go's names."""
        # client-go's label `verb` is the HTTP method, as `method` is.
        name, labels = "rest_client", ["verb", "host"]
        self._request_series: dict[tuple[str, str, str], _RequestSeries] = {}
        self._requests = Counters(f"{name}_requests", "Requests to API servers.", ["code", "method", "host"])
        self._request_seconds = Histograms(
            f"{name}_request_duration_seconds", "Duration of requests.", labels, buckets=_REQUEST_BUCKETS
        )
        self._throttled = Histograms(
            f"{name}_rate_limiter_duration_seconds",
            "Time that requests waited for the client-side rate limiter.",
            labels,
            buckets=_REQUEST_BUCKETS,
        )
        self._sent = Histograms(f"{name}_request_size_bytes", "Size of request bodies.", labels, buckets=_SIZE_BUCKETS)
        self._received = Histograms(
            f"{name}_response_size_bytes", "Size of response bodies.", labels, buckets=_SIZE_BUCKETS
        )
        self._retried = Counters(f"{name}_request_retries", "Retries of requests.", ["code", *labels])

    def _create_webhook_metrics(self) -> None:
        """Create the metrics of webhooks and of their certificates, with controller-runtime's names."""
        name, labels = "controller_runtime", ["webhook"]
        self._webhook_seconds = Histograms(
            f"{name}_webhook_latency_seconds",
            "Duration of webhook requests.",
            labels,
            buckets=_WEBHOOK_BUCKETS,
        )
        self._webhook_requests = Counters(
            f"{name}_webhook_requests", "Webhook requests by HTTP status.", [*labels, "code"]
        )
        self._webhooks_in_flight = Gauges(f"{name}_webhook_requests_in_flight", "Webhook requests in flight.", labels)
        self._webhook_panics = {
            "admission": Counters(f"{name}_webhook_panics", "Handlers that raised an unexpected exception."),
            "conversion": Counters(
                f"{name}_conversion_webhook_panics", "Conversions that raised an unexpected exception."
            ),
        }

        self._registered_faults = Gauges(
            "opsdk_registered_object_faults",
            "Differences of a registered object from its declaration that the operator cannot restore.",
            ["object", "critical"],
        )
        self._certificates = Counters("certwatcher_read_certificate", "Reads of serving certificates.")
        self._certificate_errors = Counters(
            "certwatcher_read_certificate_errors", "Serving certificates that could not be loaded."
        )

    def _create_queue_metrics(self) -> None:
        """Create the metrics of work queues, with controller-runtime's names."""
        labels = ["name", "controller"]
        self._depth = Gauges("workqueue_depth", "Ready items.", [*labels, "priority"])
        self._adds = Counters("workqueue_adds", "Items added to the queue.", labels)
        self._retries = Counters("workqueue_retries", "Items added again after a failure.", labels)
        self._waited = Histograms(
            "workqueue_queue_duration_seconds",
            "Time that items were ready before a worker took them.",
            labels,
            buckets=_QUEUE_BUCKETS,
            form=LoopHistogramSeries,
        )
        self._worked = Histograms(
            "workqueue_work_duration_seconds",
            "Time from taking an item until it was done.",
            labels,
            buckets=_QUEUE_BUCKETS,
            form=LoopHistogramSeries,
        )
        self._unfinished = Gauges(
            "workqueue_unfinished_work_seconds", "Total processing time so far of the items being processed.", labels
        )
        self._longest = Gauges(
            "workqueue_longest_running_processor_seconds",
            "Processing time so far of the longest running item.",
            labels,
        )

    def record(self, record: Record) -> None:
        """Update the metrics of one record."""
        match record:
            case Reconciled():
                self._record_reconcile(record)
            case Requested():
                self._record_request(record)
            case Queued():
                self._record_queue(record)
            case _:
                self._record_other(record)

    def queue_hooks(self, controller: str, queue: QueueView) -> QueueHooks:
        """Return the series of the queue. Each reconcile has three events."""
        self._queues[controller] = queue
        return _QueueSeries(
            added=self._adds.series(controller, controller).inc,
            retried=self._retries.series(controller, controller).inc,
            taken=self._waited.series(controller, controller).observe,
            finished=self._worked.series(controller, controller).observe,
        )

    def _record_queue(self, record: Queued) -> None:
        """Count an event that another hook passes on."""
        hooks = self.queue_hooks(record.controller, record.queue)
        match record.event:
            case "added":
                hooks.added()
            case "retried":
                hooks.retried()
            case "taken":
                hooks.taken(record.seconds)
            case "finished":
                hooks.finished(record.seconds)

    def _record_other(self, record: Record) -> None:
        """Count a record that comes less often than once for each reconcile or request."""
        match record:
            case Workers():
                self._record_workers(record)
            case LoopStalled():
                self._stalls.inc(by=record.seconds)
                self._longest_stall = max(self._longest_stall, record.seconds)
                self._longest_stall_gauge.set(self._longest_stall)
            case Leadership():
                self._leader.set(1 if record.leading else 0, record.name)
                self._slow_renewals.inc(record.name, by=0)
            case RenewedSlowly():
                self._slow_renewals.inc(record.name)
            case WebhookLoad() | WebhookServed():
                self._record_webhook(record)
            case DaemonChanged() | PausedObjects() | ControllerPaused() | HotLoopFound():
                self._record_controller(record)
            case Contended():
                self._contentions.inc(record.field_owner, record.kind)
            case RegisteredFaults():
                self._registered_faults.set(record.critical, record.object, "true")
                self._registered_faults.set(record.others, record.object, "false")
            case CertificateRead():
                self._certificates.inc()
                self._certificate_errors.inc(by=record.failed)

    def _record_controller(self, record: DaemonChanged | PausedObjects | ControllerPaused | HotLoopFound) -> None:
        match record:
            case DaemonChanged():
                self._daemons.set(record.running, record.controller, record.daemon)
                self._daemon_failures.inc(record.controller, record.daemon, by=record.event == "failed")
            case PausedObjects():
                self._paused.set(record.count, record.controller)
            case ControllerPaused():
                self._controller_paused.set(record.paused, record.controller)
            case HotLoopFound():
                self._hot_loops.inc(record.controller)

    def _record_webhook(self, record: WebhookLoad | WebhookServed) -> None:
        name = record.webhook
        if isinstance(record, WebhookServed):
            self._webhook_requests.inc(name, str(record.status))
            self._webhook_seconds.observe(record.seconds, name)
            if record.panicked:
                self._webhook_panics[record.panicked].inc()
            return
        self._webhooks_in_flight.set(record.in_flight, name)
        # Create every series at zero, so that alerts on its rate work.
        self._webhook_seconds.series(name)
        for code in ("200", "500"):
            self._webhook_requests.inc(name, code, by=0)

    def _record_request(self, record: Requested) -> None:
        code = str(record.status) if record.status else "<error>"
        method, host = record.method, record.host
        if (series := self._request_series.get((code, method, host))) is None:
            series = self._request_series[code, method, host] = _RequestSeries(
                ended=self._requests.series(code, method, host).inc,
                seconds=self._request_seconds.series(method, host).observe,
                sent=self._sent.series(method, host).observe,
            )
        series.ended()
        series.seconds(record.seconds)
        series.sent(record.sent_bytes)
        if record.received_bytes is not None:
            self._received.series(method, host).observe(record.received_bytes)
        if record.request is not None and record.request.resource == _LEASES:
            self._leases.inc(code, method, host)
        if record.throttled is not None:
            self._throttled.observe(record.throttled, method, host)
        if record.attempt:
            self._retried.inc(code, method, host)

    def _record_workers(self, record: Workers) -> None:
        name = record.controller
        # Create every series at zero, so that alerts on its rate work.
        for result in ReconcileOutcome:
            self._total.inc(name, result.value, by=0)
        for metric in (self._errors, self._terminal, self._panics, self._timeouts):
            metric.inc(name, by=0)
        self._seconds.series(name)
        self._paused.set(0, name)
        self._hot_loops.inc(name, by=0)
        self._limit.set(record.limit, name)
        self._queues[name] = record.queue
        if record.generations is not None:
            record.generations.receivers.append(self._observed.series(name).observe)
            self._generations.setdefault(name, WeakSet()).add(record.generations)

    def _record_reconcile(self, record: Reconciled) -> None:
        name = record.controller
        self._total.series(name, record.result._value_).inc()  # `value` is a property: two calls
        if record.result is ReconcileOutcome.PAUSED:
            return  # the time of a pass that did nothing is not that of a reconcile
        self._seconds.series(name).observe(record.seconds)
        if record.result is ReconcileOutcome.ERROR:
            self._errors.inc(name)
            self._terminal.inc(name, by=record.terminal)
            self._panics.inc(name, by=record.panicked)
        if record.timed_out:
            self._timeouts.inc(name)

    def _priority_label(self, priority: int) -> str:
        if priority in self._priorities:
            return str(priority)
        if len(self._priorities) >= _MAX_PRIORITIES:
            return _OVERFLOW_LABEL
        self._priorities.add(priority)
        return str(priority)

    def histograms(self) -> list[Histograms]:
        """Return the histograms that records fill."""
        return [value for value in vars(self).values() if isinstance(value, Histograms)]

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of `registry` with their present values."""
        for name, queue in self._queues.items():
            self._read_queue(name, queue)
        for name, views in self._generations.items():
            self._unobserved.set(sum(map(len, views)), name)
            self._oldest_unobserved.set(max((view.oldest_seconds() for view in views), default=0.0), name)
            self._rejected.set(sum(view.rejected_objects() for view in views), name)
        yield from _WithoutCreated(self.registry).collect()

    def expose(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        from prometheus_client import generate_latest

        return generate_latest(self)

    def _read_queue(self, name: str, queue: QueueView) -> None:
        """Set the gauges of a queue. Only a scrape shows them, so only a scrape reads them."""
        now = self._now()
        seconds = [now - began for began in queue.processing().values()]
        self._active.set(len(seconds), name)
        self._unfinished.set(sum(seconds), name, name)
        self._longest.set(max(seconds, default=0), name, name)
        depth = {self._priority_label(priority): 0 for priority in (0, *self._priorities)}
        for priority, count in queue.depth().items():
            label = self._priority_label(priority)
            depth[label] = depth.get(label, 0) + count
        for label, count in depth.items():
            self._depth.set(count, name, name, label)


class MetricsExporter(TelemetryHook):
    """A hook that exports the metrics of a `PrometheusHook` elsewhere, too."""

    @abstractmethod
    def export_metrics(self, metrics: PrometheusHook) -> None:
        """Begin to export. A manager calls it once, at its start, with its own metrics."""


def export_metrics(metrics: PrometheusHook, hooks: Iterable[TelemetryHook]) -> None:
    """Export metrics through each hook that exports some. A failure is logged: telemetry stops no program."""
    for hook in hooks:
        if isinstance(hook, MetricsExporter):
            try:
                hook.export_metrics(metrics)
            except Exception:
                log.exception("the telemetry hook %r cannot export metrics", hook)


class _RequestSeries(msgspec.Struct, frozen=True):
    """The series of the requests with one code, method and host: found at once, and not one by one."""

    ended: Callable[[], None]
    seconds: Callable[[float], None]
    sent: Callable[[float], None]


class _QueueSeries(QueueHooks):
    """The series of one queue. The methods are those of the series: each reconcile calls three of them."""

    never_raises = True

    def __init__(
        self,
        *,
        added: Callable[[], None],
        retried: Callable[[], None],
        taken: Callable[[float], None],
        finished: Callable[[float], None],
    ) -> None:
        self.added = added  # type: ignore[method-assign]
        self.retried = retried  # type: ignore[method-assign]
        self.taken = taken  # type: ignore[assignment, method-assign]
        self.finished = finished  # type: ignore[assignment, method-assign]


class _WithoutCreated:
    """A registry without ``_created`` samples: they double the page, and no dashboard uses them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric
