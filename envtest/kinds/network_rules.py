"""What network policies and ingresses may be."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from envtest.kinds import rules
from envtest.kinds.selector_rules import check_label_selector
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


# ------------------------------------------------------------------ network policies
def validate_network_policy(obj: Tree) -> Iterator[Cause]:
    """Who may talk to whom."""
    spec = obj.get("spec") or {}
    yield from check_label_selector(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _policy_port(port, f"{at}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(peer, f"{at}.{peers}[{number}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        yield problems.invalid_value("spec.policyTypes", kinds, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(kinds):
        if kind not in ("Ingress", "Egress"):
            yield problems.unsupported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _policy_port(port: Tree, path: str) -> Iterator[Cause]:
    if port.get("protocol") not in (None, "TCP", "UDP", "SCTP"):
        yield problems.unsupported(f"{path}.protocol", port["protocol"], ("TCP", "UDP", "SCTP"))
    number, end = port.get("port"), port.get("endPort")
    if number is not None:
        yield from rules.port_or_name(number, f"{path}.port")
    if end is None:
        return
    if number is None:
        yield problems.invalid_value(f"{path}.endPort", end, "may not be specified when `port` is not specified")
    elif isinstance(number, str):
        yield problems.invalid_value(f"{path}.endPort", end, "may not be specified when `port` is non-numeric")
    else:
        if end < number:
            yield problems.invalid_value(f"{path}.endPort", number, "must be greater than or equal to `port`")
        yield from rules.port_number(end, f"{path}.endPort")


def _peer(peer: Tree, path: str) -> Iterator[Cause]:
    for key in ("podSelector", "namespaceSelector"):
        if peer.get(key) is not None:
            yield from check_label_selector(peer[key], f"{path}.{key}")
    if peer.get("ipBlock") is not None:
        yield from _block(peer["ipBlock"], f"{path}.ipBlock")
    given = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    if not given:
        yield problems.required(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield problems.not_allowed(path, "may not specify both ipBlock and another peer")


def _network(text: str) -> Any:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _block(block: Tree, path: str) -> Iterator[Cause]:
    text = block.get("cidr", "")
    if not text:
        yield problems.required(f"{path}.cidr")
        return
    whole = _network(text)
    if whole is None:
        yield problems.invalid_value(f"{path}.cidr", text, _CIDR)
        return
    for index, inner in enumerate(block.get("except") or ()):
        at, part = f"{path}.except[{index}]", _network(inner)
        if part is None:
            yield problems.invalid_value(at, inner, _CIDR)
        elif part.version != whole.version or not part.subnet_of(whole) or part.prefixlen <= whole.prefixlen:
            yield problems.invalid_value(at, inner, "must be a strict subset of `cidr`")


# ------------------------------------------------------------------ ingresses
_WILDCARD = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower"
    " case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used"
    " for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_CLASS = "kubernetes.io/ingress.class"
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")


def validate_ingress(obj: Tree) -> Iterator[Cause]:
    """A new ingress."""
    noted = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    if noted is not None and (obj.get("spec") or {}).get("ingressClassName") is not None:
        text = "can not be set when the class field is also set"
        yield problems.invalid_value(f"annotations.{_CLASS}", noted, text)
    yield from validate_ingress_spec(obj.get("spec") or {})


def validate_ingress_spec(spec: Tree) -> Iterator[Cause]:
    """Rules, backends, certificates."""
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        text = "either `defaultBackend` or `rules` must be specified"
        yield problems.invalid_value("spec", spec.get("rules"), text)
    if spec.get("defaultBackend") is not None:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            yield from _host(host, f"spec.tls[{index}].hosts[{number}]")
        if tls.get("secretName"):
            yield from rules.subdomain(tls["secretName"], f"spec.tls[{index}].secretName")
    if spec.get("ingressClassName") is not None:
        yield from rules.subdomain(spec["ingressClassName"], "spec.ingressClassName")


def _host(host: str, path: str) -> Iterator[Cause]:
    if "*" not in host:
        yield from rules.subdomain(host, path)
        return
    rest = host.removeprefix("*.")
    if rest == host or names.dns_subdomain(rest):
        yield problems.invalid_value(path, host, _WILDCARD)


def _rule(rule: Tree, path: str) -> Iterator[Cause]:
    host = rule.get("host", "")
    if host:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            yield from _host(host, f"{path}.host")
        else:
            yield problems.invalid_value(f"{path}.host", host, "must be a DNS name, not an IP address")
    http = rule.get("http")
    if http is None:
        return
    paths: Sequence[Tree] = http.get("paths") or ()
    if not paths:
        yield problems.required(f"{path}.http.paths")
    for index, part in enumerate(paths):
        yield from _path(part, f"{path}.http.paths[{index}]")


def _path(part: Tree, path: str) -> Iterator[Cause]:
    kind, text = part.get("pathType"), part.get("path", "")
    absolute = text.startswith("/")
    if kind is None:
        yield problems.required(f"{path}.pathType", "pathType must be specified")
    elif kind in ("Exact", "Prefix"):
        if not absolute:
            yield problems.invalid_value(f"{path}.path", text, "must be an absolute path")
        for bad in _BAD_SEQUENCES if text else ():
            if bad in text:
                yield problems.invalid_value(f"{path}.path", text, f"must not contain {problems.quoted(bad)}")
        for bad in _BAD_ENDS:
            if text.endswith(bad):
                yield problems.invalid_value(f"{path}.path", text, f"cannot end with {problems.quoted(bad)}")
    elif kind == "ImplementationSpecific":
        if text and not absolute:
            yield problems.invalid_value(f"{path}.path", text, "must be an absolute path")
    else:
        yield problems.unsupported(f"{path}.pathType", kind, ("Exact", "ImplementationSpecific", "Prefix"))
    yield from _backend(part.get("backend") or {}, f"{path}.backend")


def _backend(backend: Tree, path: str) -> Iterator[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield problems.invalid_value(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        for key in ("kind", "name"):
            yield from rules.needed(resource.get(key), f"{path}.resource.{key}")
    elif service is not None:
        yield from _service(service, path)
    else:
        yield problems.invalid_value(path, "", "resource or service backend is required")


def _service(service: Tree, path: str) -> Iterator[Cause]:
    name, port = service.get("name", ""), service.get("port") or {}
    if not name:
        yield problems.required(f"{path}.service.name")
    else:
        yield from rules.label(name, f"{path}.service.name")
    if port.get("name") and port.get("number"):
        yield problems.invalid_value(path, "", "cannot set both port name & port number")
    elif port.get("name"):
        found = rules.port_name_problems(port["name"])
        yield from rules.each(found, port["name"], f"{path}.service.port.name")
    elif port.get("number"):
        yield from rules.port_number(port["number"], f"{path}.service.port.number")
    else:
        yield problems.required(path, "port name or number is required")


def validate_ingress_status(obj: Tree, old: Tree) -> Iterator[Cause]:  # noqa: ARG001 - the shape of status rules
    """Where an ingress can be reached."""
    found = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    for index, point in enumerate(found):
        path = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            yield from rules.ip_address(point["ip"], f"{path}.ip")
        if point.get("hostname"):
            yield from _rule({"host": point["hostname"]}, path)


# ------------------------------------------------------------------ endpoints
def validate_endpoints(obj: Tree) -> Iterator[Cause]:
    """Old-style endpoints."""
    for index, subset in enumerate(obj.get("subsets") or ()):
        at = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield problems.required(at, "must specify `addresses` or `notReadyAddresses`")
        for key in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(key) or ()):
                yield from _endpoint(address, f"{at}.{key}[{number}]")
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports):
            yield from _endpoint_port(port, f"{at}.ports[{number}]", alone=len(ports) == 1)


def _endpoint(address: Tree, path: str) -> Iterator[Cause]:
    from envtest.kinds.service_rules import special_address  # noqa: PLC0415 - endpoints are rare

    text = address.get("ip", "")
    if not text:
        yield problems.required(f"{path}.ip")
    else:
        found = list(special_address(text, f"{path}.ip"))
        yield from found
        if list(rules.ip_address(text, "")):
            yield problems.invalid_value(f"{path}.ip", text, "must be a valid IP address")
    if address.get("hostname"):
        yield from rules.label(address["hostname"], f"{path}.hostname")
    if address.get("nodeName") is not None:
        yield from rules.subdomain(address["nodeName"], f"{path}.nodeName")


def _endpoint_port(port: Tree, path: str, *, alone: bool) -> Iterator[Cause]:
    if port.get("name"):
        yield from rules.label(port["name"], f"{path}.name")
    elif not alone:
        yield problems.required(f"{path}.name")
    yield from rules.port_number(port.get("port", 0), f"{path}.port")
    yield from rules.one_of(port.get("protocol"), rules.PROTOCOLS, f"{path}.protocol")


_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def validate_endpoint_slice(obj: Tree) -> Iterator[Cause]:
    """A slice: endpoints of one family."""
    kind = obj.get("addressType", "")
    yield from rules.one_of(kind, _ADDRESS_TYPES, "addressType")
    endpoints = obj.get("endpoints") or ()
    if len(endpoints) > 1000:
        yield problems.too_many("endpoints", len(endpoints), 1000)
        return
    for index, endpoint in enumerate(endpoints):
        yield from _slice_endpoint(endpoint, kind, f"endpoints[{index}]")
    seen: set[str] = set()
    for index, port in enumerate(obj.get("ports") or ()):
        at, name = f"ports[{index}]", port.get("name") or ""
        if name:
            yield from rules.label(name, f"{at}.name")
        if name in seen:
            yield problems.duplicate(f"{at}.name", name)
        seen.add(name)
        yield from rules.one_of(port.get("protocol"), rules.PROTOCOLS, f"{at}.protocol")


def _slice_endpoint(endpoint: Tree, kind: str, path: str) -> Iterator[Cause]:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        yield problems.required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > 100:
        yield problems.too_many(f"{path}.addresses", len(addresses), 100)
    for index, address in enumerate(addresses):
        at = f"{path}.addresses[{index}]"
        yield from _slice_address(address, kind, at)
    if endpoint.get("nodeName") is not None:
        yield from rules.subdomain(endpoint["nodeName"], f"{path}.nodeName")
    if endpoint.get("hostname") is not None:
        yield from rules.label(endpoint["hostname"], f"{path}.hostname")


def _slice_address(address: str, kind: str, path: str) -> Iterator[Cause]:
    from envtest.kinds.service_rules import special_address  # noqa: PLC0415 - endpoints are rare

    if kind == "FQDN":
        name = address.removesuffix(".")
        if not name:
            yield problems.required(path)
            return
        yield from rules.subdomain(name, path)
        if "." not in name:
            text = "should be a domain with at least two segments separated by dots"
            yield problems.invalid_value(path, name, text)
        return
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:
        yield problems.invalid_value(path, address, f"must be a valid {kind} address")
        yield problems.invalid_value(path, address, "must be a valid IP address")
        return
    if f"IPv{version}" != kind:
        yield problems.invalid_value(path, address, f"must be a valid {kind} address")
    yield from special_address(address, path)


def validate_slice_update(obj: Tree, old: Tree) -> Iterator[Cause]:
    """The family stays."""
    yield from validate_endpoint_slice(obj)
    if obj.get("addressType") != old.get("addressType"):
        yield problems.invalid_value("addressType", obj.get("addressType", ""), "field is immutable")
