"""The order in which a controller deletes surplus pods. Pure.

Upstream: pkg/controller/controller_utils.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.controllers.job_pods import restarts
from envtest.controllers.objects import age_order, condition_in, conditions_of, is_ready, phase_of
from opsdk.apimachinery.integers import parse_int
from opsdk.structured_merge.value import JsonObject

COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_order(pods: Sequence[JsonObject], *, pods_by_node: Mapping[str, int] | None = None) -> list[JsonObject]:
    """Sort pods by deletion order, the first to delete first.

    Unscheduled, pending, not ready, then, with `pods_by_node`, cheap to delete and on a crowded
    node; then ready for the shortest time, restarted most often, youngest.
    """

    def rank(pod: JsonObject) -> tuple[bool, int, bool, int, int]:
        node = str(pod["spec"].get("nodeName") or "")
        cost = 0 if pods_by_node is None else deletion_cost(pod)
        many = 0 if pods_by_node is None else -pods_by_node.get(node, 0)
        return (bool(node), _PHASES.get(phase_of(pod) or "Unknown", 1), is_ready(pod), cost, many)

    ranked = sorted(pods, key=age_order, reverse=True)
    ranked.sort(key=restarts, reverse=True)
    ranked.sort(key=_ready_since, reverse=True)
    return sorted(ranked, key=rank)


def _ready_since(pod: JsonObject) -> str:
    ready = condition_in(conditions_of(pod), "Ready") or {}
    return str(ready.get("lastTransitionTime") or "") if ready.get("status") == "True" else ""


def deletion_cost(pod: JsonObject) -> int:
    """Return the pod deletion cost annotation; 0 if it is missing or invalid."""
    text = str((pod["metadata"].get("annotations") or {}).get(COST, "0"))
    return parse_int(text) or 0
