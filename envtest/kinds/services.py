# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Services: addresses and node ports are allocated when they are created, released when they go."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from envtest.kinds.base import TableStrategy
from envtest.tables.load import Row
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

DEFAULT_RANGE = ipaddress.IPv4Network("10.0.0.0/24")
"""Where cluster addresses come from unless something else is asked for, as in Go's envtest."""
FIRST_NODE_PORT, LAST_NODE_PORT = 30000, 32767
# The first addresses are left to those who ask for a certain one.
_LEFT_FREE = 16


class Pool:
    """Things that are handed out once; what is in use follows from the stored services."""

    def __init__(self) -> None:
        self.range = DEFAULT_RANGE
        self.addresses: dict[str, str] = {}
        self.ports: dict[int, str] = {}
        self._taken: dict[str, tuple[list[str], list[int]]] = {}
        self._next = _LEFT_FREE

    def address(self) -> str:
        """A free address: the one after the last, round and round."""
        hosts = self.range.num_addresses - 2
        for step in range(hosts):
            place = (self._next + step) % hosts
            address = str(self.range.network_address + 1 + place)
            if address not in self.addresses:
                self._next = place + 1
                return address
        raise problems.internal(f"failed to allocate a serviceIP: range {self.range} is full")

    def port(self) -> int:
        """A free node port."""
        for port in range(FIRST_NODE_PORT, LAST_NODE_PORT + 1):
            if port not in self.ports:
                return port
        raise problems.internal("failed to allocate a nodePort: range is full")

    def take(self, obj: Tree) -> None:
        """Everything a service has is in use."""
        spec, uid = obj.get("spec") or {}, obj["metadata"]["uid"]
        addresses = [a for a in spec.get("clusterIPs") or () if a != "None"]
        ports = list(used_ports(spec))
        self.addresses |= dict.fromkeys(addresses, uid)
        self.ports |= dict.fromkeys(ports, uid)
        held = self._taken.setdefault(uid, ([], []))
        held[0].extend(addresses)
        held[1].extend(ports)

    def release(self, obj: Tree) -> None:
        """Nothing a service had is in use any more."""
        uid = obj["metadata"]["uid"]
        addresses, ports = self._taken.pop(uid, ([], []))
        for address in addresses:
            if self.addresses.get(address) == uid:
                del self.addresses[address]
        for port in ports:
            if self.ports.get(port) == uid:
                del self.ports[port]


def used_ports(spec: Tree) -> Iterator[int]:
    """The node ports of a service."""
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


class ServiceStrategy(TableStrategy):
    """See the module."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.pool = Pool()
        self.selectable = {
            "spec.clusterIP": lambda obj: str((obj.get("spec") or {}).get("clusterIP", "")),
            "spec.type": lambda obj: str((obj.get("spec") or {}).get("type", "")),
        }

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Labels."""
        return names.dns_label(name, prefix=prefix)

    def initial_status(self, obj: Tree) -> Tree:
        """No balancer yet."""
        return {"loadBalancer": {}}

    # -------------------------------------------------------------- create
    def prepare_for_create(self, context: Context, obj: Tree) -> None:
        """Families, addresses, ports; what they are is settled before validation, kept after storing."""
        super().prepare_for_create(context, obj)
        self._allocate(obj, None)

    def _allocate(self, obj: Tree, old: Tree | None) -> None:
        spec = obj["spec"]
        if spec.get("type") == "ExternalName":
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
                spec.pop(key, None)
            return
        if not spec.get("clusterIP"):
            before = ((old or {}).get("spec") or {}).get("clusterIP")
            spec["clusterIP"] = before or self.pool.address()
        if not spec.get("clusterIPs") or spec["clusterIPs"][0] != spec["clusterIP"]:
            spec["clusterIPs"] = [spec["clusterIP"], *(spec.get("clusterIPs") or [])[1:]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        self._allocate_ports(spec, old)

    def _allocate_ports(self, spec: Tree, old: Tree | None) -> None:
        wants = spec.get("type") == "NodePort" or (
            spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
        )
        if not wants:
            return
        before = {
            (p.get("port"), p.get("protocol")): p.get("nodePort")
            for p in ((old or {}).get("spec") or {}).get("ports") or ()
        }
        taken: set[int] = set(used_ports(spec))
        for port in spec.get("ports") or ():
            if port.get("nodePort"):
                continue
            found = before.get((port.get("port"), port.get("protocol")))
            while found is None or (found in taken and found not in before.values()):
                found = next(
                    n for n in range(FIRST_NODE_PORT, LAST_NODE_PORT + 1) if n not in self.pool.ports and n not in taken
                )
            taken.add(found)
            port["nodePort"] = found

    def validate(self, context: Context, obj: Tree) -> Sequence[Cause]:
        """Ports and addresses."""
        return [*_validate_ports(obj["spec"]), *_validate_address(obj["spec"]), *self._validate_free(obj)]

    def _validate_free(self, obj: Tree) -> Iterator[Cause]:
        spec, uid = obj["spec"], obj["metadata"].get("uid")
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            owner = self.pool.addresses.get(address)
            if owner is not None and owner != uid:
                text = f"failed to allocate IP {address}: provided IP is already allocated"
                yield problems.invalid_value("spec.clusterIPs", [address], text)
            elif address != "None" and not self._in_range(address):
                text = f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range."
                text += f" The range of valid IPs is {self.pool.range}"
                yield problems.invalid_value("spec.clusterIPs", [address], text)
            if index:
                break
        for index, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort")
            if number and self.pool.ports.get(number, uid) != uid:
                field = f"spec.ports[{index}].nodePort"
                yield problems.invalid_value(field, number, "provided port is already allocated")

    # -------------------------------------------------------------- update
    def prepare_for_update(self, context: Context, obj: Tree, old: Tree) -> None:
        """What was allocated stays, as far as the type allows."""
        super().prepare_for_update(context, obj, old)
        spec, before = obj["spec"], old["spec"]
        if spec.get("type") != "ExternalName" and before.get("type") != "ExternalName":
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if not spec.get(key) and before.get(key):
                    spec[key] = before[key]
        self._allocate(obj, old)

    def validate_update(self, context: Context, obj: Tree, old: Tree) -> Sequence[Cause]:
        """The address stays."""
        found: list[Cause] = []
        before, now = old["spec"].get("clusterIPs") or [], obj["spec"].get("clusterIPs") or []
        if before and now and before[0] != now[0]:
            text = "may not change once set"
            found.append(problems.invalid_value("spec.clusterIPs[0]", now, text))
        return [*found, *self.validate(context, obj)]

    # -------------------------------------------------------------- side effects
    def before_create(self, context: Context, obj: Tree) -> None:
        """Nobody else gets these."""
        self.pool.take(obj)

    async def after_update(self, context: Context, obj: Tree, old: Tree) -> None:
        """What it has now, it has."""
        self.pool.release(old)
        self.pool.take(obj)

    async def after_delete(self, context: Context, obj: Tree) -> None:
        """Free again."""
        self.pool.release(obj)

    def _in_range(self, address: str) -> bool:
        try:
            return ipaddress.ip_address(address) in self.pool.range
        except ValueError:
            return True


def _validate_address(spec: Tree) -> Iterator[Cause]:
    kind = spec.get("type")
    if kind not in ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"):
        allowed = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
        yield problems.unsupported("spec.type", kind, sorted(allowed))
    if kind == "ExternalName":
        name = spec.get("externalName", "")
        if not name:
            yield problems.required("spec.externalName")
        else:
            for text in names.dns_subdomain(name.rstrip(".")):
                yield problems.invalid_value("spec.externalName", name, text)
    address = spec.get("clusterIP", "")
    if address and address != "None":
        try:
            ipaddress.ip_address(address)
        except ValueError:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield problems.invalid_value("spec.clusterIPs[0]", address, text)
    if spec.get("sessionAffinity") not in ("None", "ClientIP"):
        yield problems.unsupported("spec.sessionAffinity", spec.get("sessionAffinity"), ["ClientIP", "None"])


def _validate_ports(spec: Tree) -> Iterator[Cause]:
    ports = spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and spec.get("type") != "ExternalName":
        yield problems.required("spec.ports")
    seen: set[str] = set()
    keys: set[tuple[object, object]] = set()
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        name, number = port.get("name", ""), port.get("port", 0)
        if not name and len(ports) > 1:
            yield problems.required(f"{field}.name")
        elif name:
            for text in names.dns_label(name):
                yield problems.invalid_value(f"{field}.name", name, text)
            if name in seen:
                yield problems.duplicate(f"{field}.name", name)
            seen.add(name)
        yield from _validate_port(port, field, spec.get("type", ""))
        key = (number, port.get("protocol"))
        if key in keys:
            yield problems.duplicate(field, {"protocol": port.get("protocol"), "port": number, "targetPort": 0})
        keys.add(key)


def _validate_port(port: Tree, field: str, kind: str) -> Iterator[Cause]:
    number, node_port = port.get("port", 0), port.get("nodePort")
    if not 1 <= number <= 65535:
        yield problems.invalid_value(f"{field}.port", number, "must be between 1 and 65535, inclusive")
    if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
        yield problems.unsupported(f"{field}.protocol", port.get("protocol"), ["SCTP", "TCP", "UDP"])
    if node_port and kind in ("ClusterIP", "ExternalName"):
        yield problems.not_allowed(f"{field}.nodePort", "may not be used when `type` is 'ClusterIP'")
    elif node_port and not FIRST_NODE_PORT <= node_port <= LAST_NODE_PORT:
        valid = f"{FIRST_NODE_PORT}-{LAST_NODE_PORT}"
        text = f"provided port is not in the valid range. The range of valid ports is {valid}"
        yield problems.invalid_value(f"{field}.nodePort", node_port, text)
