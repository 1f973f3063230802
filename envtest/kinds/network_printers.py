"""Columns of services and of the other kinds about the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envtest.kinds.printing import (
    NOTHING,
    UNSET,
    Cells,
    age,
    joined,
    label_selector,
    meta_of,
    name_of,
    spec_of,
    status_of,
)
from opsdk.structured_merge.value import JsonObject


# ------------------------------------------------------------------ services
def _balancers(obj: JsonObject) -> list[str]:
    """Where its load balancers are, each once."""
    found = (status_of(obj).get("loadBalancer") or {}).get("ingress") or ()
    return sorted({str(i.get("ip") or i.get("hostname")) for i in found if i.get("ip") or i.get("hostname")})


def _external(obj: JsonObject) -> str:
    spec = spec_of(obj)
    addresses = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(addresses) or NOTHING
        case "LoadBalancer":
            return ",".join([*_balancers(obj), *addresses]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


def _port(port: JsonObject) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol')}"


def _service(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    return [
        name_of(obj),
        spec.get("type", ""),
        next(iter(spec.get("clusterIPs") or ()), None) or NOTHING,
        _external(obj),
        ",".join(map(_port, spec.get("ports") or ())) or NOTHING,
        age(obj, now),
        label_selector(spec.get("selector")),
    ]


# ------------------------------------------------------------------ endpoints
def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _subset_places(obj: JsonObject) -> Iterator[str]:
    for subset in obj.get("subsets") or ():
        addresses = [a.get("ip", "") for a in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            # Headless services need not have any.
            yield from addresses
        for port in ports:
            yield from (_host_port(a, port.get("port", 0)) for a in addresses)


def _endpoints(obj: JsonObject, now: float) -> list[Any]:
    places = joined(_subset_places(obj)) if obj.get("subsets") else NOTHING
    return [name_of(obj), places, age(obj, now)]


def _slice(obj: JsonObject, now: float) -> list[Any]:
    ports = [str(p["port"] if p.get("port") is not None else p.get("name", "*")) for p in obj.get("ports") or ()]
    addresses = [a for e in obj.get("endpoints") or () for a in e.get("addresses") or ()]
    shown = (joined(found) or UNSET for found in (ports, addresses))
    return [name_of(obj), obj.get("addressType", ""), *shown, age(obj, now)]


# ------------------------------------------------------------------ ingresses and the rest
def _hosts(rules: Sequence[JsonObject]) -> str:
    """The first three; where rules come after those, how many more than three there are, with a host or without."""
    places = [i for i, rule in enumerate(rules) if rule.get("host")][:3]
    more = f" + {len(rules) - 3} more..." if len(places) == 3 and places[-1] + 1 < len(rules) else ""
    return (",".join(rules[i]["host"] for i in places) or "*") + more


def _ingress(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    return [
        name_of(obj),
        NOTHING if spec.get("ingressClassName") is None else spec["ingressClassName"],
        _hosts(spec.get("rules") or ()),
        ",".join(_balancers(obj)),
        "80, 443" if spec.get("tls") else "80",
        age(obj, now),
    ]


_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


def _ingress_class(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    params = spec.get("parameters")
    shown = NOTHING
    if params is not None:
        group = f".{params['apiGroup']}" if params.get("apiGroup") is not None else ""
        shown = f"{params.get('kind', '')}{group}/{params.get('name', '')}"
    noted = (meta_of(obj).get("annotations") or {}).get(_DEFAULT) == "true"
    return [name_of(obj) + " (default)" * noted, spec.get("controller", ""), shown, age(obj, now)]


def _network_policy(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), label_selector(spec_of(obj).get("podSelector")), age(obj, now)]


def _range(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), ",".join(spec_of(obj).get("cidrs") or ()), age(obj, now)]


def _address(obj: JsonObject, now: float) -> list[Any]:
    ref = spec_of(obj).get("parentRef")
    shown = NOTHING
    if ref is not None:
        group = f".{ref['group']}" if ref.get("group") else ""
        parts = (f"{ref.get('resource', '')}{group}".lower(), ref.get("namespace"), ref.get("name", ""))
        shown = "/".join(p for p in parts if p)
    return [name_of(obj), shown, age(obj, now)]


CELLS: dict[str, Cells] = {
    "/services": _service,
    "/endpoints": _endpoints,
    "discovery.k8s.io/endpointslices": _slice,
    "networking.k8s.io/ingresses": _ingress,
    "networking.k8s.io/ingressclasses": _ingress_class,
    "networking.k8s.io/networkpolicies": _network_policy,
    "networking.k8s.io/servicecidrs": _range,
    "networking.k8s.io/ipaddresses": _address,
}
"""By ``group/resource``."""
