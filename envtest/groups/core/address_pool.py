"""The cluster IPs and node ports that the stored Services use.

Upstream: pkg/registry/core/service/ipallocator and portallocator (v1.36)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from opsdk.apiserver import api_errors
from opsdk.structured_merge.value import JsonObject

DEFAULT_RANGE = ipaddress.IPv4Network("10.0.0.0/24")
"""The default range of cluster IPs, as in Go's envtest."""
FIRST_NODE_PORT: Final = 30000
LAST_NODE_PORT: Final = 32767
# The start of each range is reserved for statically assigned addresses and ports.
_LEFT_FREE = 16
_PORTS_LEFT_FREE = 86


class AddressPool:
    """Allocates cluster IPs and node ports that no stored service uses."""

    def __init__(self) -> None:
        self.range = DEFAULT_RANGE
        self.addresses: dict[str, str] = {}
        self.ports: dict[int, str] = {}
        self._taken: dict[str, tuple[list[str], list[int]]] = {}
        self._next = _LEFT_FREE
        self._next_port = _PORTS_LEFT_FREE

    def address(self) -> str:
        """Allocate a free address, the next one after the last."""
        hosts = self.range.num_addresses - 2
        for step in range(hosts):
            place = (self._next + step) % hosts
            address = str(self.range.network_address + 1 + place)
            if address not in self.addresses:
                self._next = place + 1
                return address
        raise api_errors.internal(f"failed to allocate a serviceIP: range {self.range} is full")

    def port(self, taken: set[int]) -> int:
        """Allocate the next free node port after the last one that is not in `taken`."""
        count = LAST_NODE_PORT - FIRST_NODE_PORT + 1
        for step in range(count):
            place = (self._next_port + step) % count
            port = FIRST_NODE_PORT + place
            if port not in self.ports and port not in taken:
                self._next_port = place + 1
                return port
        raise api_errors.internal("failed to allocate a nodePort: range is full")

    def clear(self) -> None:
        """Forget all allocations."""
        self.addresses.clear()
        self.ports.clear()
        self._taken.clear()

    def take(self, obj: JsonObject) -> None:
        """Allocate the addresses and ports of a stored service."""
        spec, uid = obj.get("spec") or {}, obj["metadata"]["uid"]
        addresses = list(cluster_ips(spec))
        ports = list(allocated_node_ports(spec))
        self.addresses |= dict.fromkeys(addresses, uid)
        self.ports |= dict.fromkeys(ports, uid)
        held = self._taken.setdefault(uid, ([], []))
        held[0].extend(addresses)
        held[1].extend(ports)

    def release(self, obj: JsonObject) -> None:
        """Release the addresses and ports of a service."""
        uid = obj["metadata"]["uid"]
        addresses, ports = self._taken.pop(uid, ([], []))
        for address in addresses:
            if self.addresses.get(address) == uid:
                del self.addresses[address]
        for port in ports:
            if self.ports.get(port) == uid:
                del self.ports[port]


def cluster_ips(spec: JsonObject) -> Iterator[str]:
    """Return the cluster IPs of a service; none of a headless one."""
    yield from (a for a in spec.get("clusterIPs") or () if a != "None")


def allocated_node_ports(spec: JsonObject) -> Iterator[int]:
    """Return the node ports of a service."""
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]
