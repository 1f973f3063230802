"""Alerts on informers: what the operator knows of the cluster."""

from __future__ import annotations

from typing import Final

from opsdk.monitoring.alert import Alert, AlertSeverity
from opsdk.monitoring.conditions import CAUSE, FAILING, RELISTING

_READYZ: Final = "`/readyz?verbose` of a replica: the check `caches-synced` has the last error of each informer"
_TOP: Final = "`opsdk top`: informers with their age and their errors"

INFORMER_ALERTS: Final = (
    Alert(
        name="OpsdkInformerDisconnected",
        query=f"""
        (opsdk_informer_seconds_without_watch{{@}} > 60
        or (opsdk_informer_ready{{@}} == 0
        and on (namespace, job, pod) time() - process_start_time_seconds{{@}} > 300))
        {CAUSE} {FAILING}{{@}}
        """,
        hold=15,
        severity=AlertSeverity.CRITICAL,
        summary="An informer of the operator has no watch.",
        description="{{ $labels.informer }} of {{ $labels.pod }} has not followed its objects for a minute.",
        meaning="The API server refuses or ends each watch of this resource, or has refused its list since the "
        "start. The "
        "operator works with old objects of this kind, and the replica is not ready.",
        look=(_READYZ, _TOP, "`kubectl get RESOURCE --watch`: whether the server lets others watch"),
        causes=(
            "The role of the operator lost `watch` or `list` for the resource.",
            "The CustomResourceDefinition was removed, or its API server (aggregated) is down.",
            "The watch cache of the API server does not follow etcd, or a proxy refuses long requests.",
        ),
        actions=(
            "Check permissions with `opsdk doctor`, and apply the roles again.",
            "Install the definition again: the informer continues by itself.",
            "If other clients cannot watch either, follow the runbook of the API server.",
        ),
    ),
    Alert(
        name="OpsdkInformerSilent",
        query=f"""
        opsdk_informer_seconds_since_contact{{@}} > 90
        and opsdk_informer_seconds_without_watch{{@}} == 0
        {CAUSE} {FAILING}{{@}}
        """,
        hold=0,
        severity=AlertSeverity.WARNING,
        summary="A watch of the operator is open and silent.",
        description="{{ $labels.informer }} of {{ $labels.pod }} had no event and no bookmark for {{ $value | "
        "humanizeDuration }}.",
        meaning="An API server sends a bookmark about once a minute. Without one, the connection is dead or the "
        "server is "
        "behind, and the operator works with old objects. It opens a new watch after 150 seconds.",
        look=(_TOP, _READYZ),
        causes=(
            "A firewall or load balancer drops idle connections without closing them.",
            "The watch cache of the API server is behind etcd.",
        ),
        actions=(
            "Raise the idle timeout of what is between the operator and the API server above two minutes.",
            "Compare the resource version of an object in `kubectl get --watch` with that of `kubectl get`.",
        ),
    ),
    Alert(
        name="OpsdkWatchesBreak",
        query=f"""
        (increase(opsdk_informer_errors_total{{@}}[2m]) >= 3
        and max_over_time(opsdk_informer_seconds_without_watch{{@}}[1m]) < 50)
        unless on (namespace, job, pod, informer) {RELISTING}{{@}}
        {CAUSE} {FAILING}{{@}}
        """,
        hold=60,
        severity=AlertSeverity.WARNING,
        summary="Watches of the operator break again and again.",
        description="{{ $labels.informer }} of {{ $labels.pod }} lost its watch {{ $value }} times in two minutes.",
        meaning="Watches last for five to ten minutes. These break much sooner. No event is lost: the informer resumes "
        "where it was. Events come late, and each interruption costs requests.",
        look=(_READYZ, _TOP),
        causes=(
            "A proxy or load balancer ends connections after a short time.",
            "The API server restarts, or sheds load.",
        ),
        actions=(
            "Raise the timeouts of proxies for long requests above ten minutes.",
            "Look at the restarts of the API server.",
        ),
    ),
    Alert(
        name="OpsdkInformerRelists",
        query=f"{RELISTING}{{@}} {CAUSE} {FAILING}{{@}}",
        hold=30,
        severity=AlertSeverity.WARNING,
        summary="An informer of the operator lists all objects again and again.",
        description="{{ $labels.informer }} of {{ $labels.pod }} listed all objects {{ $value }} times in two minutes.",
        meaning="The API server no longer has the history after the last event (410 Gone), so the informer lists all "
        "objects. With many objects this is most of the load of an API server.",
        look=(
            _READYZ,
            _TOP,
            "`apiserver_watch_cache_events_dispatched_total` of the API server: which resource changes so fast",
        ),
        causes=(
            "The resource changes so fast that the watch cache forgets events within seconds.",
            "etcd is compacted too often, or was restored from a backup.",
            "A proxy in front of several API servers sends watches to one that is behind.",
        ),
        actions=(
            "Find the writer that changes the resource so often.",
            "Check `--etcd-compaction-interval` of the API server.",
        ),
    ),
    Alert(
        name="OpsdkObjectsUndecodable",
        query="increase(opsdk_informer_undecodable_total{@}[5m]) > 0",
        hold=0,
        severity=AlertSeverity.WARNING,
        summary="The operator cannot read some objects, and ignores them.",
        description="{{ $labels.informer }} of {{ $labels.pod }} has objects that do not fit their class.",
        meaning="An object in the cluster does not decode. The operator sets it aside, and reconciles all others.",
        look=("`kubectl logs deployment/OPERATOR | grep decode`: the object and the field", _READYZ),
        causes=(
            "The CustomResourceDefinition allows what the class does not: they are of different versions.",
            "The schema has `x-kubernetes-preserve-unknown-fields`, or validation was added after the object.",
        ),
        actions=(
            "Generate the definition from the class and apply it: `opsdk generate crd`.",
            "Correct the object that the log names.",
        ),
    ),
)
