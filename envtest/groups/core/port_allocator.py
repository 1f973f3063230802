"""Allocate node ports for Services.

Upstream: pkg/registry/core/service/storage/alloc.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.groups.core.address_pool import FIRST_NODE_PORT, LAST_NODE_PORT, AddressPool
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_OUTSIDE: Final = (
    "provided port is not in the valid range. The range of valid ports is"
    f" {FIRST_NODE_PORT}-{LAST_NODE_PORT}"
)  # fmt: skip
_TAKEN: Final = "provided port is already allocated"


class ServicePortAllocation:
    """Allocates the node ports of one service; they are in use when the service is stored.

    Args:
        free: the addresses and ports of all services.
        uid: the uid of the service that owns the ports.
    """

    def __init__(self, free: AddressPool, uid: str) -> None:
        self._free = free
        self._uid = uid
        self._chosen: set[int] = set()

    def _take(self, number: int) -> str:
        """Return why a node port cannot be allocated; empty if it is allocated."""
        if not FIRST_NODE_PORT <= number <= LAST_NODE_PORT:
            return _OUTSIDE
        if number in self._chosen or self._free.ports.get(number, self._uid) != self._uid:
            return _TAKEN
        self._chosen.add(number)
        return ""

    def _find(self) -> int:
        number = self._free.port(self._chosen)
        self._chosen.add(number)
        return number

    def new(self, ports: Sequence[JsonObject], *, needs_ports: bool) -> Iterator[Cause]:
        """Allocate ports of a new service and yield errors; equal port numbers share one node port."""
        shared: dict[int, int] = {}
        requested = {port.get("port", 0): port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
        for index, port in enumerate(ports):
            number, node_port = port.get("port", 0), port.get("nodePort") or 0
            if not node_port and not needs_ports:
                continue
            protocols = shared.get(number, 0)
            reason = ""
            if not protocols:
                protocols = requested.get(number, 0)
                reason = self._take(protocols) if protocols else ""
                protocols = protocols or self._find()
                shared[number] = port["nodePort"] = protocols
            elif not node_port:
                port["nodePort"] = protocols
            elif node_port != protocols:
                reason, protocols = self._take(node_port), node_port
            if reason:
                yield api_errors.invalid_value(f"spec.ports[{index}].nodePort", protocols, reason)
                return

    def changed(self, ports: Sequence[JsonObject], *, needs_ports: bool) -> Iterator[Cause]:
        """Allocate the ports that an update adds, and yield errors."""
        own_ports = {number for number, uid in self._free.ports.items() if uid == self._uid}
        for index, port in enumerate(ports):
            number = port.get("nodePort") or 0
            if not number and needs_ports:
                port["nodePort"] = self._find()
            elif number and number not in own_ports and number not in self._chosen:
                reason = self._take(number)
                if reason:
                    yield api_errors.invalid_value(f"spec.ports[{index}].nodePort", number, reason)
                    return

    def health(self, spec: JsonObject) -> None:
        """Allocate the health check node port."""
        number = spec.get("healthCheckNodePort") or 0
        if not number:
            spec["healthCheckNodePort"] = self._find()
            return
        reason = self._take(number)
        if reason:
            raise api_errors.internal(f"failed to allocate requested HealthCheck NodePort {number}: {reason}")
