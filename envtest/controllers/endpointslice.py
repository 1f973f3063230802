"""Services: publish ready pods as EndpointSlices and Endpoints.

Upstream: pkg/controller/endpointslice, pkg/controller/endpoint (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envtest.controllers.controller import ControllerContext, SimulatedController
from envtest.controllers.index import ObjectIndex
from envtest.controllers.objects import deleting, is_ready, owner_reference, phase_of
from envtest.controllers.writes import ENDPOINTS, PODS, SERVICES, SLICES, CreateWrite, DeleteWrite, UpdateWrite, Write
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject

SERVICE, MANAGED = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
_MANAGER = "endpointslice-controller.k8s.io"
_MIRRORED = "endpoints.kubernetes.io/managed-by"
_SLICE_SIZE = 100
"""Maximum endpoints in a slice: the default of kube-controller-manager."""


# ------------------------------------------------------------------ core
def backends(service: JsonObject, pods: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the pods of a service, by name."""
    selector = (service["spec"].get("selector") or {}).items()
    matching = [
        p
        for p in pods
        if selector <= (p["metadata"].get("labels") or {}).items()
        and (p.get("status") or {}).get("podIP")
        and phase_of(p) not in ("Succeeded", "Failed")
    ]
    return sorted(matching, key=lambda p: p["metadata"]["name"])


def ports_of(service: JsonObject, pod: JsonObject, *, names: bool) -> list[JsonObject]:
    """Return the endpoint ports of a pod behind a service; `names` writes empty names too."""
    service_ports: list[JsonObject] = []
    for port in service["spec"].get("ports") or ():
        number = _target_port(port, pod)
        if number is not None:
            entry: JsonObject = {"port": number, "protocol": port.get("protocol", "TCP")}
            if names or port.get("name"):
                entry["name"] = port.get("name", "")
            service_ports.append(entry)
    return service_ports


def _target_port(port: JsonObject, pod: JsonObject) -> int | None:
    """Return the number of a service port on a pod; None if the pod has no container port of that name."""
    target = port.get("targetPort", port.get("port"))
    if isinstance(target, int):
        return target
    spec, protocol = pod["spec"], port.get("protocol", "TCP")
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    container_ports = (q for c in (*(spec.get("containers") or ()), *sidecars) for q in c.get("ports") or ())
    return next(
        (
            int(q["containerPort"])
            for q in container_ports
            if q.get("name") == target and q.get("protocol", "TCP") == protocol
        ),
        None,
    )


def _by_ports(
    service: JsonObject, pods: Sequence[JsonObject], *, names: bool
) -> list[tuple[list[JsonObject], list[JsonObject]]]:
    """Group pods by their endpoint ports: a named target port may mean another number on each pod."""
    groups: list[tuple[list[JsonObject], list[JsonObject]]] = []
    for pod in pods:
        ports = ports_of(service, pod, names=names)
        group = next((members for group_ports, members in groups if group_ports == ports), None)
        if group is None:
            groups.append((ports, [pod]))
        else:
            group.append(pod)
    return groups


def _ready(service: JsonObject, pod: JsonObject) -> bool:
    return (is_ready(pod) and not deleting(pod)) or bool(service["spec"].get("publishNotReadyAddresses"))


def _target(pod: JsonObject) -> JsonObject:
    return {"kind": "Pod", **{k: pod["metadata"][k] for k in ("namespace", "name", "uid")}}


def _endpoint(service: JsonObject, pod: JsonObject) -> JsonObject:
    endpoint: JsonObject = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": _ready(service, pod), "serving": is_ready(pod), "terminating": deleting(pod)},
        "nodeName": pod["spec"].get("nodeName", ""),
        "targetRef": _target(pod),
    }
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service["metadata"]["name"]:
        endpoint["hostname"] = pod["spec"]["hostname"]
    return endpoint


def _selects(service: JsonObject) -> bool:
    """Whether the service selects pods; an ExternalName service does not."""
    return bool(service["spec"].get("selector")) and service["spec"].get("type") != "ExternalName"


def _headless(service: JsonObject) -> dict[str, str]:
    return {"service.kubernetes.io/headless": ""} if service["spec"].get("clusterIP") == "None" else {}


def plan_slices(service: JsonObject, pods: Sequence[JsonObject], slices: Sequence[JsonObject]) -> list[Write]:
    """Return the writes of one sync of a service's EndpointSlices."""
    if not _selects(service) or deleting(service):
        return []
    chunks: list[JsonObject] = []
    for ports, members in _by_ports(service, pods, names=True):
        endpoints = [_endpoint(service, p) for p in members]
        parts = [endpoints[n : n + _SLICE_SIZE] for n in range(0, len(endpoints), _SLICE_SIZE)]
        chunks.extend({"addressType": "IPv4", "endpoints": part, "ports": ports} for part in parts)
    if not chunks:
        # A placeholder: it distinguishes a service without pods from one that is not synced yet.
        chunks.append({"addressType": "IPv4", "endpoints": [], "ports": []})
    existing = sorted(slices, key=lambda s: s["metadata"]["name"])
    matched: list[tuple[JsonObject, JsonObject | None]] = []
    for chunk in chunks:
        same_ports = next((s for s in existing if (s.get("ports") or []) == chunk["ports"]), None)
        if same_ports is not None:
            existing.remove(same_ports)
        matched.append((chunk, same_ports))
    writes: list[Write] = []
    for chunk, same_ports in matched:
        # Slices with other ports are updated before new ones are created.
        current = same_ports if same_ports is not None else existing.pop(0) if existing else None
        if current is None:
            writes.append(CreateWrite(SLICES, {**_slice(service), **chunk}))
        elif any((current.get(k) or []) != v for k, v in chunk.items()):
            writes.append(UpdateWrite(SLICES, {**current, **chunk}))
    writes.extend(DeleteWrite(SLICES, s) for s in existing)
    return writes


def _slice(service: JsonObject) -> JsonObject:
    meta = service["metadata"]
    labels = {**(meta.get("labels") or {}), SERVICE: meta["name"], MANAGED: _MANAGER, **_headless(service)}
    return {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "generateName": f"{meta['name']}-",
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(service)],
        },
    }


def plan_endpoints(service: JsonObject | None, pods: Sequence[JsonObject], existing: JsonObject | None) -> list[Write]:
    """Return the writes of one sync of a service's Endpoints; `service` is None if it was deleted."""
    if service is None or deleting(service):
        mirrored = existing is not None and _MIRRORED in (existing["metadata"].get("labels") or {})
        return [DeleteWrite(ENDPOINTS, existing)] if mirrored and existing is not None else []
    if not _selects(service):
        return []
    subsets = _subsets(service, [p for p in pods if not deleting(p)])
    meta = service["metadata"]
    if existing is None:
        labels = {**(meta.get("labels") or {}), _MIRRORED: "endpoint-controller", **_headless(service)}
        metadata = {"name": meta["name"], "namespace": meta["namespace"], "labels": labels}
        return [
            CreateWrite(ENDPOINTS, {"kind": "Endpoints", "apiVersion": "v1", "metadata": metadata, "subsets": subsets})
        ]
    return (
        [] if (existing.get("subsets") or []) == subsets else [UpdateWrite(ENDPOINTS, {**existing, "subsets": subsets})]
    )


def _subsets(service: JsonObject, pods: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the subsets of a Service's Endpoints."""
    subsets: list[JsonObject] = []
    for ports, members in _by_ports(service, pods, names=False):
        if not ports and service["spec"].get("ports"):
            continue  # no port of the service exists on these pods
        subset: JsonObject = {"ports": ports}
        for field_name, ready in (("addresses", True), ("notReadyAddresses", False)):
            if addresses := sorted(
                (
                    {"ip": p["status"]["podIP"], "nodeName": p["spec"].get("nodeName", ""), "targetRef": _target(p)}
                    for p in members
                    if _ready(service, p) is ready
                ),
                key=lambda address: str(address["ip"]),
            ):
                subset[field_name] = addresses
        subsets.append(subset)
    return subsets


LabelValue = tuple[str, str, str]
"""A namespace, a label and its value."""


def _label_values(namespace: str, labels: JsonObject) -> list[LabelValue]:
    return [(namespace, label, str(value)) for label, value in sorted(labels.items())]


def _labels(pod: JsonObject | None) -> JsonObject:
    return {} if pod is None else pod["metadata"].get("labels") or {}


def _selector(service: JsonObject | None) -> JsonObject:
    return {} if service is None else service["spec"].get("selector") or {}


# ------------------------------------------------------------------ shell
class _ServiceController(SimulatedController):
    """Syncs a service when it or a pod that it selects changes."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = ObjectIndex[LabelValue]()
        self._services = ObjectIndex[LabelValue]()

    def add_event_handlers(self) -> None:
        """Watch services and pods."""
        self.informers.add_event_handler(SERVICES, self._service)
        self.informers.add_event_handler(PODS, self._pod)

    def _service(self, change: StorageChange) -> None:
        # Any single label of the selector finds the service.
        namespace = change.latest["metadata"]["namespace"]
        before, after = (_label_values(namespace, _selector(o))[:1] for o in (change.previous, change.current))
        self._services.update(change.key, before, after)
        self.queue.add(change.key)

    def _pod(self, change: StorageChange) -> None:
        namespace = change.latest["metadata"]["namespace"]
        before, after = (_label_values(namespace, _labels(o)) for o in (change.previous, change.current))
        self._pods.update(change.key, before, after)
        for key in dict.fromkeys(key for value in (*before, *after) for key in self._services.keys(value)):
            self.queue.add(key)

    def backends(self, service: JsonObject) -> list[JsonObject]:
        """Return the pods behind a service."""
        values = _label_values(service["metadata"]["namespace"], _selector(service))
        keys = self._pods.keys(min(values, key=self._pods.count)) if values else ()
        return backends(service, (p for k in keys if (p := self.informers.get(k)) is not None))


class SliceController(_ServiceController):
    """``endpointslice``: keys of Services."""

    name = "endpointslice"

    async def reconcile(self, key: str) -> float | None:
        service = self.informers.get(key)
        if service is not None:
            slices = self.informers.dependents(service["metadata"]["uid"], SLICES.prefix)
            await self.write(plan_slices(service, self.backends(service), slices))
        return None


class EndpointsController(_ServiceController):
    """``endpoints``: keys of Services."""

    name = "endpoints"

    async def reconcile(self, key: str) -> float | None:
        service = self.informers.get(key)
        existing = self.informers.get(ENDPOINTS.key(*SERVICES.split(key)))
        pods = [] if service is None else self.backends(service)
        await self.write(plan_endpoints(service, pods, existing))
        return None
