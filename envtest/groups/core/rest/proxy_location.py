"""Resolve the backend of a ``proxy`` subresource request. Pure.

Upstream: pkg/registry/core/pod/strategy.go (v1.36)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

import msgspec

from opsdk.apimachinery.integers import parse_int
from opsdk.apiserver import api_errors
from opsdk.errors import ServiceUnavailableError
from opsdk.structured_merge.value import JsonObject

KUBELET_PORT = 10250
"""The kubelet port of nodes that report none."""
PodGetter = Callable[[str], JsonObject | None]
"""Returns the object of a name; None if it does not exist."""


class ProxyTarget(msgspec.Struct, frozen=True):
    """A parsed target: ``name``, ``name:port`` or ``scheme:name:port``."""

    text: str
    scheme: str
    name: str
    port: str

    def host_port(self, address: str, port: str | int = "") -> str:
        """Return ``host:port``, with the requested port, else `port`, else the port of the scheme."""
        chosen = self.port or port or (443 if self.scheme == "https" else 80)
        return f"[{address}]:{chosen}" if ":" in address else f"{address}:{chosen}"


def target_of(text: str, kind: str) -> ProxyTarget:
    """Parse a proxy target; `BadRequestError` if it is invalid.

    >>> target_of("https:web:main", "service").port
    'main'
    """
    scheme, name, port = ("", "", "")
    match text.split(":"):
        case [name]:
            pass
        case [name, port]:
            pass
        case [scheme, name, port]:
            pass
    if not name or scheme not in ("", "http", "https"):
        raise api_errors.bad_request(f"invalid {kind} request {api_errors.quoted(text)}")
    return ProxyTarget(text, scheme, name, port)


def pod_location(target: ProxyTarget, pod: JsonObject) -> str:
    """Return address and port of a pod: the requested port, else its first container port."""
    address = str((pod.get("status") or {}).get("podIP") or "")
    if not _routable(address):
        raise api_errors.bad_request("address not allowed")
    ports = (c["ports"][0].get("containerPort", 0) for c in pod["spec"].get("containers") or () if c.get("ports"))
    return target.host_port(address, next(ports, ""))


def node_location(target: ProxyTarget, node: JsonObject) -> str:
    """Return address and port of a node: the requested port, else the kubelet's."""
    addresses = (node.get("status") or {}).get("addresses") or []
    if not addresses:
        raise api_errors.plain("no preferred addresses found; known addresses: []")
    return target.host_port(addresses[0].get("address", ""), KUBELET_PORT)


def service_location(target: ProxyTarget, service: JsonObject, endpoints: JsonObject, get_pod: PodGetter) -> str:
    """Return address and port of an endpoint of a service; it must be a pod of the same namespace."""
    name = target.name
    unavailable = ServiceUnavailableError(f"no endpoints available for service {api_errors.quoted(name)}")
    port = _port_name(target, service)
    if not endpoints.get("subsets"):
        raise unavailable
    location = next(_ready_addresses(endpoints, port, get_pod), None)
    if location is None:
        raise ServiceUnavailableError(f"no endpoints available for service {api_errors.quoted(target.text)}")
    address, number = location
    return ProxyTarget(target.text, target.scheme, name, str(number)).host_port(address)


def _port_name(target: ProxyTarget, service: JsonObject) -> str:
    """Return the port name: the service's name for a port number."""
    number = parse_int(target.port)
    if number is None:
        return target.port
    for port in (service.get("spec") or {}).get("ports") or ():
        if port.get("port") == number:
            return str(port.get("name", ""))
    text = f"no service port {number} found for service {api_errors.quoted(target.name)}"
    raise ServiceUnavailableError(text)


def _ready_addresses(endpoints: JsonObject, port: str, get_pod: PodGetter) -> Iterator[tuple[str, int]]:
    namespace = endpoints["metadata"].get("namespace")
    for subset in endpoints.get("subsets") or ():
        numbers = [p.get("port", 0) for p in subset.get("ports") or () if p.get("name", "") == port]
        for address in subset.get("addresses") or () if numbers else ():
            ref, ip = address.get("targetRef") or {}, address.get("ip", "")
            pod = get_pod(ref.get("name", "")) if ref.get("namespace") == namespace else None
            addresses = [p.get("ip") for p in ((pod or {}).get("status") or {}).get("podIPs") or ()]
            if ip in addresses:
                yield ip, numbers[0]


def _routable(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified)
