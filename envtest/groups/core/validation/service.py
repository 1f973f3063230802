"""Validation of services, except for allocated addresses and ports.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from envtest.groups.common import validation
from envtest.groups.common.ip_addresses import block, ip_address, read_address, special_address
from opsdk.apimachinery.validation import qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_KUBELET = 10250
_DAY = 86400
_FAMILIES = ("IPv4", "IPv6")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_SET = "may not change once set"
_MODE = "service.kubernetes.io/topology-mode"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"


def is_headless(spec: JsonObject) -> bool:
    """Return whether the cluster IP is None."""
    first: str = (spec.get("clusterIPs") or [spec.get("clusterIP", "")])[0]
    return first == "None"


def externally_accessible(spec: JsonObject) -> bool:
    """Return whether the service receives traffic from outside."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def validate_service(obj: JsonObject) -> Iterator[Cause]:
    """Validate a Service."""
    spec: JsonObject = obj["spec"]
    notes = obj["metadata"].get("annotations") or {}
    if _MODE in notes and _HINTS in notes and notes[_MODE] != notes[_HINTS]:
        text = f"must match annotations[{_HINTS}] when both are specified"
        yield api_errors.invalid_value(f"metadata.annotations[{_MODE}]", notes[_MODE], text)
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        yield api_errors.required("spec.ports")
    yield from _by_type(spec, kind)
    names: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port(port, f"spec.ports[{index}]", names, alone=len(ports) == 1)
    yield from validation.labels(spec.get("selector") or {}, "spec.selector")
    yield from validation.one_of(spec.get("sessionAffinity"), ("ClientIP", "None"), "spec.sessionAffinity")
    config, affinity = spec.get("sessionAffinityConfig"), spec.get("sessionAffinity")
    if affinity == "None" and config is not None:
        yield api_errors.not_allowed("spec.sessionAffinityConfig", "must not be set when session affinity is None")
    if affinity == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
        if seconds is None:
            yield api_errors.required("spec.sessionAffinityConfig", "when session affinity type is ClientIP")
        elif not 0 < seconds <= _DAY:
            text = f"must be greater than 0 and less than {_DAY}"
            yield api_errors.invalid_value("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text)
    yield from validate_families(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from special_address(address, f"spec.externalIPs[{index}]")
    yield from validation.one_of(kind, _TYPES, "spec.type")
    yield from _duplicates(ports, kind)
    yield from _balancer(obj)
    yield from _traffic(spec)


def _by_type(spec: JsonObject, kind: str) -> Iterator[Cause]:
    """Yield what a Service of this type must have, or must not."""
    if kind == "LoadBalancer":
        for index, port in enumerate(spec.get("ports") or ()):
            if port.get("port") == _KUBELET:
                text = f"may not expose port {_KUBELET} externally since it is used by kubelet"
                yield api_errors.invalid_value(f"spec.ports[{index}]", _KUBELET, text)
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        yield api_errors.invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(key):
                yield api_errors.not_allowed(f"spec.{key}", "may not be set for ExternalName services")
        name = (spec.get("externalName") or "").removesuffix(".")
        if name:
            yield from validation.subdomain(name, "spec.externalName")
        else:
            yield api_errors.required("spec.externalName")


def _port(port: JsonObject, path: str, earlier_names: set[str], *, alone: bool) -> Iterator[Cause]:
    """Yield what is wrong with a port of a Service."""
    name = port.get("name", "")
    if name:
        yield from validation.label(name, f"{path}.name")
        if name in earlier_names:
            yield api_errors.duplicate(f"{path}.name", name)
        earlier_names.add(name)
    elif not alone:
        yield api_errors.required(f"{path}.name")
    yield from validation.port_number(port.get("port", 0), f"{path}.port")
    yield from validation.one_of(port.get("protocol"), validation.PROTOCOLS, f"{path}.protocol")
    yield from validation.port_or_name(port.get("targetPort", 0), f"{path}.targetPort")
    protocol = port.get("appProtocol")
    if protocol is not None:
        yield from validation.each(qualified_name(protocol), protocol, f"{path}.appProtocol")


def validate_families(spec: JsonObject) -> Iterator[Cause]:
    """Validate cluster IPs and IP families that are set."""
    if spec.get("type") == "ExternalName":
        return
    first, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if first and not addresses:
        yield api_errors.required("spec.clusterIPs")
    elif first and addresses[0] != first:
        yield api_errors.invalid_value("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    elif addresses and not first:
        text = "must be empty when `clusterIP` is not specified"
        yield api_errors.invalid_value("spec.clusterIPs", addresses, text)
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield api_errors.unsupported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in families[:index]:
            yield api_errors.duplicate(f"spec.ipFamilies[{index}]", family)
    if spec.get("ipFamilyPolicy") not in (None, *_POLICIES):
        yield api_errors.unsupported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _POLICIES)
    yield from _addresses(addresses, families)


def _addresses(addresses: Sequence[str], families: Sequence[str]) -> Iterator[Cause]:
    """Yield what is wrong with the cluster IPs of a Service."""
    wrong = False
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                wrong = True
                yield api_errors.invalid_value("spec.clusterIPs", addresses, "'None' must be the first and only value")
            continue
        for cause in ip_address(address, f"spec.clusterIPs[{index}]"):
            wrong = True
            yield cause
    if len(addresses) > 2:
        yield api_errors.invalid_value("spec.clusterIPs", addresses, "may only hold up to 2 values")
    if wrong or "None" in addresses:
        return
    families_of = [f"IPv{ipaddress.ip_address(address).version}" for address in addresses]
    if len(addresses) > 1 and len(set(families_of)) < len(families_of):
        text = "may specify no more than one IP for each IP family"
        yield api_errors.invalid_value("spec.clusterIPs", addresses, text)
        return
    for index, (family, expected) in enumerate(zip(families_of, families, strict=False)):
        if family != expected:
            text = f"expected an {expected} value as indicated by `ipFamilies[{index}]`"
            yield api_errors.invalid_value(f"spec.clusterIPs[{index}]", addresses[index], text)


def _duplicates(ports: Sequence[JsonObject], kind: str) -> Iterator[Cause]:
    """Yield the ports of a Service that occur before."""
    if kind == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                text = "may not be used when `type` is 'ClusterIP'"
                yield api_errors.not_allowed(f"spec.ports[{index}].nodePort", text)
    nodes: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        node = port.get("nodePort")
        if node and (port.get("protocol", ""), node) in nodes:
            yield api_errors.duplicate(f"spec.ports[{index}].nodePort", node)
        nodes.add((port.get("protocol", ""), node or 0))
    keys: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in keys:
            rendered = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1]}
            yield api_errors.duplicate(f"spec.ports[{index}]", {**rendered, "TargetPort": 0, "NodePort": 0})
        keys.add(key)


def _balancer(obj: JsonObject) -> Iterator[Cause]:
    """Yield what is wrong with the fields that only load balancers have."""
    spec: JsonObject = obj["spec"]
    balanced = spec.get("type") == "LoadBalancer"
    ranges, path = obj["spec"].get("loadBalancerSourceRanges") or (), "spec.LoadBalancerSourceRanges"
    notes: dict[str, str] = obj["metadata"].get("annotations") or {}
    if ranges or _RANGES in notes:
        text = "" if ranges else notes[_RANGES].strip()
        if not ranges:
            path = f"metadata.annotations[{_RANGES}]"
        if not balanced:
            yield api_errors.not_allowed(path, _ONLY_BALANCED)
        for index, part in enumerate(ranges):
            yield from block(part.strip(), f"{path}[{index}]")
        for part in text.split(",") if text else ():
            yield from block(part.strip(), path)
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        yield api_errors.not_allowed("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED)
    if spec.get("allocateLoadBalancerNodePorts") is None and balanced:
        yield api_errors.required("spec.allocateLoadBalancerNodePorts")
    yield from _class(spec)


def _class(spec: JsonObject) -> Iterator[Cause]:
    name, path = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if name is None:
        return
    if spec.get("type") == "LoadBalancer":
        yield from validation.each(qualified_name(name), name, path)
    else:
        yield api_errors.not_allowed(path, _ONLY_BALANCED)


def _traffic(spec: JsonObject) -> Iterator[Cause]:
    """Yield what is wrong with the traffic policies of a Service."""
    outside = spec.get("externalTrafficPolicy")
    if externally_accessible(spec):
        yield from validation.one_of(outside, ("Cluster", "Local"), "spec.externalTrafficPolicy")
    elif outside:
        text = "may only be set for externally-accessible services"
        yield api_errors.invalid_value("spec.externalTrafficPolicy", outside, text)
    port, path = spec.get("healthCheckNodePort") or 0, "spec.healthCheckNodePort"
    if needs_health_check(spec):
        if not port:
            yield api_errors.required(path)
        else:
            yield from validation.port_number(port, path)
    elif port:
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield api_errors.invalid_value(path, port, text)
    inside = spec.get("internalTrafficPolicy")
    if inside is None:
        if spec.get("type") in ("NodePort", "LoadBalancer", "ClusterIP"):
            yield api_errors.required("spec.internalTrafficPolicy")
    elif inside not in ("Cluster", "Local"):
        yield api_errors.unsupported("spec.internalTrafficPolicy", inside, ("Cluster", "Local"))
    if spec.get("trafficDistribution") is not None:
        allowed = ("PreferClose", "PreferSameNode", "PreferSameZone")
        yield from validation.one_of(spec["trafficDistribution"], allowed, "spec.trafficDistribution")


def needs_health_check(spec: JsonObject) -> bool:
    """Return whether the service needs a health check node port."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def validate_change(spec: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: first cluster IP, its family and the load balancer class are immutable."""
    if "ExternalName" not in (spec.get("type"), old.get("type")):
        if not (is_headless(spec) and is_headless(old)):
            yield from _validate_primary_immutable(spec, old, "clusterIPs", "clusterIP")
        yield from _validate_primary_immutable(spec, old, "ipFamilies", "ipFamily")
    both = spec.get("type") == old.get("type") == "LoadBalancer"
    if both and spec.get("loadBalancerClass") != old.get("loadBalancerClass"):
        current = spec.get("loadBalancerClass")
        yield api_errors.invalid_value("spec.loadBalancerClass", current, _SET)
    yield from _class(spec)


def _validate_primary_immutable(spec: JsonObject, old: JsonObject, key: str, word: str) -> Iterator[Cause]:
    """Validate that the primary value is immutable; the secondary may be added or removed."""
    now, before = spec.get(key) or [], old.get(key) or []
    if len(now) == len(before):
        for index, (new, was) in enumerate(zip(now, before, strict=True)):
            if new != was:
                place = index if key == "clusterIPs" else 0
                yield api_errors.invalid_value(f"spec.{key}[{place}]", now, _SET)
        return
    if before and not now:
        yield api_errors.invalid_value(f"spec.{key}[0]", None, f"primary {word} can not be unset")
    if before and now and now[0] != before[0]:
        yield api_errors.invalid_value(f"spec.{key}[0]", now, _SET)
    policy = spec.get("ipFamilyPolicy")
    if len(before) > len(now) == 1 and policy != "SingleStack":
        text = f"must be set to 'SingleStack' when releasing the secondary {word}"
        yield api_errors.invalid_value("spec.ipFamilyPolicy", policy, text)


def validate_status(obj: JsonObject) -> Iterator[Cause]:
    """Validate the load balancer status."""
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    if (obj.get("spec") or {}).get("type") != "LoadBalancer":
        if ingress:
            text = "may only be used when `spec.type` is 'LoadBalancer'"
            yield api_errors.not_allowed("status.loadBalancer.ingress", text)
        return
    for index, point in enumerate(ingress):
        path = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            yield from ip_address(point["ip"], f"{path}.ip")
            yield from validation.one_of(point.get("ipMode"), ("Proxy", "VIP"), f"{path}.ipMode")
        elif point.get("ipMode") is not None:
            yield api_errors.not_allowed(f"{path}.ipMode", "may not be specified when `ip` is not set")
        if point.get("hostname"):
            name = point["hostname"]
            yield from validation.subdomain(name, f"{path}.hostname")
            if read_address(name) is not None:
                yield api_errors.invalid_value(f"{path}.hostname", name, "must be a DNS name, not an IP address")
