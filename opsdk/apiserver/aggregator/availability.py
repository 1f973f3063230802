"""Checks that the Service of an ``APIService`` exists and has endpoints. Pure.

Upstream: k8s.io/kube-aggregator/pkg/controllers/status/remote/remote_available_controller.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from opsdk.apiserver.aggregator.api_services import Availability, RemoteService
from opsdk.structured_merge.value import JsonObject

SLICE_OF = "kubernetes.io/service-name"


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """The stored objects of a Service: itself (None if absent), its EndpointSlices and its Endpoints."""

    service: JsonObject | None
    slices: Sequence[JsonObject] = ()
    endpoints: JsonObject | None = None


def unavailable_reason(remote: RemoteService, network: Network) -> Availability | None:
    """Return why the service is unavailable, or None if a probe may succeed."""
    where = f'service/{remote.service} in "{remote.namespace}"'
    if network.service is None:
        return Availability("False", "ServiceNotFound", f"{where} is not present")
    spec = network.service.get("spec") or {}
    if spec.get("type", "ClusterIP") != "ClusterIP":
        return None
    port = next((p for p in spec.get("ports") or () if p.get("port") == remote.port), None)
    if port is None:
        return Availability("False", "ServicePortError", f"{where} is not listening on port {remote.port}")
    if not network.slices and network.endpoints is None:
        return Availability("False", "EndpointsNotFound", f"cannot find endpointslices for {where}")
    name = port.get("name") or ""
    if not any(True for _ in _addresses(network, name)):
        reason = f'endpointslices for {where} have no addresses with port name "{name}"'
        return Availability("False", "MissingEndpoints", reason)
    return None


def _addresses(network: Network, port: str) -> Iterator[str]:
    """Yield the ready addresses of a named port."""
    for part in network.slices:
        if _has(part.get("ports"), port):
            for endpoint in part.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready") is not False:
                    yield from endpoint.get("addresses") or ()
    for subset in (network.endpoints or {}).get("subsets") or ():
        if _has(subset.get("ports"), port):
            yield from (address["ip"] for address in subset.get("addresses") or ())


def _has(ports: Sequence[JsonObject] | None, name: str) -> bool:
    return any((port.get("name") or "") == name for port in ports or ())
