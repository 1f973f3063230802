"""Records as Prometheus metrics, under controller-runtime's names, so that its dashboards work."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from opsdk.telemetry.records import Hook, Leadership, Queued, Reconciled, Record, Result, Workers

_RECONCILE_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip
_QUEUE_BUCKETS = tuple(10e-9 * 10**power for power in range(12))
# More different priorities than this share one label value: labels must not grow without bound.
_MAX_PRIORITIES = 25
_TOO_MANY = "exceeded_cardinality_limit"


class PrometheusHook(Hook):
    """Counts records in a registry of its own, or in one that is passed in."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._priorities: set[int] = set()
        self._make_reconcile()
        self._make_queue()
        self._leader = Gauge(
            "leader_election_master_status", "1 while this replica leads.", ["name"], registry=self.registry
        )

    def _make_reconcile(self) -> None:
        name, labels, r = "controller_runtime", ["controller"], self.registry
        self._total = Counter(f"{name}_reconcile", "Reconciles by result.", [*labels, "result"], registry=r)
        self._errors = Counter(f"{name}_reconcile_errors", "Reconciles that failed.", labels, registry=r)
        self._terminal = Counter(
            f"{name}_terminal_reconcile_errors", "Reconciles that failed for good.", labels, registry=r
        )
        self._panics = Counter(
            f"{name}_reconcile_panics", "Reconciles that raised what no reconciler should.", labels, registry=r
        )
        self._timeouts = Counter(
            f"{name}_reconcile_timeouts", "Reconciles ended by their time limit.", labels, registry=r
        )
        self._seconds = Histogram(
            f"{name}_reconcile_time_seconds",
            "How long a reconcile took.",
            labels,
            registry=r,
            buckets=_RECONCILE_BUCKETS,
        )
        self._limit = Gauge(f"{name}_max_concurrent_reconciles", "Workers.", labels, registry=r)
        self._active = Gauge(f"{name}_active_workers", "Workers at work.", labels, registry=r)

    def _make_queue(self) -> None:
        labels, r = ["name", "controller"], self.registry
        self._depth = Gauge("workqueue_depth", "Ready items.", [*labels, "priority"], registry=r)
        self._adds = Counter("workqueue_adds", "Items queued.", labels, registry=r)
        self._retries = Counter("workqueue_retries", "Items queued again after a failure.", labels, registry=r)
        self._waited = Histogram(
            "workqueue_queue_duration_seconds", "How long items were ready.", labels, registry=r, buckets=_QUEUE_BUCKETS
        )
        self._worked = Histogram(
            "workqueue_work_duration_seconds", "How long items took.", labels, registry=r, buckets=_QUEUE_BUCKETS
        )

    def record(self, record: Record) -> None:
        """Count it."""
        match record:
            case Reconciled():
                self._reconciled(record)
            case Workers():
                self._active.labels(record.controller).set(record.active)
                self._limit.labels(record.controller).set(record.limit)
            case Queued():
                self._queued(record)
            case Leadership():
                self._leader.labels(record.name).set(1 if record.leading else 0)

    def _reconciled(self, record: Reconciled) -> None:
        name = record.controller
        self._total.labels(name, record.result.value).inc()
        self._seconds.labels(name).observe(record.seconds)
        # A counter exists from the first reconcile on, at zero, so that alerts on its rate work.
        self._errors.labels(name).inc(record.result is Result.ERROR)
        self._terminal.labels(name).inc(record.terminal)
        self._panics.labels(name).inc(record.crashed)
        self._timeouts.labels(name).inc(record.timed_out)

    def _queued(self, record: Queued) -> None:
        labels = (record.controller, record.controller)
        match record.event:
            case "added":
                self._adds.labels(*labels).inc()
            case "retried":
                self._retries.labels(*labels).inc()
            case "taken":
                self._waited.labels(*labels).observe(record.seconds)
            case "finished":
                self._worked.labels(*labels).observe(record.seconds)
        depth = dict.fromkeys((self._label(p) for p in self._priorities), 0)
        for priority, count in record.depth:
            label = self._label(priority)
            depth[label] = depth.get(label, 0) + count
        for label, count in depth.items():
            self._depth.labels(*labels, label).set(count)

    def _label(self, priority: int) -> str:
        if priority in self._priorities:
            return str(priority)
        if len(self._priorities) >= _MAX_PRIORITIES:
            return _TOO_MANY
        self._priorities.add(priority)
        return str(priority)

    def expose(self) -> bytes:
        """Everything in the text form that Prometheus scrapes."""
        return generate_latest(self.registry)
