"""``endpointslice-mirroring``: mirror manually managed Endpoints to EndpointSlices.

Upstream: pkg/controller/endpointslicemirroring (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.controllers.controller import ObjectController
from envtest.controllers.endpointslice import MANAGED, SERVICE
from envtest.controllers.objects import deleting, owner_reference
from envtest.controllers.writes import ENDPOINTS, SERVICES, SLICES, CreateWrite, DeleteWrite, UpdateWrite, Write
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject

_MANAGER = "endpointslicemirroring-controller.k8s.io"
_SKIP, _LEADER = "endpointslice.kubernetes.io/skip-mirror", "control-plane.alpha.kubernetes.io/leader"
_OURS = "endpoints.kubernetes.io/managed-by"
_NOT_COPIED = ("kubectl.kubernetes.io/last-applied-configuration", "endpoints.kubernetes.io/last-change-trigger-time")


# ------------------------------------------------------------------ core
def is_mirrored(endpoints: JsonObject, service: JsonObject | None) -> bool:
    """Return whether Endpoints belong to a service without a selector."""
    meta = endpoints["metadata"]
    labels = meta.get("labels") or {}
    if labels.get(_SKIP) == "true" or _OURS in labels or _LEADER in (meta.get("annotations") or {}):
        return False
    return service is not None and not service["spec"].get("selector")


def wanted_slices(endpoints: JsonObject) -> Iterator[JsonObject]:
    """Return the desired slices: one for each subset and address family."""
    for subset in endpoints.get("subsets") or ():
        addresses = [(a, True) for a in subset.get("addresses") or ()]
        addresses += [(a, False) for a in subset.get("notReadyAddresses") or ()]
        ports = [{"name": "", "protocol": "TCP", **p} for p in subset.get("ports") or ()]
        for kind in ("IPv4", "IPv6"):
            chosen = [_endpoint(a, ready=ready) for a, ready in addresses if (":" in a["ip"]) == (kind == "IPv6")]
            if chosen:
                yield {"addressType": kind, "endpoints": chosen, "ports": ports}


def _endpoint(address: JsonObject, *, ready: bool) -> JsonObject:
    target = {k: address[k] for k in ("hostname", "nodeName", "targetRef") if address.get(k)}
    return {"addresses": [address["ip"]], "conditions": {"ready": ready}, **target}


def plan(endpoints: JsonObject, slices: Sequence[JsonObject], *, mirrored: bool) -> list[Write]:
    """Return the writes of one sync of mirrored Endpoints."""
    desired = list(wanted_slices(endpoints)) if mirrored and not deleting(endpoints) else []
    spare = list(slices)
    writes: list[Write] = []
    for content in desired:
        same = next((s for s in spare if all((s.get(k) or []) == v for k, v in content.items())), None)
        # The address type of a slice is immutable, so only a slice of the same type is reused.
        other = next((s for s in spare if s["addressType"] == content["addressType"]), None)
        existing = same or other
        if existing is None:
            writes.append(CreateWrite(SLICES, {**_slice(endpoints), **content}))
            continue
        spare.remove(existing)
        if same is None:
            writes.append(UpdateWrite(SLICES, {**existing, **content}))
    return [*writes, *(DeleteWrite(SLICES, s) for s in spare)]


def _slice(endpoints: JsonObject) -> JsonObject:
    meta = endpoints["metadata"]
    notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in _NOT_COPIED}
    endpoint_slice = {
        "generateName": f"{meta['name']}-",
        "namespace": meta["namespace"],
        "labels": {**(meta.get("labels") or {}), SERVICE: meta["name"], MANAGED: _MANAGER},
        "ownerReferences": [owner_reference(endpoints)],
        **({"annotations": notes} if notes else {}),
    }
    return {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": endpoint_slice}


# ------------------------------------------------------------------ shell
class MirroringController(ObjectController):
    """``endpointslice-mirroring``: keys of Endpoints."""

    name = "endpointslice-mirroring"
    resource = ENDPOINTS

    def add_event_handlers(self) -> None:
        """Watch Endpoints, their services, and slices that are deleted."""
        super().add_event_handlers()
        self.informers.add_event_handler(SERVICES, self._same_name)
        self.informers.add_event_handler(SLICES, self._slice)

    def _same_name(self, change: StorageChange) -> None:
        self.queue.add(ENDPOINTS.key(*SERVICES.split(change.key)))

    def _slice(self, change: StorageChange) -> None:
        labels = change.latest["metadata"].get("labels") or {}
        if change.current is None and labels.get(MANAGED) == _MANAGER:
            self.queue.add(ENDPOINTS.key(change.latest["metadata"]["namespace"], labels.get(SERVICE, "")))

    async def sync(self, obj: JsonObject) -> float | None:
        meta = obj["metadata"]
        service = self.informers.get(SERVICES.key(meta["namespace"], meta["name"]))
        slices = self.informers.dependents(meta["uid"], SLICES.prefix)
        await self.write(plan(obj, slices, mirrored=is_mirrored(obj, service)))
        return None
