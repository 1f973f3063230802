"""``pods/eviction``: deletes pods within their disruption budgets.

Upstream: pkg/registry/core/pod/storage/eviction.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable

from envtest.groups.common.label_selectors import selects
from envtest.groups.common.rest import SUCCESS
from envtest.groups.core.rest.binding import UnvalidatedStrategy, put_pod_condition
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.rest import DeleteRequestOptions, ListQuery, Validate, accept
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.resources import ResourceInfo
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.storage.ports import StoragePreconditions
from opsdk.errors import ApiError, Cause, Details, TooManyRequestsError
from opsdk.structured_merge.value import JsonObject

_BUDGETS = ResourceInfo(
    group="policy", version="v1", resource="poddisruptionbudgets", kind="PodDisruptionBudget", namespaced=True
)
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
Record = Callable[[JsonObject, JsonObject, str], JsonObject]
"""Sets managedFields of a status change. Args: the old object, the new object, the timestamp."""


async def check_budgets(context: Context, budgets: LocalStore, pod: JsonObject, record: Record) -> None:
    """Decrement ``disruptionsAllowed`` of the pod's budget; raise `ApiError` if it is zero."""
    labels = pod["metadata"].get("labels") or {}
    listed = await budgets.list(context, ListQuery())
    matching = [b for b in listed.items if selects((b.get("spec") or {}).get("selector") or {}, labels)]
    if len(matching) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(text, code=500, reason="")
    if not matching:
        return

    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    if not ready and _allows_unhealthy(matching[0]):
        return
    name = matching[0]["metadata"]["name"]

    async def spend(current: JsonObject | None) -> JsonObject:
        before = current or matching[0]
        budget: JsonObject = copy_tree(before)
        _check_and_decrement(budget, pod["metadata"]["name"], context.timestamp())
        return record(before, budget, context.timestamp())

    if context.dry_run:
        _check_and_decrement(copy_tree(matching[0]), pod["metadata"]["name"], context.timestamp())
        return
    await budgets.storage.guaranteed_update(budgets.key(context.namespace, name), spend)


def _allows_unhealthy(budget: JsonObject) -> bool:
    """Return whether a pod that is not ready can be evicted without the budget."""
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(0 < desired <= status.get("currentHealthy", 0))


def _check_and_decrement(budget: JsonObject, pod: str, stamp: str) -> None:
    """Decrement ``disruptionsAllowed``; raise `ApiError` if it is zero."""
    status, name = budget.setdefault("status", {}), budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", wait=10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise api_errors.forbidden(_BUDGETS, name, "pdb disruptions allowed is negative")
    if not allowed:
        raise _refused(_denial_message(name, status))
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: stamp}
    if allowed == 1:
        # The last allowed disruption sets the condition to False.
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


def _denial_message(name: str, status: JsonObject) -> str:
    failed: JsonObject = next((c for c in status.get("conditions") or () if c.get("type") == "DisruptionAllowed"), {})
    if failed.get("status") == "False" and failed.get("reason") == "SyncFailed":
        reason = f"because it failed sync: {failed.get('message', '')}"
        return f"The disruption budget {name} does not allow evicting pods currently {reason}"
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _refused(text: str, *, wait: int = 0) -> TooManyRequestsError:
    causes = (Cause(reason="DisruptionBudget", message=text),)
    return TooManyRequestsError(_VIOLATES, details=Details(causes=causes, retry_after_seconds=wait))


class EvictionStore:
    """``pods/eviction``: deletes a pod if its disruption budget allows it.

    Args:
        pods: the store of pods.
        budgets: the store of disruption budgets.
        record: sets managedFields of the server's change of a budget.
    """

    def __init__(
        self, pods: LocalStore, budgets: LocalStore, record: Callable[[JsonObject, JsonObject, str], JsonObject]
    ) -> None:
        self._pods = pods
        self._budgets = budgets
        self._record = record
        self.strategy = Strategy()

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        if obj["metadata"].get("name") != name:
            raise api_errors.bad_request("name in URL does not match name in Eviction object")
        pod = await self._pods.get(context, name)
        await validate(obj, None)
        options = obj.get("deleteOptions") or {}
        if options.get("dryRun"):
            context.dry_run = True
        if (pod.get("status") or {}).get("phase") not in ("Pending", "Succeeded", "Failed"):
            await check_budgets(context, self._budgets, pod, self._record)
        if not context.dry_run and not pod["metadata"].get("deletionTimestamp"):
            # Add the condition DisruptionTarget to the pod.
            store = LocalStore(self._pods.storage, self._pods.info, UnvalidatedStrategy(), prefix=self._pods.prefix)

            async def mark(current: JsonObject | None) -> JsonObject:
                if current is None:
                    raise api_errors.not_found(self._pods.info, name)
                pod: JsonObject = copy_tree(current)
                condition = {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                }
                put_pod_condition(pod, context, condition)
                return pod

            await store.update(context, name, mark)
        preconditions = options.get("preconditions") or {}
        delete_options = DeleteRequestOptions(
            grace=options.get("gracePeriodSeconds"),
            propagation=options.get("propagationPolicy") or "",
            preconditions=StoragePreconditions(
                uid=preconditions.get("uid"), resource_version=preconditions.get("resourceVersion")
            ),
        )
        await self._pods.delete(context, name, delete_options)
        return dict(SUCCESS)
