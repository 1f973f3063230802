"""Targets of the proxies of pods, nodes and services."""

from __future__ import annotations

import pytest

from envtest.groups.core.rest.proxy_location import node_location, pod_location, service_location, target_of
from opsdk.errors import BadRequestError, ServiceUnavailableError
from opsdk.structured_merge.value import JsonObject

POD: JsonObject = {
    "metadata": {"name": "p", "namespace": "d"},
    "spec": {"containers": [{"name": "quiet"}, {"name": "c", "ports": [{"containerPort": 8080}]}]},
    "status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]},
}
SERVICE: JsonObject = {"spec": {"ports": [{"name": "web", "port": 80}, {"name": "admin", "port": 9000}]}}


def points(ip: str = "10.1.2.3", namespace: str = "d") -> JsonObject:
    """Endpoints with one address, behind both ports."""
    ports = [{"name": "web", "port": 8080}, {"name": "admin", "port": 9001}]
    ref = {"kind": "Pod", "name": "p", "namespace": namespace}
    subset = {"addresses": [{"ip": ip, "targetRef": ref}], "ports": ports}
    return {"metadata": {"name": "s", "namespace": "d"}, "subsets": [subset]}


def served(name: str, endpoints: JsonObject) -> str:
    """Return the location of a service's proxy, with `POD` alone in the namespace."""
    return service_location(target_of(name, "service"), SERVICE, endpoints, {"p": POD}.get)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("p", ("", "p", "")),
        ("p:web", ("", "p", "web")),
        ("https:p:1", ("https", "p", "1")),
        ("http:p:", ("http", "p", "")),
    ],
)
def test_a_proxy_name_has_scheme_name_and_port(text: str, parts: tuple[str, str, str]) -> None:
    """A proxy name has one part (name), two (name, port) or three (scheme, name, port)."""
    target = target_of(text, "pod")
    assert (target.scheme, target.name, target.port) == parts


@pytest.mark.parametrize("text", ["a:b:c:d", "ftp:p:1", ":80", "https::1"])
def test_other_names_are_refused(text: str) -> None:
    """A name with too many parts, an unknown scheme or no name is a BadRequest."""
    with pytest.raises(BadRequestError, match="invalid pod request"):
        target_of(text, "pod")


@pytest.mark.parametrize(
    ("name", "place"), [("p", "10.1.2.3:8080"), ("p:1", "10.1.2.3:1"), ("https:p:", "10.1.2.3:8080")]
)
def test_a_pod_is_reached_at_its_first_or_requested_port(name: str, place: str) -> None:
    """A pod is reached at its first container port unless the request names a port."""
    assert pod_location(target_of(name, "pod"), POD) == place


@pytest.mark.parametrize(("name", "place"), [("p", "[fd00::1]:80"), ("https:p:", "[fd00::1]:443")])
def test_schemes_have_ports_and_long_addresses_brackets(name: str, place: str) -> None:
    """For a pod without ports, the scheme decides the port; IPv6 addresses get brackets."""
    pod = {"spec": {"containers": [{"name": "c"}]}, "status": {"podIP": "fd00::1"}}
    assert pod_location(target_of(name, "pod"), pod) == place


@pytest.mark.parametrize("ip", ["", "127.0.0.1", "169.254.0.1", "::1", "0.0.0.0", "224.0.0.1"])
def test_pods_cannot_lead_to_the_server_itself(ip: str) -> None:
    """Loopback, link-local and absent addresses are not allowed."""
    with pytest.raises(BadRequestError, match="address not allowed"):
        pod_location(target_of("p", "pod"), {**POD, "status": {"podIP": ip}})


@pytest.mark.parametrize(("name", "place"), [("n", "10.0.0.1:10250"), ("n:9100", "10.0.0.1:9100")])
def test_a_node_is_reached_at_its_kubelet(name: str, place: str) -> None:
    """A node is reached at the kubelet's port unless the request names a port."""
    assert node_location(target_of(name, "node"), {"status": {"addresses": [{"address": "10.0.0.1"}]}}) == place


def test_a_node_without_addresses_is_an_error() -> None:
    """A node without addresses is an error."""
    with pytest.raises(Exception, match="no preferred addresses found"):
        node_location(target_of("n", "node"), {})


@pytest.mark.parametrize(("name", "place"), [("s:web", "10.1.2.3:8080"), ("s:9000", "10.1.2.3:9001")])
def test_a_service_leads_to_a_pod_behind_it(name: str, place: str) -> None:
    """A Service port, by name or number, leads to the port of a pod."""
    assert served(name, points()) == place


@pytest.mark.parametrize(
    ("name", "endpoints", "text"),
    [
        ("s:web", {"metadata": {}}, 'no endpoints available for service "s"'),
        ("s:none", points(), 'no endpoints available for service "s:none"'),
        ("s:81", points(), 'no service port 81 found for service "s"'),
        ("s:web", points("10.9.9.9"), 'no endpoints available for service "s:web"'),
        ("s:web", points(namespace="other"), 'no endpoints available for service "s:web"'),
    ],
)
def test_a_service_leads_nowhere_else(name: str, endpoints: JsonObject, text: str) -> None:
    """Addresses that no pod of the namespace has are rejected, and so are missing ports."""
    with pytest.raises(ServiceUnavailableError) as caught:
        served(name, endpoints)
    assert text in str(caught.value)
