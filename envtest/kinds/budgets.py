"""Disruption budgets: whether a pod may be evicted."""

from __future__ import annotations

from collections.abc import Callable

from envtest.kinds.workload_rules import selects
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import ListQuery
from opsdk.apiserver.registry.store import GenericStore
from opsdk.apiserver.resources import ResourceInfo
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.errors import ApiError, Cause, Details, TooManyRequestsError
from opsdk.structured_merge.value import JsonObject

_BUDGETS = ResourceInfo(
    group="policy", version="v1", resource="poddisruptionbudgets", kind="PodDisruptionBudget", namespaced=True
)
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


Record = Callable[[JsonObject, JsonObject, str], JsonObject]
"""A changed status with the server as the owner of what has changed, from the old one and the time."""


async def check_budgets(context: Context, budgets: GenericStore, pod: JsonObject, record: Record) -> None:
    """Take one disruption of the pod's budget; raise where there is none left."""
    labels = pod["metadata"].get("labels") or {}
    listed = await budgets.list(context, ListQuery())
    found = [b for b in listed.items if selects((b.get("spec") or {}).get("selector") or {}, labels)]
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(text, code=500, reason="InternalError")
    if not found:
        return

    name = found[0]["metadata"]["name"]

    async def spend(current: JsonObject | None) -> JsonObject:
        before = current or found[0]
        budget: JsonObject = copy_tree(before)
        _spend(budget, pod["metadata"]["name"], context.timestamp())
        return record(before, budget, context.timestamp())

    if context.dry_run:
        _spend(copy_tree(found[0]), pod["metadata"]["name"], context.timestamp())
        return
    await budgets.storage.guaranteed_update(budgets.key(context.namespace, name), spend)


def _spend(budget: JsonObject, pod: str, stamp: str) -> None:
    """One pod less may go; raise where none may."""
    status, name = budget.setdefault("status", {}), budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", wait=10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise api_errors.forbidden(_BUDGETS, name, "pdb disruptions allowed is negative")
    if not allowed:
        raise _refused(_why(name, status))
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: stamp}
    if allowed == 1:
        _close(budget, status, stamp)


def _why(name: str, status: JsonObject) -> str:
    failed: JsonObject = next((c for c in status.get("conditions") or () if c.get("type") == "DisruptionAllowed"), {})
    if failed.get("status") == "False" and failed.get("reason") == "SyncFailed":
        why = f"because it failed sync: {failed.get('message', '')}"
        return f"The disruption budget {name} does not allow evicting pods currently {why}"
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _close(budget: JsonObject, status: JsonObject, stamp: str) -> None:
    """The condition says that no more may go."""
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionAllowed"]
    closed = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": status.get("observedGeneration", budget["metadata"].get("generation", 0)),
        "lastTransitionTime": stamp,
        "reason": "InsufficientPods",
        "message": "",
    }
    status["conditions"] = [*others, closed]


def _refused(text: str, *, wait: int = 0) -> TooManyRequestsError:
    causes = (Cause(reason="DisruptionBudget", message=text),)
    return TooManyRequestsError(_VIOLATES, details=Details(causes=causes, retry_after_seconds=wait))
