"""Ingress classes, IP addresses, service CIDRs."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.groups.networking.validation import address_name
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, wrong

CLASSES = "networking.k8s.io/ingressclasses"
CLASS = {"spec": {"controller": "example.com/c", "parameters": {"kind": "K", "name": "n"}}}
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of"


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec.controller", "example.com/c", ""),
        ("spec.controller", None, "spec.controller: Required value"),
        (
            "spec.controller",
            "nope",
            'spec.controller: Invalid value: "nope": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        ("spec.controller", "UP/x", f'spec.controller: Invalid value: "UP": {SUBDOMAIN}'),
        ("spec.controller", "a.b/ü", 'spec.controller: Invalid value: "ü": Invalid path (regex used for validation is'),
        ("spec.controller", "a.b/" + "x" * 250, "spec.controller: Too long: may not be more than 250 bytes"),
        ("spec.parameters", None, ""),
        ("spec.parameters.apiGroup", "BAD", f'spec.parameters.apiGroup: Invalid value: "BAD": {SUBDOMAIN}'),
        ("spec.parameters.kind", "", "spec.parameters.kind: Required value: kind is required"),
        ("spec.parameters.kind", "a/b", "spec.parameters.kind: Invalid value: \"a/b\": may not contain '/'"),
        ("spec.parameters.name", "", "spec.parameters.name: Required value: name is required"),
        (
            "spec.parameters.scope",
            "World",
            'spec.parameters.scope: Unsupported value: "World": supported values: "Cluster", "Namespace"',
        ),
        (
            "spec.parameters.scope",
            "Namespace",
            "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
        ),
        (
            "spec.parameters.namespace",
            "n",
            "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
        ),
    ],
)
def test_ingress_classes(path: str, value: Any, found: str) -> None:
    """A controller is a path with a domain; parameters state their scope."""
    causes = wrong(CLASSES, changed(CLASS, path, value))
    assert causes[0].startswith(found) if found else causes == []


def test_the_controller_of_a_class_stays() -> None:
    """All fields of an IngressClass but the controller can change."""
    other = changed(CLASS, "spec.controller", "example.com/d")
    assert wrong(CLASSES, other, CLASS) == ['spec.controller: Invalid value: "example.com/d": field is immutable']
    assert wrong(CLASSES, changed(CLASS, "spec.parameters", None), CLASS) == []


ADDRESSES = "networking.k8s.io/ipaddresses"
ADDRESS = {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": {"resource": "services", "name": "s"}}}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec.parentRef.name", "s", []),
        ("spec.parentRef", None, ["spec.parentRef: Required value"]),
        ("spec.parentRef.resource", "", ["spec.parentRef.resource: Required value"]),
        ("spec.parentRef.name", "a/b", ["spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'"]),
        ("spec.parentRef.name", None, ["spec.parentRef.name: Required value"]),
    ],
)
def test_an_ip_address_has_an_immutable_parent(path: str, value: Any, found: list[str]) -> None:
    """An IPAddress needs a valid parentRef, and cannot change it."""
    now = changed(ADDRESS, path, value)
    assert wrong(ADDRESSES, now) == found
    if found:
        assert wrong(ADDRESSES, now, ADDRESS)[0].endswith("field is immutable")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("10.0.0.1", []),
        ("2001:db8::1", []),
        ("2001:DB8::1", ["must be a canonical format IP address"]),
        ("nope", ['ParseAddr("nope"): unable to parse IP']),
    ],
)
def test_names_of_addresses(name: str, why: list[str]) -> None:
    """The name of an IPAddress is its canonical address."""
    from envtest.groups.networking.validation import address_name

    assert list(address_name(name)) == why


BLOCKS = "networking.k8s.io/servicecidrs"


def blocks(*found: str) -> JsonObject:
    """A ServiceCIDR."""
    return {"spec": {"cidrs": list(found)}}


FAMILIES = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        (blocks("10.0.0.0/16"), []),
        (blocks("10.0.0.0/16", "2001:db8::/64"), []),
        (blocks(), ["spec.cidrs: Required value: at least one CIDR required"]),
        (
            blocks("10.0.0.0/16", "10.1.0.0/16", "2001:db8::/64"),
            [('spec.cidrs: Invalid value: {"CIDRs":["10.0.0.0/16","10.1.0.0/16","2001:db8::/64"]}:'
             " may only hold up to 2 values")],
        ),
        (
            blocks("10.0.0.0/16", "10.1.0.0/16"),
            [f'spec.cidrs: Invalid value: {{"CIDRs":["10.0.0.0/16","10.1.0.0/16"]}}: {FAMILIES}'],
        ),
        (
            blocks("nope"),
            ['spec.cidrs[0]: Invalid value: "nope": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'],
        ),
        (
            blocks("10.0.0.1/16"),
            ['spec.cidrs[0]: Invalid value: "10.0.0.1/16": must not have bits set beyond the prefix length'],
        ),
        (
            blocks("2001:DB8::/64"),
            ['spec.cidrs[0]: Invalid value: "2001:DB8::/64": must be in canonical form ("2001:db8::/64")'],
        ),
    ],
)  # fmt: skip
def test_a_service_cidr_has_one_block_for_each_family(tree: JsonObject, found: list[str]) -> None:
    """A ServiceCIDR has one CIDR, or two of different IP families."""
    assert wrong(BLOCKS, tree) == found


def test_a_service_cidr_may_get_a_second_family() -> None:
    """A ServiceCIDR may get a CIDR of the other family; its other CIDRs are immutable."""
    one, two = blocks("10.0.0.0/16"), blocks("10.0.0.0/16", "2001:db8::/64")
    assert wrong(BLOCKS, two, one) == []
    assert wrong(BLOCKS, one, two) == ['spec.cidrs: Invalid value: ["10.0.0.0/16"]: field is immutable']
    other = blocks("10.1.0.0/16")
    assert wrong(BLOCKS, other, one) == ['spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable']


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("not-an-ip", "unable to parse IP"),
        ("eth%0", "missing IPv6 address"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("10.0.0.256", "IPv4 field has value >255"),
        ("1.2.3.4444", "IPv4 field has value >255"),
        ("010.0.0.1", "IPv4 field has octet with leading zero"),
        ("a.b", 'unexpected character (at "a.b")'),
        ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        (".1.2.3", 'IPv4 field must have at least one digit (at ".1.2.3")'),
    ],
)
def test_names_that_are_no_addresses(name: str, why: str) -> None:
    """The name of an IPAddress must be an IP address; the error shows where parsing stops."""
    assert address_name(name) == [f'ParseAddr("{name}"): {why}']
