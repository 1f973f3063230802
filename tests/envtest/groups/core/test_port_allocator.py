"""Services: node ports, and immutable fields."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.groups.core.address_pool import FIRST_NODE_PORT, AddressPool
from envtest.groups.core.port_allocator import ServicePortAllocation
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, read, wrong

NODE_PORTS = st.none() | st.sampled_from((29999, 30000, 30001, 32767, 32768))
PORTS = st.lists(
    st.fixed_dictionaries(
        {"port": st.sampled_from((53, 80, 443)), "protocol": st.sampled_from(("TCP", "UDP"))},
        optional={"nodePort": NODE_PORTS.filter(bool)},
    ),
    max_size=4,
)


@given(ports=PORTS, taken=st.sets(st.sampled_from((30000, 30001)), max_size=2))
def test_new_ports_are_unique_unless_requested(ports: list[JsonObject], taken: set[int]) -> None:
    """Each new port gets a free node port; a requested one that is taken is an error."""
    pool = AddressPool()
    pool.ports = dict.fromkeys(taken, "other")
    requested = {port["nodePort"] for port in ports if "nodePort" in port}
    result = list(ServicePortAllocation(pool, "me").new(ports, needs_ports=True))
    if result:
        assert len(result) == 1
        assert requested
        return
    given_out = {port["nodePort"] for port in ports}
    assert not given_out & taken
    assert all(FIRST_NODE_PORT <= number <= 32767 for number in given_out)
    for number in {port["port"] for port in ports}:
        shared = {port["nodePort"] for port in ports if port["port"] == number}
        assert len(shared - requested) <= 1


def test_one_port_for_all_protocols() -> None:
    """Ports of two protocols with the same number share one node port."""
    ports: list[JsonObject] = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 80}]
    assert not list(ServicePortAllocation(AddressPool(), "me").new(ports, needs_ports=True))
    assert ports[0]["nodePort"] == ports[1]["nodePort"] != ports[2]["nodePort"]


def test_ports_are_allocated_only_if_needed() -> None:
    """If node ports are not needed, only requested ones are allocated."""
    ports: list[JsonObject] = [{"port": 53}, {"port": 80, "nodePort": 30080}]
    assert not list(ServicePortAllocation(AddressPool(), "me").new(ports, needs_ports=False))
    assert ports == [{"port": 53}, {"port": 80, "nodePort": 30080}]


def test_an_update_keeps_its_ports() -> None:
    """An update keeps its own node ports, gets free ones for new ports, and cannot take foreign ones."""
    pool = AddressPool()
    pool.ports = {30000: "me", 30001: "other"}
    ports: list[JsonObject] = [{"nodePort": 30000}, {}]
    assert not list(ServicePortAllocation(pool, "me").changed(ports, needs_ports=True))
    assert ports[1]["nodePort"] not in (30000, 30001)
    [cause] = ServicePortAllocation(pool, "me").changed([{"nodePort": 30000}, {"nodePort": 30001}], needs_ports=True)
    assert cause.field == "spec.ports[1].nodePort"


def test_a_health_check_node_port_is_allocated() -> None:
    """A health check node port is allocated; a requested one that is taken is an error."""
    pool = AddressPool()
    pool.ports = {30001: "other"}
    spec: JsonObject = {}
    ServicePortAllocation(pool, "me").health(spec)
    assert spec["healthCheckNodePort"] >= FIRST_NODE_PORT
    with pytest.raises(ApiError, match="failed to allocate requested HealthCheck NodePort 30001"):
        ServicePortAllocation(pool, "me").health({"healthCheckNodePort": 30001})


SERVICE: JsonObject = {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}
BALANCER: JsonObject = {"spec": {**SERVICE["spec"], "type": "LoadBalancer"}}
ONLY = "may only be used when `type` is 'LoadBalancer'"
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"

WRONG = [
    (BALANCER, "spec.ports.0.port", 10250,
     ["spec.ports[0]: Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet"]),
    (SERVICE, "spec.loadBalancerSourceRanges", ["10.0.0.0/8"], [f"spec.LoadBalancerSourceRanges: Forbidden: {ONLY}"]),
    (BALANCER, "spec.loadBalancerSourceRanges", ["x"],
     [('spec.LoadBalancerSourceRanges[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or'
       " 2001:db8::/64)")]),
    (SERVICE, "metadata", {"annotations": {RANGES: "10.0.0.0/8"}},
     [f"metadata.annotations[{RANGES}]: Forbidden: {ONLY}"]),
    (SERVICE, "spec.loadBalancerClass", "a", [f"spec.loadBalancerClass: Forbidden: {ONLY}"]),
    (SERVICE, "spec.healthCheckNodePort", 70000,
     [("spec.healthCheckNodePort: Invalid value: 70000: may only be set when `type` is 'LoadBalancer' and"
       " `externalTrafficPolicy` is 'Local'")]),
    (SERVICE, "metadata",
     {"annotations": {f"service.kubernetes.io/topology-{k}": k for k in ("mode", "aware-hints")}},
     [('metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "mode": must match'
       " annotations[service.kubernetes.io/topology-aware-hints] when both are specified")]),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "path", "value", "found"), WRONG)
def test_load_balancer_fields_need_the_load_balancer_type(
    tree: JsonObject, path: str, value: Any, found: list[str]
) -> None:
    """Invalid load balancer fields, and those on another service type, are errors."""
    assert wrong("/services", changed(tree, path, value)) == found


def _at(address: str, *, whole: bool = True) -> JsonObject:
    """The service with an address, and the list of its addresses."""
    return changed(changed(SERVICE, "spec.clusterIP", address), "spec.clusterIPs", [address] if whole else None)


def test_the_primary_cluster_ip_is_immutable() -> None:
    """The primary cluster IP cannot change, and a change of clusterIP alone is an error."""
    old = read("/services", _at("10.0.0.20"))
    assert not wrong("/services", _at("10.0.0.20", whole=False), old)
    errors = wrong("/services", _at("10.0.0.21"), old)
    assert errors == ['spec.clusterIPs[0]: Invalid value: ["10.0.0.21"]: may not change once set']
    errors = wrong("/services", _at("None"), old)
    assert errors == ['spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set']
    with pytest.raises(ApiError, match=r"spec\.clusterIPs: Required value"):
        wrong("/services", _at("10.0.0.21", whole=False), old)
