"""The panels of the dashboard by row."""

from __future__ import annotations

from typing import Final, NamedTuple

from opsdk.monitoring.alert import Feature
from opsdk.monitoring.declaration import Objective
from opsdk.monitoring.service_level import late_share

RATE_INTERVAL: Final = "$__rate_interval"
"""Grafana's variable for the range of a rate: at least four scrapes."""
CONTROLLER_MATCHER: Final = 'controller=~"$controller"'
"""Selects the controllers that the reader of the dashboard has chosen."""
_CONTROLLER: Final = "{{controller}}"
"""The controller of a series, in the text of a legend."""


class Panel(NamedTuple):
    """One graph.

    Attributes:
        title: a few words.
        unit: of Grafana, such as ``s`` or ``reqps``.
        queries: with `SELECTOR`, each with the text of its legend.
        description: one sentence.
    """

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    description: str


class Row(NamedTuple):
    """A row of panels, of operators with a feature."""

    title: str
    feature: Feature
    panels: tuple[Panel, ...]


def _rate(metric: str, by: str, matcher: str = "") -> str:
    labels = ",".join(filter(None, ["@", matcher]))
    return f"sum by ({by}) (rate({metric}{{{labels}}}[{RATE_INTERVAL}]))"


def _quantile(share: float, metric: str, by: str, matcher: str = "") -> str:
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', f'le, {by}', matcher)})"


def _max(metric: str, by: str, matcher: str = "") -> str:
    return f"max by ({by}) ({metric}{{{','.join(filter(None, ['@', matcher]))}}})"


def _controller_rate(metric: str, legend: str) -> tuple[str, str]:
    return _rate(metric, "controller", CONTROLLER_MATCHER), f"{_CONTROLLER} {legend}"


def _controller_max(metric: str, legend: str = "") -> tuple[str, str]:
    return _max(metric, "controller", CONTROLLER_MATCHER), f"{_CONTROLLER} {legend}".rstrip()


def _controller_percentiles(metric: str, *percentiles: int) -> tuple[tuple[str, str], ...]:
    return tuple(
        (_quantile(each / 100, metric, "controller", CONTROLLER_MATCHER), f"{_CONTROLLER} p{each}")
        for each in percentiles
    )


_OBSERVED: Final = "opsdk_controller_observed_generation_seconds"


def service_level_row(objective: Objective) -> Row:
    """Return the panels of the service level."""
    budget = f"{100 * (1 - objective.share):.4g} %"
    return Row(
        "Service level",
        Feature.CONTROLLERS,
        (
            Panel(
                "Late changes of specs",
                "percentunit",
                tuple((f"{late_share(window)}{{@}}", window) for window in ("5m", "1h", "6h")),
                f"The share that took more than {objective.seconds:g} s. The objective allows {budget}.",
            ),
            Panel(
                "Time until a change is observed",
                "s",
                _controller_percentiles(_OBSERVED, 50, 99),
                "From a change of the spec until status.observedGeneration shows it, or a reconcile of it succeeds.",
            ),
            Panel(
                "Changes that wait",
                "short",
                (
                    _controller_max("opsdk_controller_unobserved_generations", "objects"),
                    _controller_max("opsdk_controller_oldest_unobserved_generation_seconds", "oldest, seconds"),
                    _controller_max("opsdk_controller_rejected_objects", "rejected"),
                ),
                "Objects whose change was not handled yet, the age of the oldest, and failed objects without a retry.",
            ),
        ),
    )


_CONTROLLERS: Final = Row(
    "Controllers",
    Feature.CONTROLLERS,
    (
        Panel(
            "Reconciles by result",
            "ops",
            (
                (
                    _rate("controller_runtime_reconcile_total", "controller, result", CONTROLLER_MATCHER),
                    "{{controller}} {{result}}",
                ),
            ),
            "Reconciles per second.",
        ),
        Panel(
            "Duration of reconciles",
            "s",
            _controller_percentiles("controller_runtime_reconcile_time_seconds", 50, 99),
            "Requests and waits included.",
        ),
        Panel(
            "Workers",
            "short",
            (
                _controller_max("controller_runtime_active_workers", "busy"),
                _controller_max("controller_runtime_max_concurrent_reconciles", "limit"),
            ),
            "If all workers are busy, requests wait in the queue.",
        ),
        Panel(
            "Failures",
            "ops",
            (
                _controller_rate("controller_runtime_reconcile_errors_total", "errors"),
                _controller_rate("controller_runtime_terminal_reconcile_errors_total", "terminal"),
                _controller_rate("controller_runtime_reconcile_timeouts_total", "timeouts"),
                _controller_rate("opsdk_controller_hot_loops_total", "hot loops"),
            ),
            "Terminal errors are not retried.",
        ),
        Panel(
            "Paused objects",
            "short",
            (
                _controller_max("opsdk_controller_paused_objects", "objects"),
                _controller_max("opsdk_controller_paused", "itself"),
            ),
            "Objects that a pause holds back, and 1 for a paused controller.",
        ),
    ),
)

_QUEUES: Final = Row(
    "Queues",
    Feature.CONTROLLERS,
    (
        Panel(
            "Depth",
            "short",
            ((f"sum by (controller) (workqueue_depth{{@,{CONTROLLER_MATCHER}}})", "{{controller}}"),),
            "Requests that are ready and wait for a worker.",
        ),
        Panel(
            "Wait in the queue",
            "s",
            _controller_percentiles("workqueue_queue_duration_seconds", 99),
            "From ready until a worker takes the request. The buckets are powers of ten.",
        ),
        Panel(
            "Longest running reconcile",
            "s",
            (_controller_max("workqueue_longest_running_processor_seconds"),),
            "A line that climbs is a reconcile that hangs.",
        ),
        Panel(
            "Requests and retries",
            "ops",
            (
                _controller_rate("workqueue_adds_total", "added"),
                _controller_rate("workqueue_retries_total", "retried"),
            ),
            "Items added per second.",
        ),
    ),
)

_CACHES: Final = Row(
    "Caches",
    Feature.ALWAYS,
    (
        Panel("Objects", "short", ((_max("opsdk_informer_objects", "informer"), "{{informer}}"),), "In the stores."),
        Panel("Bytes", "bytes", ((_max("opsdk_informer_bytes", "informer"), "{{informer}}"),), "In the stores."),
        Panel(
            "Age",
            "s",
            (
                (_max("opsdk_informer_seconds_since_contact", "pod, informer"), "{{informer}} contact"),
                (_max("opsdk_informer_seconds_without_watch", "pod, informer"), "{{informer}} without watch"),
            ),
            "Seconds since the last event or bookmark, and since the watch was lost.",
        ),
        Panel(
            "Lists, watches and errors",
            "ops",
            (
                (_rate("opsdk_informer_lists_total", "informer"), "{{informer}} lists"),
                (_rate("opsdk_informer_watches_total", "informer"), "{{informer}} watches"),
                (_rate("opsdk_informer_errors_total", "informer"), "{{informer}} errors"),
            ),
            "A list of all objects means that the history was lost.",
        ),
        Panel(
            "Events",
            "ops",
            ((_rate("opsdk_informer_events_total", "informer"), "{{informer}}"),),
            "Watch events, bookmarks included.",
        ),
    ),
)

_REQUESTS: Final = Row(
    "API requests",
    Feature.ALWAYS,
    (
        Panel(
            "Requests by status",
            "reqps",
            ((_rate("rest_client_requests_total", "code, method"), "{{method}} {{code}}"),),
            "`<error>` is a request without a response.",
        ),
        Panel(
            "Duration of requests",
            "s",
            (
                (_quantile(0.5, "rest_client_request_duration_seconds", "verb"), "{{verb}} p50"),
                (_quantile(0.99, "rest_client_request_duration_seconds", "verb"), "{{verb}} p99"),
            ),
            "Watches count until their head.",
        ),
        Panel(
            "Size of responses",
            "Bps",
            ((_rate("rest_client_response_size_bytes_sum", "verb"), "{{verb}}"),),
            "Bytes per second, without watches.",
        ),
    ),
)

_WEBHOOKS: Final = Row(
    "Webhooks",
    Feature.WEBHOOKS,
    (
        Panel(
            "Requests by status",
            "reqps",
            ((_rate("controller_runtime_webhook_requests_total", "webhook, code"), "{{webhook}} {{code}}"),),
            "A denied object is a 200.",
        ),
        Panel(
            "Duration",
            "s",
            ((_quantile(0.99, "controller_runtime_webhook_latency_seconds", "webhook"), "{{webhook}} p99"),),
            "Users wait for it at each write.",
        ),
        Panel(
            "In flight",
            "short",
            ((_max("controller_runtime_webhook_requests_in_flight", "webhook"), "{{webhook}}"),),
            "Requests that are being handled.",
        ),
    ),
)

_LEADERSHIP: Final = Row(
    "Leadership",
    Feature.LEADER_ELECTION,
    (
        Panel(
            "Leader",
            "short",
            ((_max("leader_election_master_status", "pod"), "{{pod}}"),),
            "1 for the replica that leads.",
        ),
        Panel(
            "Requests for Leases",
            "reqps",
            ((_rate("opsdk_lease_requests_total", "code, method"), "{{method}} {{code}}"),),
            "Renewals of the leader, and reads of the others.",
        ),
        Panel(
            "Slow renewals",
            "ops",
            ((_rate("leader_election_slowpath_total", "name"), "{{name}}"),),
            "Renewals that had to read the Lease first.",
        ),
    ),
)

_PROCESS: Final = Row(
    "Event loop and process",
    Feature.ALWAYS,
    (
        Panel(
            "Event loop",
            "percentunit",
            ((_rate("opsdk_event_loop_stall_seconds_total", "pod"), "{{pod}} blocked"),),
            "The share of time for which code blocked the event loop.",
        ),
        Panel("Memory", "bytes", ((_max("process_resident_memory_bytes", "pod"), "{{pod}}"),), "Resident memory."),
        Panel("CPU", "short", ((_rate("process_cpu_seconds_total", "pod"), "{{pod}}"),), "Cores."),
        Panel("Open files", "short", ((_max("process_open_fds", "pod"), "{{pod}}"),), "Sockets included."),
        Panel(
            "Uptime",
            "s",
            (("time() - max by (pod) (process_start_time_seconds{@})", "{{pod}}"),),
            "A line that falls is a restart.",
        ),
    ),
)

_FLEET: Final = Row(
    "Fleet",
    Feature.FLEET,
    (
        Panel(
            "Clusters by state",
            "short",
            (("sum by (state) (opsdk_fleet_clusters{@})", "{{state}}"),),
            "Clusters or shards of all replicas.",
        ),
        Panel(
            "Clusters that are not ready",
            "short",
            (("count by (reason) (opsdk_fleet_cluster_ready{@} == 0) or vector(0)", "{{reason}}"),),
            "By reason.",
        ),
    ),
)

ROWS: Final = (_CONTROLLERS, _QUEUES, _CACHES, _REQUESTS, _WEBHOOKS, _LEADERSHIP, _PROCESS, _FLEET)
"""The rows after the service level."""
