"""The defaults of built-in types that a comparison needs.

The server sets them for omitted fields inside atomic values, or where a
desired object has an empty value that the server drops. Each function completes one object, given the values that the
server keeps of it. A default that is missing here costs one apply without effect, see `opsdk.children.applier`.

Upstream: pkg/apis/<group>/<version>/defaults.go (v1.36)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Final

from opsdk.structured_merge.value import JsonObject, JsonValue

Fill = Callable[[JsonObject], None]

_RBAC: Final = "rbac.authorization.k8s.io"


def _pull_policy(image: str) -> str:
    """Return Always for the tag ``latest`` and for an image without tag and digest."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _container(container: JsonObject) -> None:
    _set_defaults(container, _CONTAINER)
    _set_defaults(container, {"imagePullPolicy": _pull_policy(container.get("image") or "")})


def _service_port(port: JsonObject) -> None:
    _set_defaults(port, {"protocol": "TCP"})
    if port.get("targetPort") in (None, "", 0):
        port["targetPort"] = port.get("port", 0)


def _service_spec(spec: JsonObject) -> None:
    _set_defaults(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    if spec["type"] != "ExternalName":
        _set_defaults(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] in ("NodePort", "LoadBalancer") or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        _set_defaults(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        _set_defaults(spec, {"allocateLoadBalancerNodePorts": True})
    if spec["sessionAffinity"] == "ClientIP":
        _set_defaults(spec, {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}})


def _volume(volume: JsonObject) -> None:
    if not set(volume) - {"name"}:
        volume["emptyDir"] = {}


def _image_volume(source: JsonObject) -> None:
    _set_defaults(source, {"pullPolicy": _pull_policy(source.get("reference") or "")})


def _rolling_update(values: Mapping[str, JsonValue]) -> Fill:
    def fill(strategy: JsonObject) -> None:
        _set_defaults(strategy, {"type": "RollingUpdate"})
        if strategy["type"] == "RollingUpdate":
            _set_defaults(strategy, {"rollingUpdate": values})

    return fill


def _stateful_set_strategy(strategy: JsonObject) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        _set_defaults(strategy, {"rollingUpdate": {"partition": 0}})


def _claim_template(claim: JsonObject) -> None:
    claim["status"] = {"phase": "Pending", **(claim.get("status") or {})}
    _set_defaults(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})


def _limit_range_item(item: JsonObject) -> None:
    if item.get("type") != "Container":
        return
    default = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
    item.update({key: value for key, value in (("default", default), ("defaultRequest", requests)) if value})


def _subject(subject: JsonObject) -> None:
    if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
        subject["apiGroup"] = _RBAC


def _role_ref(ref: JsonObject) -> None:
    if not ref.get("apiGroup"):
        ref["apiGroup"] = _RBAC


def _device_request(request: JsonObject) -> None:
    _set_defaults(request, {"allocationMode": "ExactCount"})
    if request["allocationMode"] == "ExactCount":
        _set_defaults(request, {"count": 1})


def _resource_names(names: JsonObject) -> None:
    kind = names.get("kind") or ""
    _set_defaults(names, {"singular": kind.lower(), "listKind": f"{kind}List"})


def _network_policy_spec(spec: JsonObject) -> None:
    _set_defaults(spec, {"policyTypes": ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]})


def _priority_level_spec(spec: JsonObject) -> None:
    if spec.get("type") == "Exempt":
        _set_defaults(spec, {"exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}})


def _limit_response(response: JsonObject) -> None:
    if response.get("type") == "Queue":
        _set_defaults(response, {"queuing": _QUEUING})


def _flow_schema_spec(spec: JsonObject) -> None:
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


_CONTAINER: Final = {
    "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
}  # fmt: skip
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_MATCH: Final = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_HOOK: Final = {**_MATCH, "failurePolicy": "Fail", "timeoutSeconds": 10}
_QUEUING: Final = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
_CPU_METRIC: Final = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}

_CONSTANTS: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    "admissionregistration.v1.MatchResources": _MATCH,
    "admissionregistration.v1.MutatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration.v1.MutatingWebhook": {**_HOOK, "reinvocationPolicy": "Never"},
    "admissionregistration.v1.NamedRuleWithOperations": {"scope": "*"},
    "admissionregistration.v1.RuleWithOperations": {"scope": "*"},
    "admissionregistration.v1.ServiceReference": {"port": 443},
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration.v1.ValidatingWebhook": _HOOK,
    "apiextensions.v1.CustomResourceConversion": {"strategy": "None"},
    "apiextensions.v1.ServiceReference": {"port": 443},
    "apiregistration.v1.ServiceReference": {"port": 443},
    "apps.v1.DeploymentSpec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "apps.v1.DaemonSetSpec": {"revisionHistoryLimit": 10},
    "apps.v1.ReplicaSetSpec": {"replicas": 1},
    "apps.v1.RollingUpdateDaemonSet": {"maxUnavailable": 1, "maxSurge": 0},
    "apps.v1.RollingUpdateDeployment": {"maxUnavailable": "25%", "maxSurge": "25%"},
    "apps.v1.RollingUpdateStatefulSetStrategy": {"partition": 0},
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "apps.v1.StatefulSetSpec": {
        "podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    },
    "autoscaling.v2.HPAScalingRules": {"selectPolicy": "Max"},
    "autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas": 1, "metrics": [_CPU_METRIC]},
    "autoscaling.v1.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
    },
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    "core.v1.AzureDiskVolumeSource": {
        "cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False,
    },
    "core.v1.ConfigMapVolumeSource": {"defaultMode": 420},
    "core.v1.ContainerPort": {"protocol": "TCP"},
    "core.v1.DownwardAPIVolumeSource": {"defaultMode": 420},
    "core.v1.EndpointPort": {"protocol": "TCP"},
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.ISCSIPersistentVolumeSource": {"iscsiInterface": "default"},
    "core.v1.ISCSIVolumeSource": {"iscsiInterface": "default"},
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "core.v1.PodSpec": {
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler",
    },
    "core.v1.Probe": _PROBE,
    "core.v1.ProjectedVolumeSource": {"defaultMode": 420},
    "core.v1.RBDPersistentVolumeSource": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "core.v1.RBDVolumeSource": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "core.v1.ReplicationControllerSpec": {"replicas": 1},
    "core.v1.ScaleIOPersistentVolumeSource": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "core.v1.ScaleIOVolumeSource": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "core.v1.Secret": {"type": "Opaque"},
    "core.v1.SecretVolumeSource": {"defaultMode": 420},
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "flowcontrol.v1.LimitedPriorityLevelConfiguration": {"nominalConcurrencyShares": 30, "lendablePercent": 0},
    "flowcontrol.v1.ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    "flowcontrol.v1.QueuingConfiguration": _QUEUING,
    "networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
    "networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "resource.v1.DeviceToleration": {"operator": "Equal"},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage.v1.CSIDriverSpec": {
        "attachRequired": True, "podInfoOnMount": False, "storageCapacity": False, "requiresRepublish": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType", "volumeLifecycleModes": ["Persistent"], "seLinuxMount": False,
    },
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}  # fmt: skip
"""Values of fields that are left out, by type."""

_DEFAULTERS: Final[Mapping[str, Fill]] = {
    "apiextensions.v1.CustomResourceDefinitionNames": _resource_names,
    "apps.v1.DaemonSetUpdateStrategy": _rolling_update({"maxUnavailable": 1, "maxSurge": 0}),
    "apps.v1.DeploymentStrategy": _rolling_update({"maxUnavailable": "25%", "maxSurge": "25%"}),
    "apps.v1.StatefulSetUpdateStrategy": _stateful_set_strategy,
    "core.v1.Container": _container,
    "core.v1.EphemeralContainer": _container,
    "core.v1.ImageVolumeSource": _image_volume,
    "core.v1.LimitRangeItem": _limit_range_item,
    "core.v1.PersistentVolumeClaim": _claim_template,
    "core.v1.ServicePort": _service_port,
    "core.v1.ServiceSpec": _service_spec,
    "core.v1.Volume": _volume,
    "flowcontrol.v1.FlowSchemaSpec": _flow_schema_spec,
    "flowcontrol.v1.LimitResponse": _limit_response,
    "flowcontrol.v1.PriorityLevelConfigurationSpec": _priority_level_spec,
    "networking.v1.NetworkPolicySpec": _network_policy_spec,
    "rbac.v1.RoleRef": _role_ref,
    "rbac.v1.Subject": _subject,
    "resource.v1.DeviceSubRequest": _device_request,
    "resource.v1.ExactDeviceRequest": _device_request,
}
"""Defaults that depend on other fields, by type."""


KEPT_IF_EMPTY: Final[Mapping[str, frozenset[str]]] = {
    "core.v1.NamespaceSpec": frozenset({"finalizers"}),
    "core.v1.ServicePort": frozenset({"nodePort"}),
    "core.v1.ServiceSpec": frozenset(
        {"clusterIP", "clusterIPs", "healthCheckNodePort", "ipFamilies", "ipFamilyPolicy"}
    ),
}
"""Fields that keep their value when an update leaves them empty, because the server allocated it."""


def fill_defaults(type_name: str, obj: JsonObject) -> None:
    """Fill in the defaults of one object of a built-in type, in place. Values that it has are not changed.

    >>> port = {"containerPort": 80}
    >>> fill_defaults("core.v1.ContainerPort", port)
    >>> port
    {'containerPort': 80, 'protocol': 'TCP'}
    """
    if (values := _CONSTANTS.get(type_name)) is not None:
        _set_defaults(obj, values)
    elif (fill := _DEFAULTERS.get(type_name)) is not None:
        fill(obj)


def _set_defaults(obj: JsonObject, values: Mapping[str, JsonValue]) -> None:
    for name, value in values.items():
        if obj.get(name) is None:
            obj[name] = copy.deepcopy(value) if isinstance(value, dict | list) else value
