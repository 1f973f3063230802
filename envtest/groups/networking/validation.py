"""Validation of ingresses, ingress classes, network policies, IP addresses and service CIDRs.

Upstream: pkg/apis/networking/validation/validation.go (v1.36)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

from envtest.codec.go_structs import Shape, as_go
from envtest.groups.common import validation
from envtest.groups.common.ip_addresses import block, ip_address, read_address, read_block
from envtest.groups.common.ip_addresses import block as address_block
from envtest.groups.common.label_selectors import check_label_selector
from envtest.groups.common.validation import domain_path
from opsdk.apimachinery.validation import dns_subdomain, path_segment
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_IMMUTABLE: Final = "field is immutable"
_PARENT: Final[Shape] = {"Group": "", "Resource": "", "Namespace": "", "Name": ""}
_MOST_CONTROLLER: Final = 250


# ------------------------------------------------------------------ ingress classes
def validate_ingress_class(obj: JsonObject) -> Iterator[Cause]:
    """Validate an IngressClass."""
    spec = obj.get("spec") or {}
    controller = spec.get("controller", "")
    if len(controller) > _MOST_CONTROLLER:
        yield api_errors.too_long("spec.controller", _MOST_CONTROLLER)
    yield from domain_path(controller, "spec.controller")
    if spec.get("parameters") is not None:
        reference = spec["parameters"]
        path = "spec.parameters"
        yield from validate_typed_reference(reference, path)
        scope, namespace = reference.get("scope"), reference.get("namespace")
        if scope is None:
            yield api_errors.required(f"{path}.scope")
            return
        if scope not in ("Cluster", "Namespace"):
            yield api_errors.unsupported(f"{path}.scope", scope, ("Cluster", "Namespace"))
            return
        if scope == "Cluster" and namespace is not None:
            yield api_errors.not_allowed(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
        elif scope == "Namespace" and namespace is None:
            yield api_errors.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        elif namespace is not None:
            yield from validation.label(namespace, f"{path}.namespace")


def validate_typed_reference(reference: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a typed local object reference."""
    if reference.get("apiGroup") is not None:
        yield from validation.subdomain(reference["apiGroup"], f"{path}.apiGroup")
    for key in ("kind", "name"):
        yield from _segment(reference.get(key, ""), f"{path}.{key}", f"{key} is required")


def _segment(text: str, path: str, detail: str = "") -> Iterator[Cause]:
    if not text:
        yield api_errors.required(path, detail)
    else:
        yield from validation.each(path_segment(text), text, path)


def validate_ingress_class_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the controller is immutable."""
    now, before = obj.get("spec") or {}, old.get("spec") or {}
    yield from validation.immutable_field(now, before, "controller", "spec.controller")
    yield from validate_ingress_class(obj)


# ------------------------------------------------------------------ addresses
def address_name(name: str) -> Sequence[str]:
    """Return why a name is not a canonical IP address."""
    try:
        ip = ipaddress.ip_address(name)
    except ValueError:
        return [f"ParseAddr({api_errors.quoted(name)}): {_fault(name)}"]
    return [] if str(ip) == name else ["must be a canonical format IP address"]


def _fault(text: str) -> str:
    """Return netip.ParseAddr's message for an invalid address."""
    mark = next((char for char in text if char in ".:%"), "")
    if mark == ".":
        # netip.ParseAddr's message for an invalid IPv4 address.
        dots = digits = value = 0
        for index, char in enumerate(text):
            if char.isascii() and char.isdigit():
                if digits == 1 and value == 0:
                    return "IPv4 field has octet with leading zero"
                value, digits = value * 10 + int(char), digits + 1
                if value > 255:
                    return "IPv4 field has value >255"
            elif char != ".":
                return f"unexpected character (at {api_errors.quoted(text[index:])})"
            elif not digits or index == len(text) - 1:
                return f"IPv4 field must have at least one digit (at {api_errors.quoted(text[index:])})"
            elif dots == 3:
                return "IPv4 address too long"
            else:
                dots, digits, value = dots + 1, 0, 0
        return "IPv4 address too short" if dots < 3 else "unable to parse IP"
    return "missing IPv6 address" if mark == "%" else "unable to parse IP"


def validate_address(obj: JsonObject) -> Iterator[Cause]:
    """Validate an IPAddress."""
    parent = (obj.get("spec") or {}).get("parentRef")
    if parent is None:
        yield api_errors.required("spec.parentRef")
        return
    if parent.get("group"):
        yield from validation.subdomain(parent["group"], "spec.parentRef.group")
    yield from _segment(parent.get("resource", ""), "spec.parentRef.resource")
    yield from _segment(parent.get("name", ""), "spec.parentRef.name")
    if parent.get("namespace"):
        yield from _segment(parent["namespace"], "spec.parentRef.namespace")


def validate_address_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the parent reference is immutable."""
    now, before = ((o.get("spec") or {}).get("parentRef") for o in (obj, old))
    if now != before:
        yield api_errors.invalid_value("spec.parentRef", now and as_go(_PARENT, now), _IMMUTABLE)


# ------------------------------------------------------------------ service CIDRs
def validate_blocks(obj: JsonObject) -> Iterator[Cause]:
    """Validate a ServiceCIDR."""
    spec = obj.get("spec") or {}
    blocks, path = spec.get("cidrs") or [], "spec.cidrs"
    if not blocks:
        yield api_errors.required(path, "at least one CIDR required")
        return
    if len(blocks) > 2:
        yield api_errors.invalid_value(path, {"CIDRs": blocks}, "may only hold up to 2 values")
        return
    if len(blocks) == 2 and {_family(text) for text in blocks} != {4, 6}:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield api_errors.invalid_value(path, {"CIDRs": blocks}, text)
        return
    for index, text in enumerate(blocks):
        yield from block(text, f"{path}[{index}]", canonical=True)


def _family(text: str) -> int:
    network = read_block(text)
    return 0 if network is None else network.version


def validate_blocks_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: a CIDR of a second family may be added; existing ones are immutable."""
    now, before = ((o.get("spec") or {}).get("cidrs") or [] for o in (obj, old))
    if len(now) == len(before):
        for index, (text, was) in enumerate(zip(now, before, strict=True)):
            if text != was:
                yield api_errors.invalid_value(f"spec.cidrs[{index}]", now[0], _IMMUTABLE)
    elif (len(before), len(now)) == (1, 2):
        if now[0] != before[0]:
            yield api_errors.invalid_value("spec.cidrs[0]", now[0], _IMMUTABLE)
        yield from validate_blocks(obj)
    else:
        yield api_errors.invalid_value("spec.cidrs", now or None, _IMMUTABLE)


# ------------------------------------------------------------------ network policies
def validate_network_policy(obj: JsonObject) -> Iterator[Cause]:
    """Validate a NetworkPolicy."""
    spec = obj.get("spec") or {}
    yield from check_label_selector(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            rule_path = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _policy_port(port, f"{rule_path}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(peer, f"{rule_path}.{peers}[{number}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        yield api_errors.invalid_value("spec.policyTypes", kinds, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(kinds):
        if kind not in ("Ingress", "Egress"):
            yield api_errors.unsupported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _policy_port(port: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a port of a NetworkPolicy."""
    if port.get("protocol") not in (None, "TCP", "UDP", "SCTP"):
        yield api_errors.unsupported(f"{path}.protocol", port["protocol"], ("TCP", "UDP", "SCTP"))
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, int):
        yield from validation.port_number(number, f"{path}.port")
        if end is not None:
            if end < number:
                yield api_errors.invalid_value(f"{path}.endPort", number, "must be greater than or equal to `port`")
            yield from validation.port_number(end, f"{path}.endPort")
        return
    if end is not None:
        what = "non-numeric" if number else "not specified"
        yield api_errors.invalid_value(f"{path}.endPort", end, f"may not be specified when `port` is {what}")
    if number is not None:
        yield from validation.port_or_name(number, f"{path}.port")


def _peer(peer: JsonObject, path: str) -> Iterator[Cause]:
    for key in ("podSelector", "namespaceSelector"):
        if peer.get(key) is not None:
            yield from check_label_selector(peer[key], f"{path}.{key}")
    if peer.get("ipBlock") is not None:
        yield from _block(peer["ipBlock"], f"{path}.ipBlock")
    fields = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    if not fields:
        yield api_errors.required(path, "must specify a peer")
    elif len(fields) > 1 and "ipBlock" in fields:
        yield api_errors.not_allowed(path, "may not specify both ipBlock and another peer")


def _block(block: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with an IP block and its exceptions."""
    text = block.get("cidr", "")
    if not text:
        yield api_errors.required(f"{path}.cidr")
        return
    yield from address_block(text, f"{path}.cidr")
    whole = read_block(text)
    if whole is None:
        return
    for index, inner in enumerate(block.get("except") or ()):
        item_path, part = f"{path}.except[{index}]", read_block(inner)
        yield from address_block(inner, item_path)
        if part is None:
            continue
        inside = part.version == whole.version and part.network.network_address in whole.network
        if not inside or part.network.prefixlen <= whole.network.prefixlen:
            yield api_errors.invalid_value(item_path, inner, "must be a strict subset of `cidr`")


# ------------------------------------------------------------------ ingresses
_WILDCARD = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower"
    " case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used"
    " for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_CLASS = "kubernetes.io/ingress.class"
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")
_NO_ADDRESS = "must be a DNS name, not an IP address"


def validate_ingress(obj: JsonObject) -> Iterator[Cause]:
    """Validate a new Ingress."""
    spec = obj.get("spec") or {}
    yield from validate_ingress_spec(spec)
    noted, class_name = (obj["metadata"].get("annotations") or {}).get(_CLASS), spec.get("ingressClassName")
    if None not in (noted, class_name) and noted != class_name:
        text = "must match `ingressClassName` when both are specified"
        yield api_errors.invalid_value(f"annotations.{_CLASS}", noted, text)


def validate_ingress_spec(spec: JsonObject) -> Iterator[Cause]:
    """Validate rules, backends and TLS of an Ingress."""
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        text = "either `defaultBackend` or `rules` must be specified"
        yield api_errors.invalid_value("spec", spec.get("rules"), text)
    if spec.get("defaultBackend") is not None:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            yield from _host(host, f"spec.tls[{index}].hosts[{number}]")
        if tls.get("secretName"):
            yield from validation.subdomain(tls["secretName"], f"spec.tls[{index}].secretName")
    if spec.get("ingressClassName") is not None:
        yield from validation.subdomain(spec["ingressClassName"], "spec.ingressClassName")


def _host(host: str, path: str) -> Iterator[Cause]:
    if "*" not in host:
        yield from validation.subdomain(host, path)
        return
    rest = host.removeprefix("*.")
    if rest == host or dns_subdomain(rest):
        yield api_errors.invalid_value(path, host, _WILDCARD)


def _rule(rule: JsonObject, path: str) -> Iterator[Cause]:
    host = rule.get("host", "")
    if host:
        if read_address(host) is not None:
            yield api_errors.invalid_value(f"{path}.host", host, _NO_ADDRESS)
        yield from _host(host, f"{path}.host")
    http = rule.get("http")
    if http is None:
        return
    paths: Sequence[JsonObject] = http.get("paths") or ()
    if not paths:
        yield api_errors.required(f"{path}.http.paths")
    for index, part in enumerate(paths):
        yield from _path(part, f"{path}.http.paths[{index}]")


def _path(part: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a path of an Ingress."""
    kind, text = part.get("pathType"), part.get("path", "")
    absolute = text.startswith("/")
    if kind is None:
        yield api_errors.required(f"{path}.pathType", "pathType must be specified")
        return
    if kind in ("Exact", "Prefix"):
        if not absolute:
            yield api_errors.invalid_value(f"{path}.path", text, "must be an absolute path")
        for bad in _BAD_SEQUENCES if text else ():
            if bad in text:
                yield api_errors.invalid_value(f"{path}.path", text, f"must not contain '{bad}'")
        for bad in _BAD_ENDS:
            if text.endswith(bad):
                yield api_errors.invalid_value(f"{path}.path", text, f"cannot end with '{bad}'")
    elif kind == "ImplementationSpecific":
        if text and not absolute:
            yield api_errors.invalid_value(f"{path}.path", text, "must be an absolute path")
    else:
        yield api_errors.unsupported(f"{path}.pathType", kind, ("Exact", "ImplementationSpecific", "Prefix"))
    yield from _backend(part.get("backend") or {}, f"{path}.backend")


def _backend(backend: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a backend: exactly one of service and resource."""
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield api_errors.invalid_value(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from validate_typed_reference(resource, f"{path}.resource")
    elif service is not None:
        name, port = service.get("name", ""), service.get("port") or {}
        if not name:
            yield api_errors.required(f"{path}.service.name")
        else:
            yield from validation.label(name, f"{path}.service.name")
        if port.get("name") and port.get("number"):
            yield api_errors.invalid_value(path, "", "cannot set both port name & port number")
        elif port.get("name"):
            problems = validation.port_name_problems(port["name"])
            yield from validation.each(problems, port["name"], f"{path}.service.port.name")
        elif port.get("number"):
            yield from validation.port_number(port["number"], f"{path}.service.port.number")
        else:
            yield api_errors.required(path, "port name or number is required")
    else:
        yield api_errors.invalid_value(path, "", "resource or service backend is required")


def validate_ingress_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate the load balancer status of an Ingress."""
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    for index, point in enumerate(ingress):
        path = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            yield from ip_address(point["ip"], f"{path}.ip")
        if point.get("hostname"):
            yield from validation.subdomain(point["hostname"], f"{path}.hostname")
            if read_address(point["hostname"]) is not None:
                yield api_errors.invalid_value(f"{path}.hostname", point["hostname"], _NO_ADDRESS)
