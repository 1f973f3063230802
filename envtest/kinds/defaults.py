"""Defaults of the built-in kinds besides pods. Each function fills in a tree that the caller owns."""

from __future__ import annotations

from envtest.kinds.core import label_namespace, secret_strings
from envtest.kinds.pod_defaults import pod, put, sources, template
from envtest.kinds.service_rules import externally_accessible
from envtest.kinds.typed import Defaults
from opsdk.structured_merge.value import JsonObject


def deployment(obj: JsonObject) -> None:
    """Four strategies' worth of numbers."""
    spec = obj.setdefault("spec", {})
    put(spec, replicas=1)
    template(spec)
    strategy = spec.setdefault("strategy", {})
    put(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        put(strategy, rollingUpdate={})
        put(strategy["rollingUpdate"], maxUnavailable="25%", maxSurge="25%")
    put(spec, revisionHistoryLimit=10, progressDeadlineSeconds=600)


def replica_set(obj: JsonObject) -> None:
    """One replica."""
    spec = obj.setdefault("spec", {})
    put(spec, replicas=1)
    template(spec)


def replication_controller(obj: JsonObject) -> None:
    """The selector is the template's labels."""
    spec = obj.setdefault("spec", {})
    put(spec, replicas=1)
    template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        put(spec, selector=dict(labels))
        meta = obj.setdefault("metadata", {})
        put(meta, labels=dict(labels))


def stateful_set(obj: JsonObject) -> None:
    """Ordered, rolling."""
    spec = obj.setdefault("spec", {})
    put(spec, podManagementPolicy="OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        put(strategy, rollingUpdate={})
    # Who names the type and nothing else gets nothing else.
    if strategy["type"] == "RollingUpdate" and isinstance(strategy.get("rollingUpdate"), dict):
        put(strategy["rollingUpdate"], partition=0)
    put(spec, persistentVolumeClaimRetentionPolicy={})
    put(spec["persistentVolumeClaimRetentionPolicy"], whenDeleted="Retain", whenScaled="Retain")
    put(spec, replicas=1, revisionHistoryLimit=10)
    template(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim_defaults(claim)


def daemon_set(obj: JsonObject) -> None:
    """One pod at a time."""
    meta = obj.setdefault("metadata", {})
    meta["annotations"] = {"deprecated.daemonset.template.generation": "0", **(meta.get("annotations") or {})}
    spec = obj.setdefault("spec", {})
    template(spec)
    strategy = spec.setdefault("updateStrategy", {})
    put(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        put(strategy, rollingUpdate={})
        put(strategy["rollingUpdate"], maxUnavailable=1, maxSurge=0)
    put(spec, revisionHistoryLimit=10)


def job(obj: JsonObject) -> None:
    """One completion, six tries."""
    job_spec(obj.setdefault("spec", {}))
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        put(obj.setdefault("metadata", {}), labels=dict(labels))


def job_spec(spec: JsonObject) -> None:
    """The spec of a job, also inside a cron job."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        put(spec, completions=1, parallelism=1)
    put(spec, parallelism=1)
    put(spec, backoffLimit=6 if spec.get("backoffLimitPerIndex") is None else 2147483647)
    put(spec, completionMode="NonIndexed", suspend=False)
    put(spec, podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    _patterns(spec)
    template(spec)


def _patterns(spec: JsonObject) -> None:
    """Conditions of pods are those that hold."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def cron_job(obj: JsonObject) -> None:
    """Allow concurrency, keep three successes and one failure."""
    spec = obj.setdefault("spec", {})
    put(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    # The job's own defaults come with the job; only those of its parts are here.
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    _patterns(inner)
    template(inner)


def service(obj: JsonObject) -> None:
    """Ports and affinity; addresses are allocated when it is created."""
    spec = obj.setdefault("spec", {})
    put(spec, sessionAffinity="None", type="ClusterIP")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    else:
        put(spec, sessionAffinityConfig={})
        put(spec["sessionAffinityConfig"], clientIP={})
        put(spec["sessionAffinityConfig"]["clientIP"], timeoutSeconds=10800)
    for port in spec.get("ports") or ():
        put(port, protocol="TCP", targetPort=port.get("port", 0))
        if port["targetPort"] in ("", 0):
            port["targetPort"] = port.get("port", 0)
    if externally_accessible(spec):
        put(spec, externalTrafficPolicy="Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer", "ClusterIP"):
        put(spec, internalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        put(spec, allocateLoadBalancerNodePorts=True)
        for point in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if point.get("ip"):
                put(point, ipMode="VIP")


def secret(obj: JsonObject) -> None:
    """Opaque; plain strings become data."""
    put(obj, type="Opaque")
    secret_strings(obj)


def claim_defaults(obj: JsonObject) -> None:
    """File systems, pending."""
    put(obj.setdefault("spec", {}), volumeMode="Filesystem")
    put(obj.setdefault("status", {}), phase="Pending")


def volume(obj: JsonObject) -> None:
    """Kept, a file system."""
    spec = obj.setdefault("spec", {})
    put(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    sources(spec)


def storage_class(obj: JsonObject) -> None:
    """Deleted with its claim, bound at once."""
    put(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def pod_template(obj: JsonObject) -> None:
    """Like any template."""
    template(obj)


def endpoints(obj: JsonObject) -> None:
    """Ports are TCP."""
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            put(port, protocol="TCP")


def endpoint_slice(obj: JsonObject) -> None:
    """Ports are TCP and have a name."""
    for port in obj.get("ports") or ():
        put(port, name="", protocol="TCP")


def role_binding(obj: JsonObject) -> None:
    """Groups of the API that subjects and roles belong to."""
    ref = obj.setdefault("roleRef", {})
    if not ref.get("apiGroup"):
        ref["apiGroup"] = "rbac.authorization.k8s.io"
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            put(subject, apiGroup="rbac.authorization.k8s.io")
            if not subject["apiGroup"]:
                subject["apiGroup"] = "rbac.authorization.k8s.io"


def network_policy(obj: JsonObject) -> None:
    """Ingress, and egress where rules for it are there."""
    spec = obj.setdefault("spec", {})
    for rules in ("ingress", "egress"):
        for rule in spec.get(rules) or ():
            for port in rule.get("ports") or ():
                put(port, protocol="TCP")
    put(spec, policyTypes=["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


def ingress_class(obj: JsonObject) -> None:
    """Parameters are cluster-wide."""
    parameters = (obj.get("spec") or {}).get("parameters")
    if isinstance(parameters, dict):
        put(parameters, scope="Cluster")


def horizontal_pod_autoscaler(obj: JsonObject) -> None:
    """At least one replica, 80 % of a CPU."""
    spec = obj.setdefault("spec", {})
    put(spec, minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if isinstance(behavior, dict):
        _scaling(behavior)


def _scaling(behavior: JsonObject) -> None:
    up = behavior.setdefault("scaleUp", {})
    put(
        up,
        stabilizationWindowSeconds=0,
        selectPolicy="Max",
        policies=[
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    )
    down = behavior.setdefault("scaleDown", {})
    put(down, selectPolicy="Max", policies=[{"type": "Percent", "value": 100, "periodSeconds": 15}])


def webhook_configuration(obj: JsonObject) -> None:
    """Fail, equivalent, ten seconds, all objects."""
    for hook in obj.get("webhooks") or ():
        put(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        put(hook, namespaceSelector={}, objectSelector={})
        if obj.get("kind") == "MutatingWebhookConfiguration":
            put(hook, reinvocationPolicy="Never")
        service_ref = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service_ref, dict):
            put(service_ref, port=443)
        for rule in hook.get("rules") or ():
            put(rule, scope="*")


def policy(obj: JsonObject) -> None:
    """Fail, equivalent, all objects."""
    spec = obj.setdefault("spec", {})
    put(spec, failurePolicy="Fail")
    constraints = spec.get("matchConstraints")
    if isinstance(constraints, dict):
        match_resources(constraints)


def policy_binding(obj: JsonObject) -> None:
    """Where a binding narrows, it does so like a policy."""
    resources = (obj.get("spec") or {}).get("matchResources")
    if isinstance(resources, dict):
        match_resources(resources)


def match_resources(match: JsonObject) -> None:
    """Equivalent versions, all namespaces, all objects, all scopes."""
    put(match, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for key in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(key) or ():
            put(rule, scope="*")


def api_service(obj: JsonObject) -> None:
    """HTTPS."""
    ref = (obj.get("spec") or {}).get("service")
    if isinstance(ref, dict):
        put(ref, port=443)


def csi_driver(obj: JsonObject) -> None:
    """The careful choices."""
    put(
        obj.setdefault("spec", {}),
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        volumeLifecycleModes=["Persistent"],
        requiresRepublish=False,
        seLinuxMount=False,
    )


def node(obj: JsonObject) -> None:
    """All there is can be used, unless somebody says otherwise; one range stands for the many."""
    status, spec = obj.get("status") or {}, obj.setdefault("spec", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    one, many = spec.get("podCIDR"), spec.get("podCIDRs")
    if one and (not many or many[0] != one):
        spec["podCIDRs"] = [one]
    elif many:
        spec["podCIDR"] = many[0]


def flow_schema(obj: JsonObject) -> None:
    """In the middle."""
    spec = obj.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def priority_level(obj: JsonObject) -> None:
    """Thirty shares; queues of the usual size."""
    spec = obj.setdefault("spec", {})
    if spec.get("type") == "Exempt":
        put(spec, exempt={})
        put(spec["exempt"], nominalConcurrencyShares=0, lendablePercent=0)
    limited = spec.get("limited")
    if isinstance(limited, dict):
        put(limited, nominalConcurrencyShares=30, lendablePercent=0)
        response = limited.get("limitResponse") or {}
        if response.get("type") == "Queue":
            put(response, queuing={})
            put(response["queuing"], queues=64, handSize=8, queueLengthLimit=50)


def priority_class(obj: JsonObject) -> None:
    """May preempt."""
    put(obj, preemptionPolicy="PreemptLowerPriority")


def limit_range(obj: JsonObject) -> None:
    """Limits are defaults for requests."""
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        default = item.get("default") or {}
        for name, amount in (item.get("max") or {}).items():
            default.setdefault(name, amount)
        requests = item.get("defaultRequest") or {}
        for source in (default, item.get("min") or {}):
            for name, amount in source.items():
                requests.setdefault(name, amount)
        for key, value in (("default", default), ("defaultRequest", requests)):
            if value:
                item[key] = value


def device_claim(obj: JsonObject) -> None:
    """One device of each."""
    _devices(obj.get("spec") or {})


def device_claim_template(obj: JsonObject) -> None:
    """One device of each."""
    _devices((obj.get("spec") or {}).get("spec") or {})


def _devices(spec: JsonObject) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for wanted in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if not isinstance(wanted, dict):
                continue
            put(wanted, allocationMode="ExactCount")
            if wanted["allocationMode"] == "ExactCount":
                put(wanted, count=1)
            for toleration in wanted.get("tolerations") or ():
                put(toleration, operator="Equal")


DEFAULTS: dict[str, Defaults] = {
    "resource.k8s.io/resourceclaims": device_claim,
    "resource.k8s.io/resourceclaimtemplates": device_claim_template,
    "/pods": pod,
    "/podtemplates": pod_template,
    "/namespaces": label_namespace,
    "/services": service,
    "/secrets": secret,
    "/endpoints": endpoints,
    "/persistentvolumeclaims": claim_defaults,
    "/persistentvolumes": volume,
    "/replicationcontrollers": replication_controller,
    "/limitranges": limit_range,
    "/nodes": node,
    "flowcontrol.apiserver.k8s.io/flowschemas": flow_schema,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": priority_level,
    "apps/deployments": deployment,
    "apps/replicasets": replica_set,
    "apps/statefulsets": stateful_set,
    "apps/daemonsets": daemon_set,
    "batch/jobs": job,
    "batch/cronjobs": cron_job,
    "storage.k8s.io/storageclasses": storage_class,
    "storage.k8s.io/csidrivers": csi_driver,
    "discovery.k8s.io/endpointslices": endpoint_slice,
    "rbac.authorization.k8s.io/rolebindings": role_binding,
    "rbac.authorization.k8s.io/clusterrolebindings": role_binding,
    "networking.k8s.io/networkpolicies": network_policy,
    "networking.k8s.io/ingressclasses": ingress_class,
    "autoscaling/horizontalpodautoscalers": horizontal_pod_autoscaler,
    "admissionregistration.k8s.io/validatingwebhookconfigurations": webhook_configuration,
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": webhook_configuration,
    "admissionregistration.k8s.io/validatingadmissionpolicies": policy,
    "admissionregistration.k8s.io/mutatingadmissionpolicies": policy,
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": policy_binding,
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": policy_binding,
    "apiregistration.k8s.io/apiservices": api_service,
    "scheduling.k8s.io/priorityclasses": priority_class,
}
"""By ``group/resource``."""
