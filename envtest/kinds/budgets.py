"""Disruption budgets: whether a pod may be evicted."""

from __future__ import annotations

from envtest.kinds.workloads import selects
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.ports import ListQuery
from opsdk.apiserver.registry.store import Store
from opsdk.apiserver.storage.ports import Tree
from opsdk.apiserver.tree_copy import copy_tree
from opsdk.errors import ApiError, Cause, Details, TooManyRequestsError

_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


async def check_budgets(context: Context, budgets: Store, pod: Tree) -> None:
    """Take one disruption of the pod's budget; raise where there is none left."""
    labels = pod["metadata"].get("labels") or {}
    listed = await budgets.list(context, ListQuery())
    found = [b for b in listed.items if selects((b.get("spec") or {}).get("selector") or {}, labels)]
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(text, code=500, reason="InternalError")
    if not found:
        return

    async def spend(current: Tree | None) -> Tree:
        budget: Tree = copy_tree(current or found[0])
        status = budget.setdefault("status", {})
        name = budget["metadata"]["name"]
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise _refused(f"The disruption budget {name} is still being processed by the server.", wait=10)
        if status.get("disruptionsAllowed", 0) < 1:
            healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            raise _refused(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        status["disruptionsAllowed"] -= 1
        return budget

    await budgets.storage.guaranteed_update(budgets.key(context.namespace, found[0]["metadata"]["name"]), spend)


def _refused(text: str, *, wait: int = 0) -> TooManyRequestsError:
    causes = (Cause(reason="DisruptionBudget", message=text),)
    return TooManyRequestsError(_VIOLATES, details=Details(causes=causes, retry_after_seconds=wait))
