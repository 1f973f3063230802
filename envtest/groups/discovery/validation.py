"""Validation of EndpointSlices.

Upstream: pkg/apis/discovery/validation (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from envtest.groups.common import validation
from envtest.groups.common.ip_addresses import ip_address, read_address, special_address
from opsdk.apimachinery.validation import dns_subdomain, label_value, qualified_name
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry import metadata
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_KINDS: Final = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS: Final = 1000
_MOST_ADDRESSES: Final = 100
_MOST_PORTS: Final = 20000
_MOST_LABELS: Final = 16
_MOST_HINTS: Final = 8


def validate_endpoint_slice(obj: JsonObject, old: JsonObject | None = None) -> Iterator[Cause]:
    """Validate an EndpointSlice; its addresses have one type. An update may keep addresses that it had."""
    old_addresses = {a for e in (old or {}).get("endpoints") or () for a in e.get("addresses") or ()}
    kind = obj.get("addressType", "")
    yield from validation.one_of(kind, _KINDS, "addressType")
    endpoints: Sequence[JsonObject] = obj.get("endpoints") or ()
    if len(endpoints) > _MOST_ENDPOINTS:
        yield api_errors.too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)
    else:
        for index, endpoint in enumerate(endpoints):
            yield from _endpoint(endpoint, kind, f"endpoints[{index}]", old_addresses)
    ports = obj.get("ports") or ()
    if len(ports) > _MOST_PORTS:
        yield api_errors.too_many("ports", len(ports), _MOST_PORTS)
        return
    unique: set[str] = set()
    for index, port in enumerate(ports):
        item_path, name = f"ports[{index}]", port.get("name") or ""
        if name:
            yield from validation.label(name, f"{item_path}.name")
        if name in unique:
            yield api_errors.duplicate(f"{item_path}.name", name)
        unique.add(name)
        yield from validation.one_of(port.get("protocol"), validation.PROTOCOLS, f"{item_path}.protocol")
        if port.get("appProtocol") is not None:
            protocol = port["appProtocol"]
            yield from validation.each(qualified_name(protocol), protocol, f"{item_path}.appProtocol")


def _endpoint(endpoint: JsonObject, kind: str, path: str, known: Collection[str]) -> Iterator[Cause]:
    """Yield what is wrong with an endpoint; addresses in `known` are valid already."""
    addresses: Sequence[str] = endpoint.get("addresses") or ()
    if not addresses:
        yield api_errors.required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MOST_ADDRESSES:
        yield api_errors.too_many(f"{path}.addresses", len(addresses), _MOST_ADDRESSES)
    for index, address in enumerate(addresses):
        if address not in known:
            yield from _address(address, kind, f"{path}.addresses", index)
    if endpoint.get("nodeName") is not None:
        yield from validation.subdomain(endpoint["nodeName"], f"{path}.nodeName")
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > _MOST_LABELS:
        yield api_errors.too_many(f"{path}.deprecatedTopology", len(topology), _MOST_LABELS)
    yield from metadata.labels(topology, f"{path}.deprecatedTopology")
    if endpoint.get("hostname") is not None:
        yield from validation.label(endpoint["hostname"], f"{path}.hostname")
    hints = endpoint.get("hints") or {}
    yield from _hints(hints.get("forZones") or (), label_value, f"{path}.hints.forZones")
    yield from _hints(hints.get("forNodes") or (), dns_subdomain, f"{path}.hints.forNodes")


def _hints(hints: Sequence[JsonObject], rule: Callable[[str], Sequence[str]], path: str) -> Iterator[Cause]:
    if len(hints) > _MOST_HINTS:
        yield api_errors.too_many(path, len(hints), _MOST_HINTS)
        return
    names: set[str] = set()
    for index, hint in enumerate(hints):
        name_path, name = f"{path}[{index}].name", hint.get("name", "")
        if name in names:
            yield api_errors.duplicate(name_path, name)
        names.add(name)
        yield from validation.each(rule(name), name, name_path)


def _address(address: str, kind: str, field: str, index: int) -> Iterator[Cause]:
    """Yield what is wrong with an address of this type."""
    path = f"{field}[{index}]"
    if kind == "FQDN":
        if not address:
            yield api_errors.required(path)
        else:
            name = address.removesuffix(".")
            problems = dns_subdomain(name)
            yield from validation.each(problems, name, path)
            if not problems and "." not in name:
                yield api_errors.invalid_value(
                    path, name, "should be a domain with at least two segments separated by dots"
                )
    elif kind in _KINDS:
        parsed, wrong = read_address(address), list(ip_address(address, path))
        yield from wrong
        if parsed is None:
            yield api_errors.invalid_value(path, address, "must be a valid IP address")
        elif f"IPv{parsed.version}" != kind:
            yield api_errors.invalid_value(field, address, f"must be an {kind} address")
        if not wrong:
            yield from special_address(address, path)


def validate_slice_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the address type is immutable."""
    yield from validate_endpoint_slice(obj, old)
    yield from validation.immutable_field(obj, old, "addressType")
