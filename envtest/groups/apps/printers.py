"""Columns of the group apps.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.groups.common.printing import (
    NOTHING,
    KindPrinter,
    age,
    images,
    kind_printers,
    label_selector,
    meta_of,
    name_of,
    spec_of,
    status_of,
)
from envtest.groups.core.printers import replica_set
from opsdk.structured_merge.value import JsonObject, JsonValue


# ------------------------------------------------------------------ workloads
def _deployment(obj: JsonObject, now: float) -> list[JsonValue]:
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


def _stateful_set(obj: JsonObject, now: float) -> list[JsonValue]:
    spec, status = spec_of(obj), status_of(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name_of(obj), ready, age(obj, now), *images(spec.get("template") or {})]


def _daemon_set(obj: JsonObject, now: float) -> list[JsonValue]:
    spec, status = spec_of(obj), status_of(obj)
    keys = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    counts = [status.get(k, 0) for k in (*keys, "numberAvailable")]
    template = spec.get("template") or {}
    nodes = label_selector(spec_of(template).get("nodeSelector"))
    return [name_of(obj), *counts, nodes, age(obj, now), *images(template), label_selector(spec.get("selector"))]


def _revision(obj: JsonObject, now: float) -> list[JsonValue]:
    owners: Sequence[JsonObject] = meta_of(obj).get("ownerReferences") or ()
    owner = next((o for o in owners if o.get("controller")), None)
    text = NOTHING
    if owner is not None:
        group, _, _version = str(owner.get("apiVersion", "")).rpartition("/")
        kind = f"{owner.get('kind', '')}.{group}" if group else str(owner.get("kind", ""))
        text = f"{kind.lower()}/{owner.get('name', '')}"
    return [name_of(obj), text, obj.get("revision", 0), age(obj, now)]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "apps/deployments": _deployment,
        "apps/replicasets": replica_set,
        "apps/statefulsets": _stateful_set,
        "apps/daemonsets": _daemon_set,
        "apps/controllerrevisions": _revision,
    }
)
"""By ``group/resource``."""
