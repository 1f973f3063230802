"""``ResourceQuota``: the last admission plugin; it books quota usage before an object is stored.

Upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota/admission.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable

from envtest.admission.pod_resources import Amounts
from envtest.admission.resource_quota.check import QuotaError, QuotaRequest, check_request, written
from envtest.admission.resource_quota.evaluators import Registry
from opsdk.aio.clock import utc_now
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.errors import refused
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.plugin import Plugin
from opsdk.apiserver.fieldmanager.field_manager import FieldManager
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.structured_merge.value import JsonObject

_MANAGER = "kube-apiserver"


class _ChangedError(Exception):
    """Another request changed the usage in the meantime."""


class ResourceQuota(Plugin):
    """Rejects objects that exceed a quota, and records the usage of the others.

    Args:
        quotas: the quotas.
        store: where they are stored.
        owner: returns the managedFields owner of the quota status; called at the first change of a usage.
    """

    def __init__(self, quotas: ObjectCache, store: LocalStore, owner: Callable[[], FieldManager]) -> None:
        self._quotas = quotas
        self._store = store
        self._owner = owner
        self._registry = Registry()

    async def validate(self, review: Attributes) -> None:
        """Check the usage of a namespaced object, and add it to the status of the quotas."""
        info = review.served.info
        if not info.namespaced or review.obj is None or not self._quotas.of(review.namespace):
            return
        evaluator = self._registry.of(info.group, info.resource)
        if evaluator is None or not evaluator.handles(review.operation, review.subresource):
            return
        attributes = QuotaRequest(evaluator=evaluator, obj=review.obj, old=review.old, now=utc_now())
        booked: set[str] = set()
        while True:
            remaining = [q for q in self._quotas.of(review.namespace) if q["metadata"]["uid"] not in booked]
            try:
                for quota, used in check_request(remaining, attributes):
                    if not review.dry_run:
                        await self._book(quota, used)
                        booked.add(quota["metadata"]["uid"])
            except QuotaError as error:
                raise refused(review, str(error)) from None
            except _ChangedError:
                continue
            return

    async def _book(self, quota: JsonObject, used: Amounts) -> None:
        meta = quota["metadata"]
        now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")

        async def update(current: JsonObject | None) -> JsonObject:
            if current is None or current["metadata"]["resourceVersion"] != meta["resourceVersion"]:
                raise _ChangedError
            desired = {**current, "status": {**(current.get("status") or {}), "used": written(used)}}
            return self._owner().update(current, desired, manager=_MANAGER, now=now)

        await self._store.storage.guaranteed_update(self._store.key(meta["namespace"], meta["name"]), update)
