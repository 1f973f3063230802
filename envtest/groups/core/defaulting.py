"""Defaults of the core group and of pod templates. Each function fills in an object that the caller owns.

Upstream: pkg/apis/core/v1/defaults.go (v1.36)
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from envtest.groups.common.pod_spec import containers
from envtest.groups.core.pod_requests import requested
from envtest.groups.core.validation.service import externally_accessible
from opsdk.structured_merge.value import JsonObject

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def template(spec: JsonObject) -> None:
    """Default the pod template of a workload."""
    inner = spec.get("template")
    if isinstance(inner, dict):
        pod_spec(inner.setdefault("spec", {}))


def pod(obj: JsonObject) -> None:
    """Default a Pod; pods get more defaults than templates."""
    spec = obj.setdefault("spec", {})
    put(spec, enableServiceLinks=True)
    for container in containers(spec):
        resources = container.get("resources") or {}
        limits = resources.get("limits")
        if limits:
            requests = resources.setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)
    resources = spec.get("resources") or {}
    limits = resources.get("limits")
    if limits:
        requests = resources.get("requests") or {}
        for name, amount in limits.items():
            if name in requests:
                continue
            together = requested(spec, name)
            requests[name] = str(together) if together.value else amount
        resources["requests"] = requests
    if spec.get("hostNetwork"):
        _host_ports(spec)
    pod_spec(spec)
    # ``podIP`` and ``hostIP`` are the first of ``podIPs`` and ``hostIPs``.
    status = obj.get("status") or {}
    one, many = status.get("podIP"), status.get("podIPs")
    if one and (not many or many[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif many and not one:
        status["podIP"] = many[0].get("ip", "")


def _host_ports(spec: JsonObject) -> None:
    """Default host ports of host network pods; in templates the feature gate is off."""
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def pod_spec(spec: JsonObject) -> None:
    """Default a pod spec, of a pod or a template."""
    put(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    # ``serviceAccount`` is the deprecated name of ``serviceAccountName``.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers(spec):
        _container(container)
    for volume in spec.get("volumes") or ():
        _volume(volume)


def pull_policy(image: str) -> str:
    """Return the default pull policy: Always for ``latest`` and for images without a tag or digest."""
    name, separator, _ = image.partition("@")
    if separator:
        return "IfNotPresent"
    _, _, tag = name.rpartition("/")[2].partition(":")
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _container(container: JsonObject) -> None:
    """Set the defaults of a container, its ports, probes and hooks."""
    put(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=pull_policy(container.get("image", "")),
    )
    for port in container.get("ports") or ():
        put(port, protocol="TCP")
    for key in _PROBES:
        if isinstance(container.get(key), dict):
            probe = container[key]
            _http_get(probe)
            if isinstance(probe.get("grpc"), dict):
                put(probe["grpc"], service="")
            put(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook)
    for variable in container.get("env") or ():
        _field_ref(variable.get("valueFrom") or {})


def _http_get(handler: JsonObject) -> None:
    if isinstance(handler.get("httpGet"), dict):
        put(handler["httpGet"], path="/", scheme="HTTP")


def _field_ref(source: JsonObject) -> None:
    if isinstance(source.get("fieldRef"), dict):
        put(source["fieldRef"], apiVersion="v1")


def _volume(volume: JsonObject) -> None:
    """Set the defaults of a volume."""
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for key in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(volume.get(key), dict):
            put(volume[key], defaultMode=420)
    sources(volume)
    image = volume.get("image")
    if isinstance(image, dict):
        put(image, pullPolicy=pull_policy(image.get("reference", "")))
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _field_ref(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if isinstance(source.get("serviceAccountToken"), dict):
            put(source["serviceAccountToken"], expirationSeconds=3600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _field_ref(item)
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if isinstance(claim, dict):
        put(claim.setdefault("spec", {}), volumeMode="Filesystem")


_ASSUMED: dict[str, JsonObject] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def sources(volume: JsonObject) -> None:
    """Default volume sources, of pods and of persistent volumes."""
    for key, values in _ASSUMED.items():
        if isinstance(volume.get(key), dict):
            put(volume[key], **values)


_LABEL = "kubernetes.io/metadata.name"


def label_namespace(obj: JsonObject) -> None:
    """Set the label ``kubernetes.io/metadata.name``, and default the phase to Active."""
    meta = obj.setdefault("metadata", {})
    if meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), _LABEL: meta["name"]}
    put(obj.setdefault("status", {}), phase="Active")


def secret_strings(obj: JsonObject) -> None:
    """Move ``stringData`` into ``data``."""
    strings = obj.pop("stringData", None)
    if strings:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def replication_controller(obj: JsonObject) -> None:
    """Default the selector and the labels from the template's labels."""
    spec = obj.setdefault("spec", {})
    put(spec, replicas=1)
    template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        put(spec, selector=dict(labels))
        meta = obj.setdefault("metadata", {})
        put(meta, labels=dict(labels))


def service(obj: JsonObject) -> None:
    """Default ports, session affinity and policies; addresses are allocated on create."""
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
    """Default the type to Opaque, and move ``stringData`` into ``data``."""
    put(obj, type="Opaque")
    secret_strings(obj)


def claim_defaults(obj: JsonObject) -> None:
    """Default the volume mode to Filesystem and the phase to Pending."""
    put(obj.setdefault("spec", {}), volumeMode="Filesystem")
    put(obj.setdefault("status", {}), phase="Pending")


def volume(obj: JsonObject) -> None:
    """Default the reclaim policy to Retain and the volume mode to Filesystem."""
    spec = obj.setdefault("spec", {})
    put(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    sources(spec)


def pod_template(obj: JsonObject) -> None:
    """Default a PodTemplate."""
    template(obj)


def endpoints(obj: JsonObject) -> None:
    """Default the protocol of ports to TCP."""
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            put(port, protocol="TCP")


def node(obj: JsonObject) -> None:
    """Default allocatable to the capacity, and the pod CIDRs to the pod CIDR."""
    status, spec = obj.get("status") or {}, obj.setdefault("spec", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    one, many = spec.get("podCIDR"), spec.get("podCIDRs")
    if one and (not many or many[0] != one):
        spec["podCIDRs"] = [one]
    elif many:
        spec["podCIDR"] = many[0]


def limit_range(obj: JsonObject) -> None:
    """Default requests and limits of containers from each other."""
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


DEFAULTS: Mapping[str, Defaults] = {
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
}
"""By ``group/resource``."""
