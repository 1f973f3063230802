"""Subresources of built-in kinds that are neither status nor scale."""

from __future__ import annotations

from opsdk.apiserver import problems
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.ports import DeleteOptions, Transform, Validate, accept
from opsdk.apiserver.registry.store import Store
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.storage.ports import Preconditions, Tree
from opsdk.apiserver.tree_copy import copy_tree


class UpdateStore:
    """Only updates, by rules of its own (``namespaces/finalize``)."""

    def __init__(self, main: Store, strategy: Strategy) -> None:
        self._store = Store(main.storage, main.info, strategy, prefix=main.prefix)
        self.strategy = strategy

    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        validate: Validate = accept,
        *,
        force_create: bool = False,  # noqa: ARG002 - the shape of Updater; nothing is created here
        uid: str = "",
    ) -> tuple[Tree, bool]:
        """See `Updater`."""
        return await self._store.update(context, name, transform, validate, uid=uid)


class BindingStore:
    """``pods/binding``: puts a pod on a node, once."""

    def __init__(self, pods: Store) -> None:
        self._pods = pods
        self.strategy = Strategy()

    async def create(self, context: Context, name: str, obj: Tree, validate: Validate = accept) -> Tree:
        """See `Creater`."""
        target = obj.get("target") or {}
        name = name or obj["metadata"].get("name", "")
        if not target.get("name"):
            cause = problems.required("target.name")
            raise problems.invalid("Binding", "", name, [cause])

        async def bind(current: Tree | None) -> Tree:
            if current is None:
                raise problems.not_found(self._pods.info, name)
            pod: Tree = copy_tree(current)
            if pod["spec"].get("nodeName"):
                why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
                raise problems.conflict(self._pods.info, name, why)
            pod["spec"]["nodeName"] = target["name"]
            scheduled = {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": context.timestamp(),
            }
            conditions = [c for c in pod["status"].get("conditions") or [] if c.get("type") != "PodScheduled"]
            pod["status"]["conditions"] = [*conditions, scheduled]
            return pod

        await validate(obj, None)
        await self._raw(bind, context, name)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    async def _raw(self, bind: Transform, context: Context, name: str) -> None:
        store = Store(self._pods.storage, self._pods.info, _Anything(), prefix=self._pods.prefix)
        await store.update(context, name, bind)


class _Anything(Strategy):
    """No rules: the caller knows what it does."""

    allow_unconditional_update = True


class EvictionStore:
    """``pods/eviction``: deletes a pod, unless a disruption budget is in the way."""

    def __init__(self, pods: Store, budgets: Store) -> None:
        self._pods = pods
        self._budgets = budgets
        self.strategy = Strategy()

    async def create(self, context: Context, name: str, obj: Tree, validate: Validate = accept) -> Tree:
        """See `Creater`."""
        pod = await self._pods.get(context, name)
        await validate(obj, None)
        if (pod.get("status") or {}).get("phase") not in ("Pending", "Succeeded", "Failed"):
            await self._check_budgets(context, pod)
        options = obj.get("deleteOptions") or {}
        asked = options.get("preconditions") or {}
        wanted = DeleteOptions(
            grace=options.get("gracePeriodSeconds"),
            propagation=options.get("propagationPolicy") or "",
            preconditions=Preconditions(uid=asked.get("uid"), resource_version=asked.get("resourceVersion")),
        )
        await self._pods.delete(context, name, wanted)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    async def _check_budgets(self, context: Context, pod: Tree) -> None:
        from envtest.kinds.budgets import check_budgets  # noqa: PLC0415 - only evictions need it

        await check_budgets(context, self._budgets, pod)
