"""ResourceClaims with admin access: the namespace needs the admin access label.

Upstream: pkg/registry/resource/resourceclaim (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.rest import Validate, accept
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.resources import ResourceInfo
from opsdk.apiserver.storage.ports import KeyNotFoundError, LocalStorage
from opsdk.structured_merge.value import JsonObject

GROUP: Final = "resource.k8s.io"
CLAIMS: Final = frozenset({f"{GROUP}/resourceclaims", f"{GROUP}/resourceclaimtemplates"})
"""Resources of a `ClaimStore`."""
_LABEL: Final = "resource.kubernetes.io/admin-access"
_REFUSAL: Final = f"admin access to devices requires the `{_LABEL}: true` label on the containing namespace"


class ClaimStore(LocalStore):
    """A store of ResourceClaims or ResourceClaimTemplates.

    Args:
        stores: the registries by ``group/resource``, for the labels of namespaces.
    """

    def __init__(
        self, storage: LocalStorage, info: ResourceInfo, strategy: Strategy, *, stores: Mapping[str, LocalStore]
    ) -> None:
        super().__init__(storage, info, strategy)
        self._stores = stores

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        # Find the first request with admin access.
        # A template has the claim spec inside its own spec.
        spec = obj.get("spec") or {}
        devices: JsonObject = spec.get("devices") or (spec.get("spec") or {}).get("devices") or {}
        requests = devices.get("requests") or ()
        asking = (i for i, request in enumerate(requests) if (request.get("exactly") or {}).get("adminAccess"))
        index = next(asking, None)
        if index is not None and self._labels(context.namespace).get(_LABEL) != "true":
            cause = api_errors.not_allowed(f"spec.devices.requests[{index}].adminAccess", _REFUSAL)
            raise api_errors.invalid(self.info.kind, GROUP, obj["metadata"].get("name", ""), [cause])
        return await super().create(context, name, obj, validate)

    def _labels(self, namespace: str) -> Mapping[str, str]:
        try:
            namespace_object = self.storage.get_now(self._stores["/namespaces"].key("", namespace))
        except KeyNotFoundError:
            return {}
        labels: Mapping[str, str] = namespace_object["metadata"].get("labels") or {}
        return labels
