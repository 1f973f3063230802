"""The columns of built-in kinds, as ``kubectl get`` shows them without ``-o wide``. Pure.

Upstream: k8s.io/kubernetes/pkg/printers/internalversion/printers.go (v1.36)
Deviates: dates are timestamps, and cells that need other objects or many rules have a short form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opsdk.structured_merge.value import JsonObject, JsonValue

CellOf = Callable[[JsonObject], JsonValue]
"""Returns the cell of an object."""

_AGE = ("Age", "date", ".metadata.creationTimestamp")


def _map(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _list(value: Any, *names: str) -> list[Any]:
    found = _map(value, *names[:-1]).get(names[-1])
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _data(tree: JsonObject) -> int:
    return len(_map(tree, "data")) + len(_map(tree, "binaryData"))


def _ready_of(ready: str, desired: str) -> CellOf:
    """Return the cell ``ready/desired`` of a workload."""
    return lambda tree: f"{_number(_map(tree, 'status').get(ready))}/{_number(_map(tree, 'spec').get(desired))}"


def _pod_ready(tree: JsonObject) -> str:
    statuses = _list(tree, "status", "containerStatuses")
    return f"{sum(each.get('ready') is True for each in statuses)}/{len(_list(tree, 'spec', 'containers'))}"


def _pod_status(tree: JsonObject) -> JsonValue:
    if _map(tree, "metadata").get("deletionTimestamp"):
        return "Terminating"
    for each in reversed(_list(tree, "status", "containerStatuses")):
        for state in ("waiting", "terminated"):
            reason = _map(each, "state", state).get("reason")
            if reason:
                return str(reason)
    return _map(tree, "status").get("reason") or _map(tree, "status").get("phase")


def _restarts(tree: JsonObject) -> int:
    return sum(_number(each.get("restartCount")) for each in _list(tree, "status", "containerStatuses"))


def _node_status(tree: JsonObject) -> str:
    conditions = {each.get("type"): each.get("status") for each in _list(tree, "status", "conditions")}
    state = {"True": "Ready", "False": "NotReady"}.get(str(conditions.get("Ready")), "Unknown")
    return f"{state},SchedulingDisabled" if _map(tree, "spec").get("unschedulable") else state


def _node_roles(tree: JsonObject) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in _map(tree, "metadata", "labels") if key.startswith(prefix))
    return ",".join(roles) or "<none>"


def _ports(tree: JsonObject) -> str:
    ports = []
    for each in _list(tree, "spec", "ports"):
        node = f":{each['nodePort']}" if each.get("nodePort") else ""
        ports.append(f"{each.get('port')}{node}/{each.get('protocol') or 'TCP'}")
    return ",".join(ports) or "<none>"


def _hosts(tree: JsonObject) -> str:
    return ",".join(str(each.get("host") or "*") for each in _list(tree, "spec", "rules")) or "*"


def _role(tree: JsonObject) -> str:
    reference = _map(tree, "roleRef")
    return f"{reference.get('kind')}/{reference.get('name')}"


def _access_modes(tree: JsonObject) -> str:
    modes = _map(tree, "spec").get("accessModes")
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(str(mode), str(mode)) for mode in modes) if isinstance(modes, list) else ""


_Columns = Sequence[tuple[str, str, str | CellOf]]
_WORKLOAD: _Columns = (("Ready", "string", _ready_of("readyReplicas", "replicas")),)
_BINDING: _Columns = (("Role", "string", _role),)

COLUMNS: Mapping[tuple[str, str], _Columns] = {
    ("", "ConfigMap"): (("Data", "integer", _data),),
    ("", "Secret"): (("Type", "string", ".type"), ("Data", "integer", _data)),
    ("", "Namespace"): (("Status", "string", ".status.phase"),),
    ("", "Node"): (
        ("Status", "string", _node_status),
        ("Roles", "string", _node_roles),
        ("Version", "string", ".status.nodeInfo.kubeletVersion"),
    ),
    ("", "PersistentVolume"): (
        ("Capacity", "string", ".spec.capacity.storage"),
        ("Access Modes", "string", _access_modes),
        ("Reclaim Policy", "string", ".spec.persistentVolumeReclaimPolicy"),
        ("Status", "string", ".status.phase"),
        ("StorageClass", "string", ".spec.storageClassName"),
    ),
    ("", "PersistentVolumeClaim"): (
        ("Status", "string", ".status.phase"),
        ("Volume", "string", ".spec.volumeName"),
        ("Capacity", "string", ".status.capacity.storage"),
        ("Access Modes", "string", _access_modes),
        ("StorageClass", "string", ".spec.storageClassName"),
    ),
    ("", "Pod"): (
        ("Ready", "string", _pod_ready),
        ("Status", "string", _pod_status),
        ("Restarts", "integer", _restarts),
        ("IP", "string", ".status.podIP"),
        ("Node", "string", ".spec.nodeName"),
    ),
    ("", "Service"): (
        ("Type", "string", ".spec.type"),
        ("Cluster-IP", "string", ".spec.clusterIP"),
        ("Port(s)", "string", _ports),
    ),
    ("apps", "DaemonSet"): (
        ("Desired", "integer", ".status.desiredNumberScheduled"),
        ("Current", "integer", ".status.currentNumberScheduled"),
        ("Ready", "integer", ".status.numberReady"),
        ("Up-to-date", "integer", ".status.updatedNumberScheduled"),
        ("Available", "integer", ".status.numberAvailable"),
    ),
    ("apps", "Deployment"): (
        *_WORKLOAD,
        ("Up-to-date", "integer", ".status.updatedReplicas"),
        ("Available", "integer", ".status.availableReplicas"),
    ),
    ("apps", "ReplicaSet"): (
        ("Desired", "integer", ".spec.replicas"),
        ("Current", "integer", ".status.replicas"),
        ("Ready", "integer", ".status.readyReplicas"),
    ),
    ("apps", "StatefulSet"): _WORKLOAD,
    ("batch", "CronJob"): (
        ("Schedule", "string", ".spec.schedule"),
        ("Suspend", "boolean", ".spec.suspend"),
        ("Last Schedule", "date", ".status.lastScheduleTime"),
    ),
    ("batch", "Job"): (("Completions", "string", _ready_of("succeeded", "completions")),),
    ("networking.k8s.io", "Ingress"): (("Class", "string", ".spec.ingressClassName"), ("Hosts", "string", _hosts)),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("storage.k8s.io", "StorageClass"): (
        ("Provisioner", "string", ".provisioner"),
        ("ReclaimPolicy", "string", ".reclaimPolicy"),
        ("VolumeBindingMode", "string", ".volumeBindingMode"),
    ),
}
"""The columns between name and age, by group and kind: name, type, and a JSON path or a function."""


def built_in_columns(group: str, kind: str) -> list[JsonObject]:
    """Return the columns after the name, in the form of a definition's ``additionalPrinterColumns``."""
    columns = (*COLUMNS.get((group, kind), ()), _AGE)
    return [
        {"name": name, "type": value_type, "jsonPath": cell if isinstance(cell, str) else ""}
        for name, value_type, cell in columns
    ]


def cell_function(group: str, kind: str, column: str) -> CellOf | None:
    """Return the function of a column that has no JSON path; None for others."""
    cells = {name: cell for name, _, cell in COLUMNS.get((group, kind), ())}
    cell = cells.get(column)
    return cell if callable(cell) else None
