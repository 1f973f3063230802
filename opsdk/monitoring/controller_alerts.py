"""Alerts on controllers, their queues, webhooks, and the clusters of a fleet."""

from __future__ import annotations

from typing import Final

from opsdk.monitoring.alert import Alert, AlertSeverity, Feature
from opsdk.monitoring.conditions import BUSY, CAUSE, CONFLICTING, ERRORS, FAILING, SLOW, THROTTLED

_WHY: Final = "`opsdk why --controller CONTROLLER --last 10`: the last reconciles, with their errors"
_TOP: Final = "`opsdk top`: queues, workers and the longest reconcile of each controller"
_HOT_LOOPS: Final = "increase(opsdk_controller_hot_loops_total{@}[5m]) > 0"
_OF_CONTROLLER: Final = "unless on (namespace, job, controller)"

CONTROLLER_ALERTS: Final = (
    Alert(
        name="OpsdkReconcilesFail",
        query=f"{ERRORS}{{@}} {CAUSE} {FAILING}{{@}} {CAUSE} {THROTTLED}{{@}} {CAUSE} {CONFLICTING}{{@}}",
        hold=60,
        severity=AlertSeverity.WARNING,
        summary="Reconciles of the operator fail.",
        description="{{ $value | humanizePercentage }} of the reconciles of the controller {{ $labels.controller }} "
        "fail.",
        meaning="The reconciler raises errors, and requests to the API server work. Each failed request is retried "
        "with "
        "growing delays.",
        look=(
            "`opsdk top`: the objects that fail, with their errors",
            _WHY,
            "`opsdk replay RECORDINGS`: if it records, the failed reconciles; `--to-reconcile N` shows what one saw",
            "`kubectl logs deployment/OPERATOR | grep controller=CONTROLLER`: errors with their stack",
            "`kubectl get events --field-selector type=Warning`: what the operator reported",
        ),
        causes=(
            "A bug in the reconciler, often since a release.",
            "An external system that the reconciler calls is down.",
            "The operator lacks a permission (403), or a quota or a webhook refuses its writes.",
            "A user wrote a spec that cannot work.",
        ),
        actions=(
            "Roll back if the errors began with a release.",
            "Raise `TerminalError` for specs that cannot work, and show the reason in a condition.",
            "Make a test of one of the failures: `opsdk replay RECORDINGS --to-reconcile N --cut TEST`.",
            "Without a recording, `opsdk why NAMESPACE/NAME --export-test FILE` does that.",
        ),
        feature=Feature.CONTROLLERS,
    ),
    Alert(
        name="OpsdkWorkersBusy",
        query=f"""
        {BUSY}{{@}} {_OF_CONTROLLER} {_HOT_LOOPS}
        {CAUSE} {FAILING}{{@}} {CAUSE} {THROTTLED}{{@}} {CAUSE} {SLOW}{{@}}
        """,
        hold=60,
        severity=AlertSeverity.WARNING,
        summary="All workers of a controller are busy, and requests wait.",
        description="{{ $value }} requests of the controller {{ $labels.controller }} wait for a worker.",
        meaning="The controller has had more work than workers for a minute. Changes of specs wait in its queue.",
        look=(_TOP, _WHY, "`/debug/queues` of the debug pages: what waits, and what runs"),
        causes=(
            "Reconciles became slow: an external system, or a wait inside of the reconciler.",
            "Many objects changed at once, for example after a release. Then the queue shrinks by itself.",
            "A reconcile hangs, and no `reconciliation_timeout` ends it.",
        ),
        actions=(
            "Raise `max_concurrent_reconciles`: most reconciles wait for responses and cost little CPU.",
            "Return `Result(requeue_after=...)` instead of waiting inside of the reconciler.",
            "Set `reconciliation_timeout`.",
        ),
        feature=Feature.CONTROLLERS,
    ),
    Alert(
        name="OpsdkSpecChangesWait",
        query=f"""
        max by (namespace, job, controller) (opsdk_controller_oldest_unobserved_generation_seconds{{@}}) > 60
        {_OF_CONTROLLER} {BUSY}{{@}} {_OF_CONTROLLER} {ERRORS}{{@}} {_OF_CONTROLLER} opsdk_controller_paused{{@}} == 1
        {CAUSE} {FAILING}{{@}} {CAUSE} {THROTTLED}{{@}} {CAUSE} {SLOW}{{@}} {CAUSE} {CONFLICTING}{{@}}
        """,
        hold=30,
        severity=AlertSeverity.WARNING,
        summary="A change of a spec has no effect.",
        description="The controller {{ $labels.controller }} has not handled a change for {{ $value | "
        "humanizeDuration }}.",
        meaning="A user changed the spec of an object, and the controller has neither reconciled it successfully nor "
        "written `status.observedGeneration`. Most other objects are well.",
        look=(
            "`opsdk why --controller CONTROLLER`: reconciles that fail, and objects that wait",
            "`kubectl get KIND --all-namespaces --output yaml`: the generation and the observed generation",
        ),
        causes=(
            "The reconcile of this object fails each time, and its retries are far apart.",
            "Its reconcile hangs on one worker.",
            "The retry limit is reached, so nothing retries it until the next event.",
        ),
        actions=(
            "Read the error of the object, and correct its spec or the reconciler.",
            "Request a reconcile after that: `opsdk reconcile KIND NAMESPACE/NAME`.",
        ),
        feature=Feature.CONTROLLERS,
    ),
    Alert(
        name="OpsdkObjectsRejected",
        query=f"""
        max by (namespace, job, controller) (opsdk_controller_rejected_objects{{@}}) > 0
        {_OF_CONTROLLER} {ERRORS}{{@}}
        {CAUSE} {FAILING}{{@}} {CAUSE} {THROTTLED}{{@}} {CAUSE} {CONFLICTING}{{@}}
        """,
        hold=30,
        severity=AlertSeverity.WARNING,
        summary="The operator has given up objects.",
        description="The controller {{ $labels.controller }} retries {{ $value }} objects no more.",
        meaning="The last reconcile of an object ended with an error that only a change of its spec can mend, or with "
        "the last attempt of its retry limit. The alert ends when the object is mended or deleted.",
        look=(
            "`opsdk why --controller CONTROLLER`: the objects, with their errors",
            "`kubectl get events --field-selector type=Warning`: what the operator reported",
        ),
        causes=(
            "A user wrote a spec that cannot work: the reconciler raised `TerminalError`.",
            "The API server rejects a child as invalid (422), for example the change of an immutable field.",
            "The retry limit is reached.",
        ),
        actions=(
            "Correct the spec of the object; its event starts a reconcile.",
            "Delete a child with an immutable field, if that is safe: `opsdk reconcile KIND NAMESPACE/NAME` retries.",
            "Reject such specs earlier: with a rule of the definition or a validating webhook.",
        ),
        feature=Feature.CONTROLLERS,
    ),
    Alert(
        name="OpsdkHotLoop",
        query=_HOT_LOOPS,
        hold=0,
        severity=AlertSeverity.WARNING,
        summary="A reconcile causes itself again and again.",
        description="The controller {{ $labels.controller }} writes in each reconcile what causes the next one.",
        meaning="A reconcile writes an object, the event of this write queues the same request, and so on. The "
        "operator "
        "slows it down.",
        look=("`kubectl get events --field-selector reason=HotLoop`: the object and the write", _WHY),
        causes=(
            "The reconciler writes a time, a counter or a random value in each pass.",
            "It writes a list in another order each time.",
            "Another controller or a webhook changes the written object back.",
        ),
        actions=(
            "Write only what differs: `ctx.apply` and `ctx.status` do.",
            "Sort lists that come from sets or dicts.",
        ),
        feature=Feature.CONTROLLERS,
    ),
    Alert(
        name="OpsdkWritersFight",
        query="increase(opsdk_apply_contentions_total{@}[5m]) > 0",
        hold=0,
        severity=AlertSeverity.WARNING,
        summary="Another writer undoes what the operator applies.",
        description="Children of the kind {{ $labels.kind }} are changed back after each apply.",
        meaning="Two writers want different values of the same field. The operator applies again with growing pauses.",
        look=(
            "`kubectl get KIND NAME --output yaml --show-managed-fields`: the other field manager",
            "`kubectl logs deployment/OPERATOR | grep 'apply again'`: the field and both writers",
        ),
        causes=(
            "An autoscaler sets `replicas`, which the operator applies too.",
            "Another operator, a GitOps tool or a person manages the same child.",
        ),
        actions=("Leave the field out of the desired object, or remove the other writer.",),
        feature=Feature.CONTROLLERS,
    ),
    Alert(
        name="OpsdkRegistrationDiffers",
        query='max by (namespace, job, object) (opsdk_registered_object_faults{@,critical="true"}) > 0',
        hold=300,
        severity=AlertSeverity.CRITICAL,
        summary="An object that the operator registered differs from its declaration.",
        description="{{ $labels.object }} has {{ $value }} differences that the operator cannot restore.",
        meaning="The API server does not call the operator as declared: it stores objects of another version without a "
        "conversion, skips a webhook, or does not serve a version. Objects may lose fields.",
        look=(
            "`opsdk doctor`: each difference with advice",
            "`kubectl logs deployment/OPERATOR | grep CustomResourceDefinition`: since when, and which writer",
            "`/debug/registered` of the debug pages: each object, and whether it is watched",
        ),
        causes=(
            "An upgrade or a restored backup replaced the definition or the webhook configuration.",
            "Another tool applies an older manifest again and again.",
            "The role of the operator lacks `patch` on the object.",
            "An older version of the operator runs with definitions of a newer one.",
        ),
        actions=(
            "Apply the definitions and configurations of the running version: `opsdk generate manifests`.",
            "Apply the roles again: `opsdk generate rbac`.",
            "Remove the object from the manifests of the other writer.",
        ),
        feature=Feature.WEBHOOKS,
    ),
    Alert(
        name="OpsdkRegistrationOutdated",
        query='max by (namespace, job, object) (opsdk_registered_object_faults{@,critical="false"}) > 0',
        hold=3600,
        severity=AlertSeverity.WARNING,
        summary="An object that the operator registered has differed from its declaration for an hour.",
        description="{{ $labels.object }} has {{ $value }} differences that an update causes for minutes only.",
        meaning="A definition stores another version, or lacks a version, a subresource or a field of the operator's "
        "class. Or a webhook configuration has other contents, or the role lacks `watch`. Without the field or the "
        "subresource, the API server drops what the operator writes there.",
        look=(
            "`opsdk doctor`: each difference with advice",
            "`kubectl logs deployment/OPERATOR | grep -e Definition -e Configuration`: since when, and which writer",
        ),
        causes=(
            "An update of the operator did not end: two versions of it run.",
            "A downgrade, another manager or a restored backup replaced the definition or the configuration.",
        ),
        actions=(
            "Apply the definitions and configurations of the running version: `opsdk generate manifests`.",
            "Rewrite the objects after another storage version: `opsdk.recipes.migrate_storage_version`.",
        ),
        feature=Feature.ALWAYS,
    ),
    Alert(
        name="OpsdkWebhooksFail",
        query="""
        sum by (namespace, job, webhook) (rate(controller_runtime_webhook_requests_total{@,code=~"5.."}[1m]))
        / sum by (namespace, job, webhook) (rate(controller_runtime_webhook_requests_total{@}[1m])) > 0.05
        """,
        hold=60,
        severity=AlertSeverity.CRITICAL,
        summary="Webhooks of the operator fail.",
        description="{{ $value | humanizePercentage }} of the requests to the webhook {{ $labels.webhook }} fail.",
        meaning="A handler raises an exception. With `failurePolicy: Fail`, users cannot write the kind at all.",
        look=("`kubectl logs deployment/OPERATOR | grep webhook`: the exceptions with their stack",),
        causes=("A bug in a handler, often with an object that it does not expect.", "A handler exceeds its timeout."),
        actions=(
            "Roll back if the errors began with a release.",
            "Deny an object with `AdmissionDeniedError` instead of another exception.",
        ),
        feature=Feature.WEBHOOKS,
    ),
    Alert(
        name="OpsdkClusterNotReady",
        query="max by (namespace, job, cluster) (opsdk_fleet_cluster_ready{@}) == 0",
        hold=300,
        severity=AlertSeverity.WARNING,
        summary="A cluster of the fleet cannot be reached.",
        description="The operator has not worked in the cluster {{ $labels.cluster }} for five minutes.",
        meaning="The API server of the cluster does not answer, or refuses the operator. The other clusters go on.",
        look=("`opsdk_fleet_cluster_ready` has the reason as a label", "`/readyz?verbose` of a replica"),
        causes=("The cluster is down.", "Its kubeconfig has expired.", "The network between the clusters is cut."),
        actions=("Write a new kubeconfig into its Secret.", "Remove clusters that no longer exist from the fleet."),
        feature=Feature.FLEET,
    ),
)
