"""Columns of the kinds that people look at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envtest.kinds import policy_printers
from envtest.kinds.printing import AGE, NAME, Cells, KindPrinter, age, since
from envtest.kinds.scale import selector_text
from opsdk.apiserver.resources import Column, Printer
from opsdk.apiserver.storage.ports import Tree

_DATA_TEXT = (
    "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values"
    " with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the"
    " keys in the BinaryData field, this is enforced during validation process."
)


def _text(name: str, *, wide: bool = False) -> Column:
    return Column(name=name, priority=1 if wide else 0)


def _count(name: str) -> Column:
    return Column(name=name, type="integer")


def _meta(obj: Tree) -> Tree:
    return obj.get("metadata") or {}


def _spec(obj: Tree) -> Tree:
    return obj.get("spec") or {}


def _status(obj: Tree) -> Tree:
    return obj.get("status") or {}


def _name(obj: Tree) -> str:
    return str(_meta(obj).get("name", ""))


def _images(template: Tree) -> list[str]:
    found = (template.get("spec") or {}).get("containers") or []
    return [",".join(c.get("name", "") for c in found), ",".join(c.get("image", "") for c in found)]


def _selector(spec: Tree) -> str:
    return selector_text(spec.get("selector") or {}) or "<none>"


# ------------------------------------------------------------------ pods
def _pod_reason(obj: Tree) -> str:
    status = _status(obj)
    reason = str(status.get("reason") or status.get("phase", ""))
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        waiting = (state.get("waiting") or {}).get("reason")
        ended = (state.get("terminated") or {}).get("reason")
        if waiting or ended:
            reason = str(waiting or ended)
    if _meta(obj).get("deletionTimestamp"):
        return "Terminating"
    return reason


def _pod(obj: Tree, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    found = status.get("containerStatuses") or []
    ready = sum(1 for c in found if c.get("ready"))
    restarts = sum(c.get("restartCount", 0) for c in found)
    return [
        _name(obj),
        f"{ready}/{len(spec.get('containers') or [])}",
        _pod_reason(obj),
        str(restarts),
        age(obj, now),
        next((a.get("ip") for a in status.get("podIPs") or ()), None) or status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        "<none>",
    ]


# ------------------------------------------------------------------ workloads
def _deployment(obj: Tree, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    return [
        _name(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *_images(spec.get("template") or {}),
        _selector(spec),
    ]


def _replica_set(obj: Tree, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    return [
        _name(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *_images(spec.get("template") or {}),
        _selector(spec),
    ]


def _stateful_set(obj: Tree, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [_name(obj), ready, age(obj, now), *_images(spec.get("template") or {})]


def _daemon_set(obj: Tree, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    keys = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    counts = [status.get(k, 0) for k in (*keys, "numberAvailable")]
    nodes = (spec.get("template") or {}).get("spec", {}).get("nodeSelector") or {}
    selector = selector_text(nodes) or "<none>"
    return [_name(obj), *counts, selector, age(obj, now), *_images(spec.get("template") or {}), _selector(spec)]


def _job(obj: Tree, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or ()}
    words = [w for t, w in (("Complete", "Complete"), ("Failed", "Failed")) if conditions.get(t) == "True"]
    word = words[0] if words else "Suspended" if spec.get("suspend") else "Running"
    done = f"{status.get('succeeded', 0)}/{spec.get('completions', spec.get('parallelism', 1))}"
    started = status.get("startTime")
    duration = since(started, now) if started else ""
    return [_name(obj), word, done, duration, age(obj, now), *_images(spec.get("template") or {}), _selector(spec)]


def _cron_job(obj: Tree, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    last = status.get("lastScheduleTime")
    template = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
    return [
        _name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or []),
        since(last, now) if last else "<none>",
        age(obj, now),
        *_images(template),
        "<none>",
    ]


# ------------------------------------------------------------------ services and the rest
def _service(obj: Tree, now: float) -> list[Any]:
    spec = _spec(obj)
    ports = [
        f"{p.get('port')}:{p['nodePort']}/{p.get('protocol')}"
        if p.get("nodePort")
        else f"{p.get('port')}/{p.get('protocol')}"
        for p in spec.get("ports") or ()
    ]
    external = ",".join(spec.get("externalIPs") or []) or spec.get("externalName") or "<none>"
    if spec.get("type") == "LoadBalancer":
        found = (_status(obj).get("loadBalancer") or {}).get("ingress") or []
        external = ",".join(i.get("ip") or i.get("hostname", "") for i in found) or "<pending>"
    return [
        _name(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or "<none>",
        external,
        ",".join(ports) or "<none>",
        age(obj, now),
        selector_text(spec.get("selector") or {}) or "<none>",
    ]


def _namespace(obj: Tree, now: float) -> list[Any]:
    return [_name(obj), _status(obj).get("phase", ""), age(obj, now)]


def _config_map(obj: Tree, now: float) -> list[Any]:
    return [_name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)]


def _secret(obj: Tree, now: float) -> list[Any]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or {}), age(obj, now)]


def _service_account(obj: Tree, now: float) -> list[Any]:
    return [_name(obj), len(obj.get("secrets") or []), age(obj, now)]


def _lease(obj: Tree, now: float) -> list[Any]:
    return [_name(obj), _spec(obj).get("holderIdentity", ""), age(obj, now)]


def _event(obj: Tree, now: float) -> list[Any]:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or obj.get("eventTime") or ""
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime") or ""
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    target = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        about.get("fieldPath", ""),
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController", ""),
        str(obj.get("message") or obj.get("note", "")).strip(),
        since(first, now),
        obj.get("count") or obj.get("deprecatedCount") or 1,
        _name(obj),
    ]


def _node(obj: Tree, now: float) -> list[Any]:
    status = _status(obj)
    ready = [c for c in status.get("conditions") or () if c.get("type") == "Ready"]
    word = "Unknown" if not ready else "Ready" if ready[0].get("status") == "True" else "NotReady"
    if _spec(obj).get("unschedulable"):
        word += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = [k.removeprefix(prefix) for k in _meta(obj).get("labels") or {} if k.startswith(prefix)]
    info = status.get("nodeInfo") or {}
    return [_name(obj), word, ",".join(sorted(roles)) or "<none>", age(obj, now), info.get("kubeletVersion", "")]


def _claim(obj: Tree, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    modes = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    phase = "Terminating" if _meta(obj).get("deletionTimestamp") else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    return [
        _name(obj),
        phase,
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        ",".join(modes.get(m, m) for m in status.get("accessModes") or ()) if bound else "",
        spec.get("storageClassName", ""),
        "<unset>",
        age(obj, now),
        spec.get("volumeMode", "Filesystem"),
    ]


def _created(obj: Tree, now: float) -> list[Any]:  # noqa: ARG001 - the shape of Cells
    return [_name(obj), _meta(obj).get("creationTimestamp")]


def _binding(obj: Tree, now: float) -> list[Any]:
    role = obj.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        by_kind.setdefault(subject.get("kind", ""), []).append(name)
    users, groups, accounts = (", ".join(by_kind[k]) for k in ("User", "Group", "ServiceAccount"))
    return [_name(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), users, groups, accounts]


def _webhooks(obj: Tree, now: float) -> list[Any]:
    return [_name(obj), len(obj.get("webhooks") or []), age(obj, now)]


def _made(*columns: Column | str, cells: Cells) -> KindPrinter:
    return KindPrinter([NAME, *(c if isinstance(c, Column) else _text(c) for c in columns)], cells)


_WIDE = tuple(_text(n, wide=True) for n in ("Containers", "Images", "Selector"))
_HOOK_COUNT = "Webhooks indicates the number of webhooks registered in this configuration"
_WEBHOOKS = _made(replace(_count("Webhooks"), description=_HOOK_COUNT), AGE, cells=_webhooks)
_BINDING = _made("Role", AGE, *(_text(n, wide=True) for n in ("Users", "Groups", "ServiceAccounts")), cells=_binding)
_EVENT = KindPrinter(
    [
        _text("Last Seen"),
        _text("Type"),
        _text("Reason"),
        _text("Object"),
        _text("Subobject", wide=True),
        _text("Source", wide=True),
        _text("Message"),
        _text("First Seen", wide=True),
        _text("Count", wide=True),
        Column(name="Name", format="name", priority=1, description=NAME.description),
    ],
    _event,
)

PRINTERS: dict[str, Printer] = {
    "/pods": _made(
        "Ready",
        "Status",
        "Restarts",
        AGE,
        *(_text(n, wide=True) for n in ("IP", "Node", "Nominated Node", "Readiness Gates")),
        cells=_pod,
    ),
    "/services": _made(
        "Type", "Cluster-IP", "External-IP", "Port(s)", AGE, _text("Selector", wide=True), cells=_service
    ),
    "/namespaces": _made("Status", AGE, cells=_namespace),
    "/configmaps": _made(Column(name="Data", description=_DATA_TEXT), AGE, cells=_config_map),
    "/secrets": _made("Type", _count("Data"), AGE, cells=_secret),
    "/serviceaccounts": _made("Secrets", AGE, cells=_service_account),
    "/events": _EVENT,
    "events.k8s.io/events": _EVENT,
    "/nodes": _made("Status", "Roles", AGE, "Version", cells=_node),
    "/persistentvolumeclaims": _made(
        "Status",
        "Volume",
        "Capacity",
        "Access Modes",
        "StorageClass",
        "VolumeAttributesClass",
        AGE,
        _text("VolumeMode", wide=True),
        cells=_claim,
    ),
    "/replicationcontrollers": _made(
        _count("Desired"), _count("Current"), _count("Ready"), AGE, *_WIDE, cells=_replica_set
    ),
    "apps/deployments": _made("Ready", "Up-to-date", "Available", AGE, *_WIDE, cells=_deployment),
    "apps/replicasets": _made(_count("Desired"), _count("Current"), _count("Ready"), AGE, *_WIDE, cells=_replica_set),
    "apps/statefulsets": _made("Ready", AGE, *_WIDE[:2], cells=_stateful_set),
    "apps/daemonsets": _made(
        *(_count(n) for n in ("Desired", "Current", "Ready", "Up-to-date", "Available")),
        "Node Selector",
        AGE,
        *_WIDE,
        cells=_daemon_set,
    ),
    "batch/jobs": _made("Status", "Completions", "Duration", AGE, *_WIDE, cells=_job),
    "batch/cronjobs": _made(
        "Schedule", "Timezone", "Suspend", _count("Active"), "Last Schedule", AGE, *_WIDE, cells=_cron_job
    ),
    "coordination.k8s.io/leases": _made("Holder", AGE, cells=_lease),
    "rbac.authorization.k8s.io/roles": _made(Column(name="Created At", type="date"), cells=_created),
    "rbac.authorization.k8s.io/clusterroles": _made(Column(name="Created At", type="date"), cells=_created),
    "rbac.authorization.k8s.io/rolebindings": _BINDING,
    "rbac.authorization.k8s.io/clusterrolebindings": _BINDING,
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _WEBHOOKS,
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _WEBHOOKS,
    **policy_printers.PRINTERS,
}
"""By ``group/resource``."""
