"""Register APIServices for built-in group versions and for custom resources.

Upstream: k8s.io/kube-aggregator/pkg/controllers/autoregister (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from opsdk.apiserver.aggregator.api_services import GROUP, local_status
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.storage.ports import KeyExistsError, KeyNotFoundError
from opsdk.structured_merge.value import JsonObject

MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
ON_START, ALWAYS = "onstart", "true"

_GROUPS: Final = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "storagemigration.k8s.io": 15800,
}
"""Group priorities in discovery, as in kube-apiserver."""
_RANKS: Final = {("", "v1"): 1, ("autoscaling", "v2"): 30, ("flowcontrol.apiserver.k8s.io", "v1"): 21}
_RANK: Final = 15
_CUSTOM_GROUP, _CUSTOM_RANK = 1000, 100

GroupVersion = tuple[str, str]


def service_of(group: str, version: str, *, managed: str, priority: int, rank: int, now: str) -> JsonObject:
    """Return the ``APIService`` of a locally served group version."""
    spec: JsonObject = {"group": group} if group else {}
    spec |= {"version": version, "groupPriorityMinimum": priority, "versionPriority": rank}
    fields = {
        "f:metadata": {"f:labels": {".": {}, f"f:{MANAGED}": {}}},
        "f:spec": {f"f:{key}": {} for key in sorted(spec)},
    }
    owner = {
        "manager": "kube-apiserver",
        "operation": "Update",
        "apiVersion": f"{GROUP}/v1",
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    meta = {"name": f"{version}.{group}", "labels": {MANAGED: managed}, "managedFields": [owner]}
    api_service: JsonObject = {"kind": "APIService", "apiVersion": f"{GROUP}/v1", "metadata": meta, "spec": spec}
    return {**api_service, "status": local_status(now)}


class AutoRegistration:
    """Creates and deletes the APIServices of locally served group versions.

    Args:
        custom: returns the group versions of CustomResourceDefinitions.
    """

    def __init__(self, services: LocalStore, custom: Callable[[], Iterable[GroupVersion]]) -> None:
        self._services = services
        self._custom = custom
        self._have: set[GroupVersion] = set()

    def __repr__(self) -> str:
        return f"<AutoRegistration of {len(self._have)} custom group versions>"

    def start(self, built_in: Iterable[GroupVersion]) -> None:
        """Create the missing APIServices in the storage directly, because they are many."""
        context = Context()
        now = context.timestamp()
        for group, version in dict.fromkeys(built_in):
            priority = _GROUPS.get(group)
            if priority is not None:
                rank = _RANKS.get((group, version), _RANK)
                api_service = service_of(group, version, managed=ON_START, priority=priority, rank=rank, now=now)
                self._create(context, api_service)
        self.reload()

    def reload(self) -> None:
        """Start from the APIServices in the storage."""
        self._have = set()
        for _, obj in self._services.storage.list_now(self._services.prefix).items:
            if _managed(obj) == ALWAYS:
                self._have.add((obj["spec"].get("group", ""), obj["spec"]["version"]))
        self.sync()

    async def on_deleted(self, _: Context) -> None:
        """Recreate a deleted APIService if it is always registered."""
        self.reload()

    def sync(self) -> None:
        """Register the group versions of CRDs."""
        desired = set(self._custom())
        if desired == self._have:
            return
        context = Context()
        now = context.timestamp()
        for group, version in sorted(desired - self._have):
            numbers = {"priority": _CUSTOM_GROUP, "rank": _CUSTOM_RANK}
            self._create(context, service_of(group, version, managed=ALWAYS, now=now, **numbers))
        for group, version in sorted(self._have - desired):
            name = f"{version}.{group}"
            key = self._services.key("", name)
            with suppress(KeyNotFoundError):
                if _managed(self._services.storage.get_now(key)) == ALWAYS:
                    self._services.storage.delete_now(key)
        self._have = desired

    def _create(self, context: Context, obj: JsonObject) -> None:
        meta = obj["metadata"]
        meta |= {"uid": context.new_uid(), "creationTimestamp": meta["managedFields"][0]["time"]}
        # An APIService of that name may exist already, for another server.
        with suppress(KeyExistsError):
            self._services.storage.create_now(self._services.key("", meta["name"]), obj)


def _managed(obj: JsonObject) -> str:
    return str((obj["metadata"].get("labels") or {}).get(MANAGED, ""))
