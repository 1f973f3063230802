"""``bindings`` and ``pods/binding``: assign a pod to a node.

Upstream: pkg/registry/core/pod/storage/storage.go (v1.36)
"""

from __future__ import annotations

from envtest.groups.common.rest import SUCCESS
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.rest import Validate, accept
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.errors import ConflictError, Details
from opsdk.structured_merge.value import JsonObject


class BindingStore:
    """``pods/binding`` and ``bindings``: binds a pod to a node, once.

    Attributes:
        keeps_identity: uid and resource version in the body are preconditions.
    """

    keeps_identity = True

    def __init__(self, pods: LocalStore) -> None:
        self._pods = pods
        self.strategy = Strategy()

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        meta, target = obj["metadata"], obj.get("target") or {}
        if name and meta.get("name") != name:
            raise api_errors.bad_request("name in URL does not match name in Binding object")
        name = name or meta.get("name", "")
        if not name:
            raise api_errors.bad_request("Name parameter required.")
        causes = []
        if target.get("kind") not in (None, "", "Node"):
            causes.append(api_errors.unsupported("target.kind", target["kind"], ("Node", "<empty>")))
        if not target.get("name"):
            causes.append(api_errors.required("target.name"))
        for cause in causes:
            raise api_errors.plain(f"{cause.field}: {cause.message}")

        async def bind(current: JsonObject | None) -> JsonObject:
            if current is None:
                raise api_errors.not_found(self._pods.info, name)
            pod: JsonObject = copy_tree(current)
            self._check(pod, name)
            pod["spec"]["nodeName"] = target["name"]
            for key in ("annotations", "labels"):
                if meta.get(key):
                    pod["metadata"][key] = {**(pod["metadata"].get(key) or {}), **meta[key]}
            put_pod_condition(pod, context, {"type": "PodScheduled", "status": "True"})
            return pod

        await validate(obj, None)
        store = LocalStore(self._pods.storage, self._pods.info, UnvalidatedStrategy(), prefix=self._pods.prefix)
        await store.update(context, name, bind, uid=meta.get("uid") or "")
        return dict(SUCCESS)

    @staticmethod
    def _check(pod: JsonObject, name: str) -> None:
        reason = ""
        if pod["metadata"].get("deletionTimestamp"):
            reason = f"pod {name} is being deleted, cannot be assigned to a host"
        elif pod["spec"].get("nodeName"):
            reason = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif pod["spec"].get("schedulingGates"):
            reason = f"pod {name} has non-empty .spec.schedulingGates"
        if reason:
            text = f'Operation cannot be fulfilled on pods/binding "{name}": {reason}'
            raise ConflictError(text, details=Details(name=name, kind="pods/binding"))


def put_pod_condition(pod: JsonObject, context: Context, condition: JsonObject) -> None:
    """Set a condition in the pod's status; an unchanged status keeps its transition time."""
    status = pod.setdefault("status", {})
    stamp = context.timestamp()
    updated = {"lastProbeTime": None, **condition, "lastTransitionTime": stamp}
    conditions = []
    for old in status.get("conditions") or []:
        if old.get("type") != condition["type"]:
            conditions.append(old)
        elif old.get("status") == condition["status"]:
            updated["lastTransitionTime"] = old.get("lastTransitionTime") or stamp
    status["conditions"] = [*conditions, updated]


class UnvalidatedStrategy(Strategy):
    """A strategy without rules, for writes by the server itself."""

    allow_unconditional_update = True
