"""Network policies, ingresses and endpoint slices."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, warned, wrong

POLICIES = "networking.k8s.io/networkpolicies"
INGRESSES = "networking.k8s.io/ingresses"
SLICES = "discovery.k8s.io/endpointslices"
CLASS = "kubernetes.io/ingress.class"
HTTP = "spec.rules.0.http.paths.0"
AT = "spec.rules[0].http.paths[0]"
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
INGRESS = {
    "spec": {
        "ingressClassName": "nginx",
        "rules": [{"host": "a.io", "http": {"paths": [{"path": "/", "pathType": "Exact", "backend": BACKEND}]}}],
    }
}
ADDRESS = "endpoints[0].addresses[0]"
SLICE = {
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.1.2.3"]}],
    "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        (f"{HTTP}.path", "/a//b", f"{AT}.path: Invalid value: \"/a//b\": must not contain '//'"),
        (f"{HTTP}.path", "/a/..", f"{AT}.path: Invalid value: \"/a/..\": cannot end with '/..'"),
        (f"{HTTP}.backend.service.name", "", f"{AT}.backend.service.name: Required value"),
        (
            f"{HTTP}.backend",
            {"resource": {"kind": "", "name": "n"}},
            f"{AT}.backend.resource.kind: Required value: kind is required",
        ),
        (
            "metadata.annotations",
            {CLASS: "other"},
            f'annotations.{CLASS}: Invalid value: "other": must match `ingressClassName` when both are specified',
        ),
        ("metadata.annotations", {CLASS: "nginx"}, ""),
        (
            "spec.rules.0.host",
            "1.2.3.4",
            'spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address',
        ),
    ],
)
def test_ingress_errors_name_the_field(path: str, value: Any, found: str) -> None:
    """Each invalid field of an ingress is an error at its path."""
    assert wrong(INGRESSES, changed(INGRESS, path, value)) == ([found] if found else [])


def test_a_path_without_a_type_hides_backend_errors() -> None:
    """A path without pathType gives only that error, not those of its backend."""
    tree = changed(changed(INGRESS, f"{HTTP}.pathType", None), f"{HTTP}.backend", {})
    assert wrong(INGRESSES, tree) == [f"{AT}.pathType: Required value: pathType must be specified"]


def test_a_host_may_be_wrong_twice() -> None:
    """An IPv6 address as host breaks two rules."""
    first, second = wrong(INGRESSES, changed(INGRESS, "spec.rules.0.host", "::1"))
    assert first == 'spec.rules[0].host: Invalid value: "::1": must be a DNS name, not an IP address'
    assert "a lowercase RFC 1123 subdomain" in second


@pytest.mark.parametrize(
    ("port", "found"),
    [
        (
            {"port": "http", "endPort": 5},
            ["endPort: Invalid value: 5: may not be specified when `port` is non-numeric"],
        ),
        ({"endPort": 5}, ["endPort: Invalid value: 5: may not be specified when `port` is not specified"]),
        ({"port": 8, "endPort": 5}, ["endPort: Invalid value: 8: must be greater than or equal to `port`"]),
        (
            {"port": "A_", "endPort": 5},
            [
                "endPort: Invalid value: 5: may not be specified when `port` is non-numeric",
                'port: Invalid value: "A_": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
                'port: Invalid value: "A_": must contain at least one letter (a-z)',
            ],
        ),
    ],
)
def test_policy_ports(port: JsonObject, found: list[str]) -> None:
    """A port range of a network policy has a number at both ends."""
    tree = {"spec": {"podSelector": {}, "egress": [{"ports": [port]}]}}
    assert wrong(POLICIES, tree) == [f"spec.egress[0].ports[0].{text}" for text in found]


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ("10.1.0.0/16", ""),
        ("10.1.0.5/16", "must not have bits set beyond the prefix length"),
        ("10.0.0.0/8", "must be a strict subset of `cidr`"),
        ("fd00::/64", "must be a strict subset of `cidr`"),
    ],
)
def test_exceptions_are_inside_their_ip_block(part: str, found: str) -> None:
    """An exception of an IP block is a strict subset of the block."""
    block = {"cidr": "10.0.0.0/8", "except": [part]}
    tree = {"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}}
    path = "spec.ingress[0].from[0].ipBlock.except[0]"
    assert wrong(POLICIES, tree) == ([f'{path}: Invalid value: "{part}": {found}'] if found else [])


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("addressType", None, ["addressType: Required value"]),
        ("addressType", "Bus", ['addressType: Unsupported value: "Bus": supported values: "FQDN", "IPv4", "IPv6"']),
        ("endpoints.0.addresses", [], ["endpoints[0].addresses: Required value: must contain at least 1 address"]),
        (
            "endpoints.0.addresses",
            ["127.0.0.1"],
            [f'{ADDRESS}: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'],
        ),
        (
            "endpoints.0.addresses",
            ["fd00::1"],
            ['endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address'],
        ),
        (
            "endpoints.0.hints",
            {"forZones": [{"name": "z"}, {"name": "z"}]},
            ['endpoints[0].hints.forZones[1].name: Duplicate value: "z"'],
        ),
        (
            "endpoints.0.hints",
            {"forNodes": [{"name": "n"}] * 9},
            ["endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items"],
        ),
        ("ports", [{"port": 1}, {"port": 2}], ['ports[1].name: Duplicate value: ""']),
        (
            "ports.0.protocol",
            "ICMP",
            ['ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"'],
        ),
        ("ports.0.appProtocol", "kubernetes.io/h2c", []),
    ],
)
def test_endpoint_slices(path: str, value: Any, found: list[str]) -> None:
    """Endpoints have addresses of the family of their slice; hints and ports are there once."""
    assert wrong(SLICES, changed(SLICE, path, value)) == found


@pytest.mark.parametrize(
    ("kind", "address", "found"),
    [
        ("FQDN", "a.b.", ["spec.addressType: FQDN endpoints are deprecated"]),
        (
            "IPv6",
            "fd00:0::1",
            ['endpoints[0].addresses[0]: IPv6 address "fd00:0::1" should be in RFC 5952 canonical format ("fd00::1")'],
        ),
    ],
)
def test_warnings_of_slices(kind: str, address: str, found: list[str]) -> None:
    """FQDN slices and addresses that are not in canonical form give a warning."""
    assert warned(SLICES, {"addressType": kind, "endpoints": [{"addresses": [address]}]}) == found
