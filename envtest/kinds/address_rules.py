"""Ingress classes, addresses and blocks of addresses: what is wrong with them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Final

from envtest.kinds import rules
from envtest.kinds.addresses import block, read_block
from envtest.kinds.go_shapes import Shape, as_go
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_IMMUTABLE: Final = "field is immutable"
_PARENT: Final[Shape] = {"Group": "", "Resource": "", "Namespace": "", "Name": ""}
_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_MOST_CONTROLLER: Final = 250


# ------------------------------------------------------------------ ingress classes
def validate_ingress_class(obj: JsonObject) -> Iterator[Cause]:
    """Who looks after ingresses."""
    spec = obj.get("spec") or {}
    controller = spec.get("controller", "")
    if len(controller) > _MOST_CONTROLLER:
        yield api_errors.too_long("spec.controller", _MOST_CONTROLLER)
    yield from domain_path(controller, "spec.controller")
    if spec.get("parameters") is not None:
        yield from _parameters(spec["parameters"], "spec.parameters")


def domain_path(text: str, path: str) -> Iterator[Cause]:
    """``example.com/thing``."""
    if not text:
        yield api_errors.required(path)
        return
    host, slash, rest = text.partition("/")
    if not (host and slash and rest):
        yield api_errors.invalid_value(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from rules.each(validation.dns_subdomain(host), host, path)
    if not re.fullmatch(_PATH, rest):
        yield api_errors.invalid_value(path, rest, f"Invalid path (regex used for validation is '{_PATH}')")


def _parameters(found: JsonObject, path: str) -> Iterator[Cause]:
    yield from validate_typed_reference(found, path)
    scope, namespace = found.get("scope"), found.get("namespace")
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
        yield from rules.label(namespace, f"{path}.namespace")


def validate_typed_reference(found: JsonObject, path: str) -> Iterator[Cause]:
    """A reference to an object of some group and kind, beside this one."""
    if found.get("apiGroup") is not None:
        yield from rules.subdomain(found["apiGroup"], f"{path}.apiGroup")
    for key in ("kind", "name"):
        yield from _segment(found.get(key, ""), f"{path}.{key}", f"{key} is required")


def _segment(text: str, path: str, why: str = "") -> Iterator[Cause]:
    if not text:
        yield api_errors.required(path, why)
    else:
        yield from rules.each(validation.path_segment(text), text, path)


def validate_ingress_class_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """The controller stays."""
    now, before = obj.get("spec") or {}, old.get("spec") or {}
    yield from rules.unchanged(now, before, "controller", "spec.controller")
    yield from validate_ingress_class(obj)


# ------------------------------------------------------------------ addresses
def address_name(name: str) -> Sequence[str]:
    """Why an address is no name of an IPAddress."""
    try:
        found = ipaddress.ip_address(name)
    except ValueError:
        return [f"ParseAddr({api_errors.quoted(name)}): {_fault(name)}"]
    return [] if str(found) == name else ["must be a canonical format IP address"]


def _fault(text: str) -> str:
    """Where Go's parser gives up."""
    mark = next((char for char in text if char in ".:%"), "")
    if mark == ".":
        return _fault_of_four(text)
    return "missing IPv6 address" if mark == "%" else "unable to parse IP"


def _fault_of_four(text: str) -> str:
    """What is wrong with four numbers."""
    dots = digits = value = 0
    for at, char in enumerate(text):
        if char.isascii() and char.isdigit():
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero"
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                return "IPv4 field has value >255"
        elif char != ".":
            return f"unexpected character (at {api_errors.quoted(text[at:])})"
        elif not digits or at == len(text) - 1:
            return f"IPv4 field must have at least one digit (at {api_errors.quoted(text[at:])})"
        elif dots == 3:
            return "IPv4 address too long"
        else:
            dots, digits, value = dots + 1, 0, 0
    return "IPv4 address too short" if dots < 3 else "unable to parse IP"


def validate_address(obj: JsonObject) -> Iterator[Cause]:
    """An address that somebody has."""
    parent = (obj.get("spec") or {}).get("parentRef")
    if parent is None:
        yield api_errors.required("spec.parentRef")
        return
    if parent.get("group"):
        yield from rules.subdomain(parent["group"], "spec.parentRef.group")
    yield from _segment(parent.get("resource", ""), "spec.parentRef.resource")
    yield from _segment(parent.get("name", ""), "spec.parentRef.name")
    if parent.get("namespace"):
        yield from _segment(parent["namespace"], "spec.parentRef.namespace")


def validate_address_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """It stays with whom it is."""
    now, before = ((o.get("spec") or {}).get("parentRef") for o in (obj, old))
    if now != before:
        yield api_errors.invalid_value("spec.parentRef", now and as_go(_PARENT, now), _IMMUTABLE)


# ------------------------------------------------------------------ blocks
def validate_blocks(obj: JsonObject) -> Iterator[Cause]:
    """Where services get their addresses from."""
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
    found = read_block(text)
    return 0 if found is None else found.version


def validate_blocks_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """A second family may come; what is there stays."""
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
