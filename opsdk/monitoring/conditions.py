"""Conditions that several alerts use: the causes, without which a symptom is no news.

Each condition is a recording rule that has a value while it holds. An alert on a symptom excludes the causes that have
alerts of their own, so one fault fires one alert.
"""

from __future__ import annotations

from typing import Final

from opsdk.monitoring.alert import Feature, RecordingRule

_POD: Final = "namespace, job, pod"
CAUSE: Final = "unless on (namespace, job)"


def _rate(metric: str, matcher: str, by: str = _POD) -> str:
    return f"sum by ({by}) (rate({metric}{{{','.join(filter(None, ['@', matcher]))}}}[1m]))"


def _without_leases(matcher: str) -> str:
    """Return the rate of requests that are not for Leases. An idle operator has only those for Leases."""
    every, leases = _rate("rest_client_requests_total", matcher), _rate("opsdk_lease_requests_total", matcher)
    return f"({every} - {leases}) or {every}"


_WRITES: Final = 'method=~"PUT|PATCH"'
# Requests per second below which a share says nothing: less than one in a minute.
_FEW: Final = "0.015"


def _share(part: str, whole: str, limit: float) -> str:
    """Return the query of a share of recorded requests above a limit."""
    return f"{part}{{@}} / {whole}{{@}} > {limit:g} and {part}{{@}} > {_FEW}"


_ALL_REQUESTS: Final = "opsdk:api_requests:rate1m"
_FAILED: Final = "opsdk:api_requests_failed:rate1m"
_THROTTLED: Final = "opsdk:api_requests_throttled:rate1m"
_ALL_WRITES: Final = "opsdk:api_writes:rate1m"
_CONFLICTS: Final = "opsdk:api_conflicts:rate1m"
FAILING: Final = "opsdk:api_requests:failing"
THROTTLED: Final = "opsdk:api_requests:throttled"
SLOW: Final = "opsdk:api_requests:slow"
CONFLICTING: Final = "opsdk:api_writes:conflicting"
RELISTING: Final = "opsdk:informer:relisting"
RESTARTING: Final = "opsdk:operator:restarting"
BUSY: Final = "opsdk:controller:busy"
ERRORS: Final = "opsdk:controller:failing"

CONDITIONS: Final = (
    RecordingRule(_ALL_REQUESTS, _without_leases("")),
    RecordingRule(_FAILED, _without_leases('code=~"5..|<error>"')),
    RecordingRule(_THROTTLED, _without_leases('code="429"')),
    RecordingRule(_ALL_WRITES, _without_leases(_WRITES)),
    RecordingRule(_CONFLICTS, _without_leases(f'code="409",{_WRITES}')),
    RecordingRule(
        FAILING,
        f"""
        ({_share(_FAILED, _ALL_REQUESTS, 0.05)})
        or ({_rate("rest_client_requests_total", 'code="<error>"')} > 0
        unless {_rate("rest_client_requests_total", 'code!="<error>"')} > 0)
        """,
    ),
    RecordingRule(THROTTLED, _share(_THROTTLED, _ALL_REQUESTS, 0.05)),
    RecordingRule(
        SLOW,
        f"""
        1 - {_rate("rest_client_request_duration_seconds_bucket", 'le="0.5"')}
        / {_rate("rest_client_request_duration_seconds_count", "")} > 0.25
        and {_rate("rest_client_request_duration_seconds_count", "")} > {_FEW}
        """,
    ),
    RecordingRule(CONFLICTING, _share(_CONFLICTS, _ALL_WRITES, 0.1)),
    RecordingRule(RELISTING, "increase(opsdk_informer_lists_total{@}[2m]) >= 4"),
    RecordingRule(RESTARTING, "changes(process_start_time_seconds{@}[5m]) >= 3"),
    RecordingRule(
        BUSY,
        """
        sum by (namespace, job, controller) (workqueue_depth{@}) > 0
        and sum by (namespace, job, controller) (controller_runtime_active_workers{@})
        >= sum by (namespace, job, controller) (controller_runtime_max_concurrent_reconciles{@})
        """,
        Feature.CONTROLLERS,
    ),
    RecordingRule(
        ERRORS,
        f"""
        {_rate("controller_runtime_reconcile_errors_total", "", "namespace, job, controller")}
        / {_rate("controller_runtime_reconcile_total", "", "namespace, job, controller")} > 0.2
        """,
        Feature.CONTROLLERS,
    ),
)
"""The rates and the conditions, each before those that use it."""
