"""Alerts on requests to API servers."""

from __future__ import annotations

from typing import Final

from opsdk.monitoring.alert import Alert, AlertSeverity
from opsdk.monitoring.conditions import CAUSE, CONFLICTING, FAILING, SLOW, THROTTLED

_CODES: Final = "`sum by (code, method) (rate(rest_client_requests_total[1m]))`: the status of requests"
_REQUEST_LOG: Final = "`--log-levels opsdk.requests=debug`: each request with its status and duration"

REQUEST_ALERTS: Final = (
    Alert(
        name="OpsdkApiRequestsFail",
        query=FAILING + "{@}",
        hold=30,
        severity=AlertSeverity.CRITICAL,
        summary="Requests of the operator to the API server fail.",
        description="{{ $value | humanizePercentage }} of the requests of {{ $labels.pod }} get status 5xx or no "
        "response.",
        meaning="The API server answers with 5xx, or not at all. Requests for Leases do not count, unless nothing is "
        "answered. The operator retries with growing delays, and continues by itself when the server is back.",
        look=(
            _CODES + "; `<error>` is a request without a response",
            "`kubectl get --raw /readyz?verbose`: whether the API server is healthy",
            "`kubectl logs deployment/OPERATOR`: the errors name the request and the reason",
        ),
        causes=(
            "The API server or etcd is overloaded, restarts, or is being upgraded.",
            "The network between the operator and the API server drops packets, or a load balancer has no back end.",
            "An admission webhook of another program fails, so writes get 500.",
            "An aggregated API server is down, so requests for its groups get 503.",
        ),
        actions=(
            "Follow the runbook of the API server: the operator needs nothing.",
            "If only writes fail, look for the webhook in the message, and repair it or its `failurePolicy`.",
            "If there are no responses, check NetworkPolicies, DNS and the load balancer.",
        ),
    ),
    Alert(
        name="OpsdkApiRequestsThrottled",
        query=f"{THROTTLED}{{@}} {CAUSE} {FAILING}{{@}}",
        hold=30,
        severity=AlertSeverity.WARNING,
        summary="The API server throttles the operator.",
        description="{{ $value | humanizePercentage }} of the requests of {{ $labels.pod }} get status 429.",
        meaning="Priority and fairness of the API server limits the operator. Reconciles wait for `Retry-After`, and "
        "take longer.",
        look=(
            _CODES,
            "`kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels`: which level is full",
            "`opsdk top`: which controller is busy",
        ),
        causes=(
            "The operator sends many requests: reads that are not cached, or writes that change nothing.",
            "Other clients fill the same priority level.",
        ),
        actions=(
            (
                "Read from the cache, apply with `ctx.apply`, which sends nothing without a difference, and use fewer "
                "workers."
            ),
            "Give the operator's service account a FlowSchema and a priority level of its own.",
        ),
    ),
    Alert(
        name="OpsdkApiRequestsSlow",
        query=f"{SLOW}{{@}} {CAUSE} {FAILING}{{@}} {CAUSE} {THROTTLED}{{@}}",
        hold=45,
        severity=AlertSeverity.WARNING,
        summary="The API server answers the operator slowly.",
        description="{{ $value | humanizePercentage }} of the requests of {{ $labels.pod }} take more than half a "
        "second.",
        meaning="Each reconcile waits for its requests, so all of them take longer.",
        look=(
            "`histogram_quantile(0.9, sum by (le, verb) (rate(rest_client_request_duration_seconds_bucket[5m])))`",
            _REQUEST_LOG,
            "`opsdk why --last 5`: how long each request of a reconcile took",
        ),
        causes=(
            "The API server or etcd is overloaded.",
            "Admission webhooks are slow: they count for each write.",
            "The operator lists large collections from the server instead of its cache.",
        ),
        actions=(
            "Compare with `apiserver_request_duration_seconds` of the server: if that is low, look at the network.",
            "Find slow webhooks by `apiserver_admission_webhook_admission_duration_seconds`.",
            "Use the cache, or `limit`, for large lists.",
        ),
    ),
    Alert(
        name="OpsdkWritesConflict",
        query=f"{CONFLICTING}{{@}} {CAUSE} {FAILING}{{@}} {CAUSE} {THROTTLED}{{@}} {CAUSE} {SLOW}{{@}}",
        hold=30,
        severity=AlertSeverity.WARNING,
        summary="Writes of the operator conflict with other writes.",
        description="{{ $value | humanizePercentage }} of the updates and patches of {{ $labels.pod }} get status 409.",
        meaning="Another client changes the same objects between the read and the write of a reconcile. Each conflict "
        "costs a retry; single ones are normal.",
        look=(
            _CODES,
            "`kubectl get KIND NAME --output yaml --show-managed-fields`: which clients write the object",
            "`opsdk why NAMESPACE/NAME`: which write conflicted",
        ),
        causes=(
            "Two replicas or two operators reconcile the same objects, because leader election is off.",
            "Another controller writes the objects often.",
            "A reconciler updates whole objects that it read long before.",
        ),
        actions=(
            "Turn on leader election.",
            "Apply or patch only the fields that the operator owns, instead of updates of whole objects.",
        ),
    ),
)
