"""Columns of workloads, configuration, roles and hooks; and where the columns of all kinds are gathered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envtest.kinds import (
    cluster_printers,
    network_printers,
    pod_printers,
    policy_printers,
    storage_printers,
)
from envtest.kinds.pod_printers import images
from envtest.kinds.printing import (
    NOTHING,
    Cells,
    KindPrinter,
    age,
    human,
    label_selector,
    meta_of,
    name_of,
    seconds_of,
    since,
    spec_of,
    status_of,
    yes,
)
from opsdk.apiserver.resources import Printer
from opsdk.structured_merge.value import JsonObject


# ------------------------------------------------------------------ workloads
def _deployment(obj: JsonObject, now: float) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *images(spec.get("template") or {}),
        label_selector(spec.get("selector")),
    ]


def _replica_set(obj: JsonObject, now: float) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    return [
        name_of(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *images(spec.get("template") or {}),
        label_selector(spec.get("selector")),
    ]


def _stateful_set(obj: JsonObject, now: float) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name_of(obj), ready, age(obj, now), *images(spec.get("template") or {})]


def _daemon_set(obj: JsonObject, now: float) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    keys = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    counts = [status.get(k, 0) for k in (*keys, "numberAvailable")]
    template = spec.get("template") or {}
    nodes = label_selector(spec_of(template).get("nodeSelector"))
    return [name_of(obj), *counts, nodes, age(obj, now), *images(template), label_selector(spec.get("selector"))]


_JOB_WORDS = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""Conditions of jobs with the words for them, the first that holds; the nameless one is a deletion."""


def _job_word(obj: JsonObject) -> str:
    true = {c.get("type") for c in status_of(obj).get("conditions") or () if c.get("status") == "True"}
    if meta_of(obj).get("deletionTimestamp"):
        true.add("")
    return next((word for kind, word in _JOB_WORDS if kind in true), "Running")


def _job_done(obj: JsonObject) -> str:
    spec, done = spec_of(obj), status_of(obj).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallel = spec.get("parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_time(obj: JsonObject, now: float) -> str:
    status = status_of(obj)
    began = seconds_of(status.get("startTime") or "")
    if began is None:
        return ""
    ended = seconds_of(status.get("completionTime") or "")
    return human((now if ended is None else ended) - began)


def _job(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    words = [_job_word(obj), _job_done(obj), _job_time(obj, now), age(obj, now)]
    return [name_of(obj), *words, *images(spec.get("template") or {}), label_selector(spec.get("selector"))]


def _cron_job(obj: JsonObject, now: float) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    last = status.get("lastScheduleTime")
    job = spec_of(spec.get("jobTemplate") or {})
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NOTHING,
        yes(spec.get("suspend")),
        len(status.get("active") or []),
        since(last, now) if last else NOTHING,
        age(obj, now),
        *images(job.get("template") or {}),
        label_selector(job.get("selector")),
    ]


def _revision(obj: JsonObject, now: float) -> list[Any]:
    owners: Sequence[JsonObject] = meta_of(obj).get("ownerReferences") or ()
    owner = next((o for o in owners if o.get("controller")), None)
    shown = NOTHING
    if owner is not None:
        group, _, _version = str(owner.get("apiVersion", "")).rpartition("/")
        kind = f"{owner.get('kind', '')}.{group}" if group else str(owner.get("kind", ""))
        shown = f"{kind.lower()}/{owner.get('name', '')}"
    return [name_of(obj), shown, obj.get("revision", 0), age(obj, now)]


# ------------------------------------------------------------------ configuration
def _namespace(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), status_of(obj).get("phase", ""), age(obj, now)]


def _config_map(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)]


def _secret(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or {}), age(obj, now)]


def _service_account(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("secrets") or []), age(obj, now)]


def _lease(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), spec_of(obj).get("holderIdentity", ""), age(obj, now)]


# ------------------------------------------------------------------ roles and hooks
def _scale(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), spec_of(obj).get("replicas", 0), status_of(obj).get("replicas", 0), age(obj, now)]


def _binding(obj: JsonObject, now: float) -> list[Any]:
    role = obj.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        by_kind.setdefault(subject.get("kind", ""), []).append(name)
    subjects = (", ".join(by_kind[k]) for k in ("User", "Group", "ServiceAccount"))
    return [name_of(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), *subjects]


def _webhooks(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("webhooks") or []), age(obj, now)]


_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_CELLS: dict[str, Cells] = {
    "/namespaces": _namespace,
    "/configmaps": _config_map,
    "/secrets": _secret,
    "/serviceaccounts": _service_account,
    "/replicationcontrollers": _replica_set,
    "apps/deployments": _deployment,
    "apps/replicasets": _replica_set,
    "apps/statefulsets": _stateful_set,
    "apps/daemonsets": _daemon_set,
    "apps/controllerrevisions": _revision,
    "batch/jobs": _job,
    "batch/cronjobs": _cron_job,
    "coordination.k8s.io/leases": _lease,
    f"{_RBAC}/rolebindings": _binding,
    f"{_RBAC}/clusterrolebindings": _binding,
    f"{_ADMISSION}/validatingwebhookconfigurations": _webhooks,
    f"{_ADMISSION}/mutatingwebhookconfigurations": _webhooks,
    "/scale": _scale,
    **network_printers.CELLS,
    **storage_printers.CELLS,
    **policy_printers.CELLS,
}

PRINTERS: dict[str, Printer] = {
    **{key: KindPrinter(key, cells) for key, cells in _CELLS.items()},
    **pod_printers.PRINTERS,
    **cluster_printers.PRINTERS,
}
"""By ``group/resource``; whoever is not here has a name and a time of creation."""
