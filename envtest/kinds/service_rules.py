"""What services may be, apart from what is allocated for them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from envtest.kinds import rules
from envtest.kinds.addresses import block, ip_address, read_address, special_address
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_KUBELET = 10250
_DAY = 86400
_FAMILIES = ("IPv4", "IPv6")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"


def is_headless(spec: Tree) -> bool:
    """Whether it has no address of its own on purpose."""
    first: str = (spec.get("clusterIPs") or [spec.get("clusterIP", "")])[0]
    return first == "None"


def externally_accessible(spec: Tree) -> bool:
    """Whether traffic from outside reaches it."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def validate_service(spec: Tree) -> Iterator[Cause]:
    """A service's spec."""
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        yield problems.required("spec.ports")
    yield from _by_type(spec, kind)
    seen: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port(port, f"spec.ports[{index}]", seen, alone=len(ports) == 1)
    yield from rules.labels(spec.get("selector") or {}, "spec.selector")
    yield from rules.one_of(spec.get("sessionAffinity"), ("ClientIP", "None"), "spec.sessionAffinity")
    yield from _affinity(spec)
    yield from validate_families(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from special_address(address, f"spec.externalIPs[{index}]")
    yield from rules.one_of(kind, _TYPES, "spec.type")
    yield from _duplicates(ports, kind)
    yield from _balancer(spec, kind)
    yield from _traffic(spec)


def _by_type(spec: Tree, kind: str) -> Iterator[Cause]:
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        yield problems.invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "LoadBalancer":
        for index, port in enumerate(spec.get("ports") or ()):
            if port.get("port") == _KUBELET:
                text = f"may not expose port {_KUBELET} externally since it is used by kubelet"
                yield problems.invalid_value(f"spec.ports[{index}].port", _KUBELET, text)
    if kind == "ExternalName":
        for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(key):
                yield problems.not_allowed(f"spec.{key}", "may not be set for ExternalName services")
        name = (spec.get("externalName") or "").removesuffix(".")
        if name:
            yield from rules.subdomain(name, "spec.externalName")
        else:
            yield problems.required("spec.externalName")


def _port(port: Tree, path: str, seen: set[str], *, alone: bool) -> Iterator[Cause]:
    name = port.get("name", "")
    if name:
        yield from rules.label(name, f"{path}.name")
        if name in seen:
            yield problems.duplicate(f"{path}.name", name)
        seen.add(name)
    elif not alone:
        yield problems.required(f"{path}.name")
    yield from rules.port_number(port.get("port", 0), f"{path}.port")
    yield from rules.one_of(port.get("protocol"), rules.PROTOCOLS, f"{path}.protocol")
    yield from rules.port_or_name(port.get("targetPort", 0), f"{path}.targetPort")
    protocol = port.get("appProtocol")
    if protocol:
        yield from rules.each(names.qualified_name(protocol), protocol, f"{path}.appProtocol")


def _affinity(spec: Tree) -> Iterator[Cause]:
    config, kind = spec.get("sessionAffinityConfig"), spec.get("sessionAffinity")
    if kind == "None" and config is not None:
        yield problems.not_allowed("spec.sessionAffinityConfig", "must not be set when session affinity is None")
    if kind != "ClientIP":
        return
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is None:
        yield problems.required("spec.sessionAffinityConfig", "when session affinity type is ClientIP")
    elif not 0 < seconds <= _DAY:
        text = f"must be greater than 0 and less than {_DAY}"
        yield problems.invalid_value("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text)


def validate_families(spec: Tree) -> Iterator[Cause]:
    """Addresses and their families, as far as they are given."""
    if spec.get("type") == "ExternalName":
        return
    first, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if first and not addresses:
        yield problems.required("spec.clusterIPs")
    elif first and addresses[0] != first:
        yield problems.invalid_value("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    elif addresses and not first:
        text = "must be empty when `clusterIP` is not specified"
        yield problems.invalid_value("spec.clusterIPs", addresses, text)
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield problems.unsupported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in families[:index]:
            yield problems.duplicate(f"spec.ipFamilies[{index}]", family)
    if spec.get("ipFamilyPolicy") not in (None, *_POLICIES):
        yield problems.unsupported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _POLICIES)
    yield from _addresses(addresses, families)


def _addresses(addresses: Sequence[str], families: Sequence[str]) -> Iterator[Cause]:
    wrong = False
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                wrong = True
                yield problems.invalid_value("spec.clusterIPs", addresses, "'None' must be the first and only value")
            continue
        for cause in ip_address(address, f"spec.clusterIPs[{index}]"):
            wrong = True
            yield cause
    if len(addresses) > 2:
        yield problems.invalid_value("spec.clusterIPs", addresses, "may only hold up to 2 values")
    if wrong or "None" in addresses:
        return
    found = [f"IPv{ipaddress.ip_address(address).version}" for address in addresses]
    if len(addresses) > 1 and len(set(found)) < len(found):
        text = "may specify no more than one IP for each IP family"
        yield problems.invalid_value("spec.clusterIPs", addresses, text)
        return
    for index, (family, wanted) in enumerate(zip(found, families, strict=False)):
        if family != wanted:
            text = f"expected an {wanted} value as indicated by `ipFamilies[{index}]`"
            yield problems.invalid_value(f"spec.clusterIPs[{index}]", addresses[index], text)


def _duplicates(ports: Sequence[Tree], kind: str) -> Iterator[Cause]:
    if kind == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                text = "may not be used when `type` is 'ClusterIP'"
                yield problems.not_allowed(f"spec.ports[{index}].nodePort", text)
    nodes: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        node = port.get("nodePort")
        if node and (port.get("protocol", ""), node) in nodes:
            yield problems.duplicate(f"spec.ports[{index}].nodePort", node)
        nodes.add((port.get("protocol", ""), node or 0))
    keys: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in keys:
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1]}
            yield problems.duplicate(f"spec.ports[{index}]", {**shown, "TargetPort": 0, "NodePort": 0})
        keys.add(key)


def _balancer(spec: Tree, kind: str) -> Iterator[Cause]:
    for index, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        path = f"spec.loadBalancerSourceRanges[{index}]"
        yield from block(text.strip(), path)
    if kind == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is None:
            yield problems.required("spec.allocateLoadBalancerNodePorts")
        if spec.get("loadBalancerClass") is not None:
            name = spec["loadBalancerClass"]
            yield from rules.each(names.qualified_name(name), name, "spec.loadBalancerClass")
        return
    if spec.get("loadBalancerSourceRanges"):
        yield problems.not_allowed("spec.LoadBalancerSourceRanges", _ONLY_BALANCED)
    for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(key) is not None:
            yield problems.not_allowed(f"spec.{key}", _ONLY_BALANCED)


def _traffic(spec: Tree) -> Iterator[Cause]:
    outside = spec.get("externalTrafficPolicy")
    if externally_accessible(spec):
        yield from rules.one_of(outside, ("Cluster", "Local"), "spec.externalTrafficPolicy")
    elif outside:
        text = "may only be set for externally-accessible services"
        yield problems.invalid_value("spec.externalTrafficPolicy", outside, text)
    check = spec.get("healthCheckNodePort")
    if check:
        yield from rules.port_number(check, "spec.healthCheckNodePort")
        if spec.get("type") != "LoadBalancer" or outside != "Local":
            text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            yield problems.invalid_value("spec.healthCheckNodePort", check, text)
    if spec.get("trafficDistribution") is not None:
        allowed = ("PreferClose", "PreferSameNode", "PreferSameZone")
        yield from rules.one_of(spec["trafficDistribution"], allowed, "spec.trafficDistribution")
    inside = spec.get("internalTrafficPolicy")
    if inside is None:
        if spec.get("type") in ("NodePort", "LoadBalancer", "ClusterIP"):
            yield problems.required("spec.internalTrafficPolicy")
    elif inside not in ("Cluster", "Local"):
        yield problems.unsupported("spec.internalTrafficPolicy", inside, ("Cluster", "Local"))


def validate_change(spec: Tree, old: Tree) -> Iterator[Cause]:
    """What stays once it is set."""
    before, now = old.get("clusterIPs") or [], spec.get("clusterIPs") or []
    named = "ExternalName" in (spec.get("type"), old.get("type"))
    if not named and before and now and before[0] != now[0]:
        yield problems.invalid_value("spec.clusterIPs[0]", now, "may not change once set")
    both = spec.get("type") == old.get("type") == "LoadBalancer"
    if both and spec.get("loadBalancerClass") != old.get("loadBalancerClass"):
        shown = spec.get("loadBalancerClass")
        yield problems.invalid_value("spec.loadBalancerClass", shown, "may not change once set")


def validate_status(obj: Tree) -> Iterator[Cause]:
    """What a balancer says of itself."""
    found = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    if (obj.get("spec") or {}).get("type") != "LoadBalancer":
        if found:
            text = "may only be used when `spec.type` is 'LoadBalancer'"
            yield problems.not_allowed("status.loadBalancer.ingress", text)
        return
    for index, point in enumerate(found):
        path = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            yield from ip_address(point["ip"], f"{path}.ip")
            yield from rules.one_of(point.get("ipMode"), ("Proxy", "VIP"), f"{path}.ipMode")
        elif point.get("ipMode") is not None:
            yield problems.not_allowed(f"{path}.ipMode", "may not be specified when `ip` is not set")
        if point.get("hostname"):
            name = point["hostname"]
            yield from rules.subdomain(name, f"{path}.hostname")
            if read_address(name) is not None:
                yield problems.invalid_value(f"{path}.hostname", name, "must be a DNS name, not an IP address")
