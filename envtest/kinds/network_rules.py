"""What network policies and ingresses may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.kinds import rules
from envtest.kinds.address_rules import validate_typed_reference
from envtest.kinds.addresses import block as address_block
from envtest.kinds.addresses import ip_address, read_address, read_block, special_address
from envtest.kinds.selector_rules import check_label_selector
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


# ------------------------------------------------------------------ network policies
def validate_network_policy(obj: JsonObject) -> Iterator[Cause]:
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
        yield api_errors.invalid_value("spec.policyTypes", kinds, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(kinds):
        if kind not in ("Ingress", "Egress"):
            yield api_errors.unsupported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _policy_port(port: JsonObject, path: str) -> Iterator[Cause]:
    if port.get("protocol") not in (None, "TCP", "UDP", "SCTP"):
        yield api_errors.unsupported(f"{path}.protocol", port["protocol"], ("TCP", "UDP", "SCTP"))
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, int):
        yield from rules.port_number(number, f"{path}.port")
        if end is not None:
            if end < number:
                yield api_errors.invalid_value(f"{path}.endPort", number, "must be greater than or equal to `port`")
            yield from rules.port_number(end, f"{path}.endPort")
        return
    if end is not None:
        what = "non-numeric" if number else "not specified"
        yield api_errors.invalid_value(f"{path}.endPort", end, f"may not be specified when `port` is {what}")
    if number is not None:
        yield from rules.port_or_name(number, f"{path}.port")


def _peer(peer: JsonObject, path: str) -> Iterator[Cause]:
    for key in ("podSelector", "namespaceSelector"):
        if peer.get(key) is not None:
            yield from check_label_selector(peer[key], f"{path}.{key}")
    if peer.get("ipBlock") is not None:
        yield from _block(peer["ipBlock"], f"{path}.ipBlock")
    given = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    if not given:
        yield api_errors.required(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield api_errors.not_allowed(path, "may not specify both ipBlock and another peer")


def _block(block: JsonObject, path: str) -> Iterator[Cause]:
    text = block.get("cidr", "")
    if not text:
        yield api_errors.required(f"{path}.cidr")
        return
    yield from address_block(text, f"{path}.cidr")
    whole = read_block(text)
    if whole is None:
        return
    for index, inner in enumerate(block.get("except") or ()):
        at, part = f"{path}.except[{index}]", read_block(inner)
        yield from address_block(inner, at)
        if part is None:
            continue
        inside = part.version == whole.version and part.network.network_address in whole.network
        if not inside or part.network.prefixlen <= whole.network.prefixlen:
            yield api_errors.invalid_value(at, inner, "must be a strict subset of `cidr`")


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
    """A new ingress."""
    spec = obj.get("spec") or {}
    yield from validate_ingress_spec(spec)
    noted, named = (obj["metadata"].get("annotations") or {}).get(_CLASS), spec.get("ingressClassName")
    if None not in (noted, named) and noted != named:
        text = "must match `ingressClassName` when both are specified"
        yield api_errors.invalid_value(f"annotations.{_CLASS}", noted, text)


def validate_ingress_spec(spec: JsonObject) -> Iterator[Cause]:
    """Rules, backends, certificates."""
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
            yield from rules.subdomain(tls["secretName"], f"spec.tls[{index}].secretName")
    if spec.get("ingressClassName") is not None:
        yield from rules.subdomain(spec["ingressClassName"], "spec.ingressClassName")


def _host(host: str, path: str) -> Iterator[Cause]:
    if "*" not in host:
        yield from rules.subdomain(host, path)
        return
    rest = host.removeprefix("*.")
    if rest == host or validation.dns_subdomain(rest):
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
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield api_errors.invalid_value(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from validate_typed_reference(resource, f"{path}.resource")
    elif service is not None:
        yield from _service(service, path)
    else:
        yield api_errors.invalid_value(path, "", "resource or service backend is required")


def _service(service: JsonObject, path: str) -> Iterator[Cause]:
    name, port = service.get("name", ""), service.get("port") or {}
    if not name:
        yield api_errors.required(f"{path}.service.name")
    else:
        yield from rules.label(name, f"{path}.service.name")
    if port.get("name") and port.get("number"):
        yield api_errors.invalid_value(path, "", "cannot set both port name & port number")
    elif port.get("name"):
        found = rules.port_name_problems(port["name"])
        yield from rules.each(found, port["name"], f"{path}.service.port.name")
    elif port.get("number"):
        yield from rules.port_number(port["number"], f"{path}.service.port.number")
    else:
        yield api_errors.required(path, "port name or number is required")


def validate_ingress_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:  # noqa: ARG001 - the shape of status rules
    """Where an ingress can be reached."""
    found = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    for index, point in enumerate(found):
        path = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            yield from ip_address(point["ip"], f"{path}.ip")
        if point.get("hostname"):
            yield from rules.subdomain(point["hostname"], f"{path}.hostname")
            if read_address(point["hostname"]) is not None:
                yield api_errors.invalid_value(f"{path}.hostname", point["hostname"], _NO_ADDRESS)


# ------------------------------------------------------------------ endpoints
def validate_endpoints(obj: JsonObject) -> Iterator[Cause]:
    """Old-style endpoints."""
    for index, subset in enumerate(obj.get("subsets") or ()):
        at = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield api_errors.required(at, "must specify `addresses` or `notReadyAddresses`")
        for key in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(key) or ()):
                yield from _endpoint(address, f"{at}.{key}[{number}]")
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports):
            yield from _endpoint_port(port, f"{at}.ports[{number}]", alone=len(ports) == 1)


def _endpoint(address: JsonObject, path: str) -> Iterator[Cause]:
    text = address.get("ip", "")
    if not text:
        yield api_errors.required(f"{path}.ip")
    else:
        found = list(special_address(text, f"{path}.ip"))
        yield from found
        if list(ip_address(text, "")):
            yield api_errors.invalid_value(f"{path}.ip", text, "must be a valid IP address")
    if address.get("hostname"):
        yield from rules.label(address["hostname"], f"{path}.hostname")
    if address.get("nodeName") is not None:
        yield from rules.subdomain(address["nodeName"], f"{path}.nodeName")


def _endpoint_port(port: JsonObject, path: str, *, alone: bool) -> Iterator[Cause]:
    if port.get("name"):
        yield from rules.label(port["name"], f"{path}.name")
    elif not alone:
        yield api_errors.required(f"{path}.name")
    yield from rules.port_number(port.get("port", 0), f"{path}.port")
    yield from rules.one_of(port.get("protocol"), rules.PROTOCOLS, f"{path}.protocol")
