"""Alerts on the processes of an operator: down, restarts, leadership, the event loop."""

from __future__ import annotations

from typing import Final

from opsdk.monitoring.alert import Alert, AlertSeverity, Feature
from opsdk.monitoring.conditions import CAUSE, FAILING, RESTARTING

PROCESS_ALERTS: Final = (
    Alert(
        name="OpsdkOperatorDown",
        query="absent(up{@} == 1)",
        hold=60,
        severity=AlertSeverity.CRITICAL,
        summary="No replica of the operator runs.",
        description="Prometheus has reached no replica for a minute. Changes of specs have no effect.",
        meaning="Prometheus reaches none of the replicas. Either they do not run, or Prometheus cannot read their "
        "metrics. While they do not run, changes of specs have no effect, and webhooks fail.",
        look=(
            "`kubectl get pods --namespace NAMESPACE`: whether replicas run, and why not",
            "`kubectl logs deployment/OPERATOR --previous`: the last line of a process that ended names its error",
            "`kubectl get servicemonitor --all-namespaces`, and the targets page of Prometheus: whether it scrapes",
        ),
        causes=(
            "The pod cannot be scheduled, or its image cannot be pulled.",
            "The process ends at its start: a permission, a CustomResourceDefinition or a flag is missing.",
            "The node is lost, and no other one has room.",
            "A NetworkPolicy or a missing role keeps Prometheus away from the metrics.",
        ),
        actions=(
            "If no pod runs, read its events and the log of its previous container, and remove the reason.",
            "Check permissions and definitions with `opsdk doctor`.",
            "If pods run, label the namespace of Prometheus with `metrics=enabled`, and bind the role of readers.",
        ),
    ),
    Alert(
        name="OpsdkOperatorRestarts",
        query=f"{RESTARTING}{{@}} {CAUSE} {FAILING}{{@}}",
        hold=0,
        severity=AlertSeverity.CRITICAL,
        summary="The operator restarts again and again.",
        description="The process of {{ $labels.pod }} has started {{ $value }} times in five minutes.",
        meaning="A replica ends soon after its start. Each start lists all objects again, and the work of a few "
        "seconds "
        "in between is all that gets done.",
        look=(
            "`kubectl logs POD --previous`: the last lines of the process that ended",
            "`kubectl describe pod POD`: the exit code, and whether it was killed for its memory (`OOMKilled`)",
            "`opsdk why --last 10`: which reconcile ran before the end",
        ),
        causes=(
            "The memory limit is too low for the number of objects (`OOMKilled`).",
            "The liveness probe fails because a reconciler blocks the event loop.",
            "The lease is lost again and again, and the process ends each time.",
            "A bug ends the process, for example in a runnable of the operator's own.",
        ),
        actions=(
            "After `OOMKilled`, raise the limit, or cache less: metadata only, fewer namespaces, a label selector.",
            "Roll back if the restarts began with a release.",
            "Move blocking code into plain `def` reconcilers, which run in threads.",
        ),
    ),
    Alert(
        name="OpsdkNoLeader",
        query=f"""
        max by (namespace, job) (leader_election_master_status{{@}}) == 0
        {CAUSE} {FAILING}{{@}} {CAUSE} {RESTARTING}{{@}}
        """,
        hold=75,
        severity=AlertSeverity.CRITICAL,
        summary="No replica of the operator leads.",
        description="Replicas run, and none of them holds the Lease. Changes of specs have no effect.",
        meaning="Only the leader reconciles. The replicas run and reach the API server, but none can acquire or "
        "renew the "
        "Lease.",
        look=(
            "`kubectl get lease --namespace NAMESPACE OPERATOR --output yaml`: who holds it, and since when",
            "`kubectl logs deployment/OPERATOR | grep lease`: why a renewal failed",
            "`sum by (code) (rate(opsdk_lease_requests_total[5m]))`: the status of requests for Leases",
        ),
        causes=(
            "The role for Leases is missing in the operator's namespace (status 403).",
            "An admission webhook or a quota refuses writes of Leases.",
            "Another program holds a Lease of the same name.",
            "The former leader was cut off, and the Lease has not expired yet.",
        ),
        actions=(
            "Apply the roles again: `opsdk generate rbac`.",
            "Delete the Lease if its holder no longer exists. A replica leads after one more lease duration.",
        ),
        feature=Feature.LEADER_ELECTION,
    ),
    Alert(
        name="OpsdkEventLoopBlocked",
        query="rate(opsdk_event_loop_stall_seconds_total{@}[1m]) > 0.1",
        hold=60,
        severity=AlertSeverity.WARNING,
        summary="Code of the operator blocks its event loop.",
        description="The event loop of {{ $labels.pod }} was blocked for {{ $value | humanizePercentage }} of the "
        "time.",
        meaning="A function computes or waits without `await`. Meanwhile no other reconcile, webhook or probe runs in "
        "this process.",
        look=(
            "`kubectl logs POD | grep blocked`: the watchdog logs the stack of the code that blocks",
            "`/debug/tasks` of the debug pages: the tasks that run now, with their stacks",
        ),
        causes=(
            "A reconciler calls a blocking library, such as `requests` or a database driver.",
            "A predicate or an index function is slow, and runs for each event.",
            "The CPU limit is too low: the process is throttled.",
        ),
        actions=(
            "Declare the reconciler with a plain `def`: it runs in a thread.",
            "Use an async library, or `asyncio.to_thread`.",
            "Raise the CPU limit, or remove it.",
        ),
    ),
    Alert(
        name="OpsdkRecordingEnded",
        query="opsdk_recording_active{@} == 0 or opsdk_recording_skipped_records_total{@} > 0",
        hold=0,
        severity=AlertSeverity.WARNING,
        summary="The operator is not recorded any more.",
        description="The flight recorder of {{ $labels.pod }} has failed or skipped records. A replay ends there.",
        meaning="The operator works as before. `opsdk replay` shows what happened until the recorder failed, and "
        "nothing after it. The next start of the process records again. Operators without a recording have no such "
        "metrics.",
        look=(
            "`kubectl logs POD | grep 'the recording ends'`: the error of the disk",
            "`/debug/recording` of the debug pages: directory, size, skipped records and the error",
            "`kubectl exec POD -- df`: whether the volume is full",
        ),
        causes=(
            "The volume is smaller than `max_bytes` of `RecordingOptions`, or other files fill it.",
            "The disk is too slow: 64 MiB of records waited for it.",
            "The volume fails, or was removed.",
        ),
        actions=(
            "Copy the files if the time before is of interest.",
            "Make room, enlarge the volume, or lower `max_bytes`; then restart the Pod.",
        ),
    ),
)
