"""``resourcequota``: recompute the usage of a ResourceQuota when its namespace changes.

Upstream: pkg/controller/resourcequota (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.admission.pod_resources import Amounts, read
from envtest.admission.resource_quota.check import recount, written
from envtest.admission.resource_quota.evaluators import Evaluator, Registry
from envtest.controllers.controller import ControllerContext, SimulatedController
from envtest.controllers.objects import deleting, with_status
from envtest.controllers.writes import QUOTAS, UpdateWrite
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject


class QuotaController(SimulatedController):
    """Recalculates ``status.used``: admission adds usage, this controller finds what was released."""

    name = "resourcequota"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._registry = Registry()

    def add_event_handlers(self) -> None:
        """Watch quotas, and every kind that quotas count."""
        self.informers.add_event_handler_for_all(self._changed)

    def _changed(self, change: StorageChange) -> None:
        if change.key.startswith(QUOTAS.prefix):
            self.queue.add(change.key)
        resource = self.informers.resource_at(change.key)
        if resource is None or not resource.namespaced:
            return
        namespace, _ = resource.split(change.key)
        quotas = self.informers.in_namespace(QUOTAS, namespace)
        evaluator = self._registry.of(resource.group, resource.plural) if quotas else None
        for quota in quotas:
            if evaluator is not None and evaluator.matching((quota["spec"].get("hard") or {}).keys()):
                self.queue.add(QUOTAS.key(namespace, quota["metadata"]["name"]))

    async def reconcile(self, key: str) -> float | None:
        quota = self.informers.get(key)
        if quota is None or deleting(quota):
            return None
        hard: Amounts = read(quota["spec"].get("hard"))
        used = recount(quota, self._objects(quota, hard), self.context.now())
        status = quota.get("status") or {}
        if read(status.get("hard")) != hard or read(status.get("used")) != used:
            desired = {"hard": written(hard), "used": written(used)}
            await self.context.api.write(UpdateWrite(QUOTAS, with_status(quota, desired), "status"))
        return None

    def _objects(self, quota: JsonObject, hard: Amounts) -> Iterator[tuple[Evaluator, list[JsonObject]]]:
        for resource in self.informers.resources:
            evaluator = self._registry.of(resource.group, resource.plural) if resource.namespaced else None
            if evaluator is not None and evaluator.matching(hard):
                yield evaluator, self.informers.in_namespace(resource, quota["metadata"]["namespace"])
