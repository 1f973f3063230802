"""Defaults of pods and pod templates. Each function fills in a tree that the caller owns."""

from __future__ import annotations

from typing import Any

from envtest.kinds.pod_parts import containers
from envtest.kinds.pod_totals import requested
from opsdk.structured_merge.value import JsonObject

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def put(tree: JsonObject, **values: Any) -> None:
    """Set what is missing."""
    for key, value in values.items():
        if tree.get(key) is None:
            tree[key] = value


def template(spec: JsonObject) -> None:
    """The pod template of a workload's spec."""
    inner = spec.get("template")
    if isinstance(inner, dict):
        pod_spec(inner.setdefault("spec", {}))


def pod(obj: JsonObject) -> None:
    """A pod; more is filled in than in templates."""
    spec = obj.setdefault("spec", {})
    put(spec, enableServiceLinks=True)
    for container in containers(spec):
        _requests_from_limits(container)
    _whole_requests(spec)
    if spec.get("hostNetwork"):
        _host_ports(spec)
    pod_spec(spec)
    _addresses(obj.get("status") or {})


def _addresses(status: JsonObject) -> None:
    """The one address is the first of the many."""
    one, many = status.get("podIP"), status.get("podIPs")
    if one and (not many or many[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif many and not one:
        status["podIP"] = many[0].get("ip", "")


def _requests_from_limits(container: JsonObject) -> None:
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _host_ports(spec: JsonObject) -> None:
    """Ports of a pod in its node's network are the node's; templates leave that to their pods."""
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def _whole_requests(spec: JsonObject) -> None:
    """A pod that has limits as a whole asks for what its containers ask for, or else for all of it."""
    resources = spec.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return
    requests = resources.get("requests") or {}
    for name, amount in limits.items():
        if name in requests:
            continue
        together = requested(spec, name)
        requests[name] = str(together) if together.value else amount
    resources["requests"] = requests


def pod_spec(spec: JsonObject) -> None:
    """What every pod spec has."""
    put(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    _mirror(spec)
    for container in containers(spec):
        _container(container)
    for volume in spec.get("volumes") or ():
        _volume(volume)


def _mirror(spec: JsonObject) -> None:
    """Two names for one field."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def pull_policy(image: str) -> str:
    """Images that may change behind their name are pulled again."""
    name, at, _ = image.partition("@")
    if at:
        return "IfNotPresent"
    _, _, tag = name.rpartition("/")[2].partition(":")
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _container(container: JsonObject) -> None:
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
            _probe(container[key])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook)
    for variable in container.get("env") or ():
        _field_ref(variable.get("valueFrom") or {})


def _probe(probe: JsonObject) -> None:
    _http_get(probe)
    if isinstance(probe.get("grpc"), dict):
        put(probe["grpc"], service="")
    put(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)


def _http_get(handler: JsonObject) -> None:
    if isinstance(handler.get("httpGet"), dict):
        put(handler["httpGet"], path="/", scheme="HTTP")


def _field_ref(source: JsonObject) -> None:
    if isinstance(source.get("fieldRef"), dict):
        put(source["fieldRef"], apiVersion="v1")


def _volume(volume: JsonObject) -> None:
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
        _projection(source)
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
    """What drivers assume, of volumes in pods and of persistent ones."""
    for key, values in _ASSUMED.items():
        if isinstance(volume.get(key), dict):
            put(volume[key], **values)


def _projection(source: JsonObject) -> None:
    if isinstance(source.get("serviceAccountToken"), dict):
        put(source["serviceAccountToken"], expirationSeconds=3600)
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        _field_ref(item)
