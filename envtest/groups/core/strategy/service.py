"""Services: allocate cluster IPs and node ports on create, release them on delete.

Upstream: pkg/registry/core/service/strategy.go (v1.36)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.address_pool import AddressPool, allocated_node_ports, cluster_ips
from envtest.groups.core.port_allocator import ServicePortAllocation
from envtest.groups.core.validation.service import (
    externally_accessible,
    is_headless,
    needs_health_check,
    validate_change,
    validate_families,
    validate_service,
    validate_status,
)
from envtest.groups.core.warnings import service_warnings
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.storage.ports import KeyExistsError, KeyNotFoundError
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_NO_DUAL = "this cluster is not configured for dual-stack services"


_OPEN = ("LoadBalancer", "NodePort")
"""Service types that have node ports."""


def _wants_ports(spec: JsonObject) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True))


_ALLOCATOR: Final = {
    "manager": "kube-apiserver",
    "operation": "Update",
    "apiVersion": "networking.k8s.io/v1",
    "fieldsType": "FieldsV1",
}
_ALLOCATED: Final[JsonObject] = {
    "f:metadata": {
        "f:labels": {
            ".": {},
            "f:ipaddress.kubernetes.io/ip-family": {},
            "f:ipaddress.kubernetes.io/managed-by": {},
        }
    },
    "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
}
"""The managedFields of IPAddress objects that the server creates."""


def _keep_addresses(spec: JsonObject, before: JsonObject) -> None:
    """Complete the cluster IPs of an update, and keep allocated ones that it leaves out."""
    moved = spec.get("clusterIP") != before.get("clusterIP")
    if moved and (spec.get("clusterIPs") or []) == (before.get("clusterIPs") or []):
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        else:
            spec.pop("clusterIPs", None)
    if spec.get("clusterIP") == "None" and not spec.get("clusterIPs"):
        spec["clusterIPs"] = ["None"]
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        # Fields are inherited in order, until one differs from the stored service.
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            moved = key == "clusterIPs" and spec.get("clusterIP") != before.get("clusterIP")
            if not moved and not spec.get(key) and before.get(key):
                spec[key] = before[key]


class ServiceStrategy(GeneratedStrategy):
    """Allocates cluster IPs and node ports of Services, and releases them with the Service.

    Attributes:
        addresses: the store of an ``IPAddress`` for each address in use; set if the server has that kind.
    """

    addresses: LocalStore | None = None

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.pool = AddressPool()
        self._automatic: set[str] = set()
        self.selectable = {
            "spec.clusterIP": lambda obj: str((obj.get("spec") or {}).get("clusterIP", "")),
            "spec.type": lambda obj: str((obj.get("spec") or {}).get("type", "")),
        }

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Check that the name is a DNS label."""
        return validation.dns_label(name, prefix=prefix)

    def initial_status(self, obj: JsonObject) -> JsonObject:
        """Return an empty load balancer status."""
        return {"loadBalancer": {}}

    # -------------------------------------------------------------- allocation
    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Choose families, addresses and ports; they are in use when the service is stored."""
        super().prepare_for_create(context, obj)
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        self._allocate(obj)
        self._allocate_ports(obj, None)

    def _allocate(self, obj: JsonObject) -> None:
        """Set a Service's IP families, and allocate or check its addresses."""
        spec = obj["spec"]
        if spec.get("type") == "ExternalName":
            return
        # One IP family, except for a headless service without selector, which may have two.
        self._refuse(obj, *validate_families(spec))
        if is_headless(spec) and not spec.get("selector"):
            if not spec.get("ipFamilies"):
                single = spec.get("ipFamilyPolicy") == "SingleStack"
                spec["ipFamilies"] = ["IPv4"] if single else ["IPv4", "IPv6"]
            spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        else:
            families = spec.get("ipFamilies") or []
            if not spec.get("ipFamilyPolicy"):
                many = len(families) == 2 or len(spec.get("clusterIPs") or ()) == 2
                spec["ipFamilyPolicy"] = "RequireDualStack" if many else "SingleStack"
            detected = []
            if spec["ipFamilyPolicy"] == "RequireDualStack":
                detected.append(api_errors.invalid_value("spec.ipFamilyPolicy", "RequireDualStack", _NO_DUAL))
            detected.extend(
                api_errors.invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
                for index, family in enumerate(families)
                if family != "IPv4"
            )
            self._refuse(obj, *detected)
            spec.setdefault("ipFamilies", ["IPv4"])
        if not spec.get("clusterIP"):
            self._automatic.add(obj["metadata"]["uid"])
            spec["clusterIP"] = self.pool.address()
            spec["clusterIPs"] = [spec["clusterIP"]]
        else:
            self._check_addresses(obj)

    def _refuse(self, obj: JsonObject, *causes: Cause) -> None:
        if causes:
            raise api_errors.invalid("Service", "", obj["metadata"].get("name", ""), causes)

    def _check_addresses(self, obj: JsonObject) -> None:
        uid = obj["metadata"].get("uid")
        for address in cluster_ips(obj["spec"]):
            reason = ""
            if ipaddress.ip_address(address) not in self.pool.range:
                reason = "the provided network does not match the current range"
            elif self.pool.addresses.get(address, uid) != uid:
                reason = "provided IP is already allocated"
            if reason:
                addresses = obj["spec"]["clusterIPs"]
                text = f"failed to allocate IP {address}: {reason}"
                self._refuse(obj, api_errors.invalid_value("spec.clusterIPs", addresses, text))

    def _allocate_ports(self, obj: JsonObject, old: JsonObject | None) -> None:
        """Allocate node ports for the ports of a type that needs them, and a health check node port."""
        spec, uid = obj["spec"], obj["metadata"].get("uid", "")
        ports = ServicePortAllocation(self.pool, uid)
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            allocate = ports.new if old is None else ports.changed
            self._refuse(obj, *allocate(spec.get("ports") or (), needs_ports=_wants_ports(spec)))
        if needs_health_check(spec):
            if old is not None and needs_health_check(old):
                self._refuse(obj, *_same_health(spec, old))
            else:
                ports.health(spec)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate the spec."""
        return list(validate_service(obj))

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        return list(service_warnings(obj, old))

    # -------------------------------------------------------------- update
    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Keep the allocated addresses and ports that the type allows."""
        super().prepare_for_update(context, obj, old)
        spec, before = obj["spec"], old["spec"]
        _drop_by_type(spec, before)
        if before.get("type") == "LoadBalancer" != spec.get("type"):
            obj["status"] = {**(obj.get("status") or {}), "loadBalancer": {}}
        _keep_addresses(spec, before)
        if _wants_ports(spec) and _wants_ports(before):
            # A port keeps the node port that it had under its name.
            taken = set(allocated_node_ports(spec))
            node_ports = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
            for port in spec.get("ports") or ():
                node_port = node_ports.get(port.get("name", ""))
                if not port.get("nodePort") and node_port and node_port not in taken:
                    port["nodePort"] = node_port
                    taken.add(node_port)
        if needs_health_check(spec) and needs_health_check(before) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = before.get("healthCheckNodePort", 0)
        self._allocate(obj)
        self._allocate_ports(obj, before)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: the cluster IP is immutable."""
        return [*validate_change(obj["spec"], old["spec"]), *self.validate(context, obj)]

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate that only type LoadBalancer has load balancer ingress."""
        return list(validate_status(obj))

    # -------------------------------------------------------------- side effects
    def before_create(self, context: Context, obj: JsonObject) -> None:
        """Reserve the chosen addresses; replace one that another request reserved during admission."""
        uid, spec = obj["metadata"]["uid"], obj["spec"]
        automatic = uid in self._automatic
        self._automatic.discard(uid)
        if automatic and self.pool.addresses.get(spec["clusterIP"], uid) != uid:
            spec["clusterIP"] = self.pool.address()
            spec["clusterIPs"] = [spec["clusterIP"]]
        if spec.get("type") != "ExternalName":
            self._check_addresses(obj)
        self.pool.take(obj)

    def abort_create(self, obj: JsonObject) -> None:
        """Release the addresses of a service that was refused."""
        self._automatic.discard(obj["metadata"]["uid"])
        self.pool.release(obj)

    async def after_create(self, context: Context, obj: JsonObject) -> None:
        """Create an IPAddress for each cluster IP."""
        self._publish(context, obj, set())

    async def after_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Take new and release old addresses and ports."""
        self.pool.release(old)
        self.pool.take(obj)
        self._withdraw(set(cluster_ips(old["spec"])) - set(cluster_ips(obj["spec"])))
        self._publish(context, obj, set(cluster_ips(old["spec"])))

    async def after_delete(self, context: Context, obj: JsonObject) -> None:
        """Release addresses and ports."""
        self.pool.release(obj)
        self._withdraw(set(cluster_ips(obj["spec"])))

    def _publish(self, context: Context, obj: JsonObject, existing: set[str]) -> None:
        """Create the IPAddress objects of a Service's new addresses."""
        if self.addresses is None:
            return
        meta = obj["metadata"]
        for address in cluster_ips(obj["spec"]):
            if address in existing:
                continue
            status = {
                "kind": "IPAddress",
                "apiVersion": "networking.k8s.io/v1",
                "metadata": {
                    "name": address,
                    "uid": context.new_uid(),
                    "creationTimestamp": context.timestamp(),
                    "labels": {
                        "ipaddress.kubernetes.io/ip-family": "IPv4",
                        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                    },
                    "managedFields": [{**_ALLOCATOR, "time": context.timestamp(), "fieldsV1": copy_tree(_ALLOCATED)}],
                },
                "spec": {"parentRef": {"resource": "services", "namespace": meta["namespace"], "name": meta["name"]}},
            }
            try:
                self.addresses.storage.create_now(self.addresses.key("", address), status)
            except KeyExistsError:
                continue  # created by a user, so left alone

    def _withdraw(self, gone: set[str]) -> None:
        if self.addresses is None:
            return
        for address in sorted(gone):
            try:
                self.addresses.storage.delete_now(self.addresses.key("", address))
            except KeyNotFoundError:
                continue


def _drop_by_type(spec: JsonObject, old: JsonObject) -> None:
    """Drop fields that the old type needed and the new one does not, unless the update changes them."""
    kind, before = spec.get("type"), old.get("type")
    if kind == "ExternalName" and before != "ExternalName":
        _drop_same(spec, old, "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
        spec.pop("internalTrafficPolicy", None)
    opened = kind in _OPEN or before not in _OPEN
    if not opened and set(allocated_node_ports(spec)) <= set(allocated_node_ports(old)):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if externally_accessible(old) and not externally_accessible(spec):
        _drop_same(spec, old, "externalTrafficPolicy")
    if needs_health_check(old) and not needs_health_check(spec):
        _drop_same(spec, old, "healthCheckNodePort")
    if before == "LoadBalancer" and kind != "LoadBalancer":
        _drop_same(spec, old, "allocateLoadBalancerNodePorts", "loadBalancerClass")


def _drop_same(spec: JsonObject, old: JsonObject, *keys: str) -> None:
    for key in keys:
        if spec.get(key) == old.get(key):
            spec.pop(key, None)


def _same_health(spec: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Require that the health check node port does not change."""
    port = spec.get("healthCheckNodePort", 0)
    if port != old.get("healthCheckNodePort", 0):
        text = "cannot change healthCheckNodePort on loadBalancer service with externalTraffic=Local during update"
        yield api_errors.invalid_value("spec.healthCheckNodePort", port, text)
