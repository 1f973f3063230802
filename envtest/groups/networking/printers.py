"""Columns of the group networking.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import (
    NOTHING,
    KindPrinter,
    age,
    kind_printers,
    label_selector,
    load_balancers,
    meta_of,
    name_of,
    spec_of,
)
from opsdk.structured_merge.value import JsonObject, JsonValue

# ------------------------------------------------------------------ ingresses and other kinds


def _ingress(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    # Upstream shows the first three hosts. ``more`` counts all further rules, also those without a host.
    rules = spec.get("rules") or ()
    places = [i for i, rule in enumerate(rules) if rule.get("host")][:3]
    more = f" + {len(rules) - 3} more..." if len(places) == 3 and places[-1] + 1 < len(rules) else ""
    return [
        name_of(obj),
        NOTHING if spec.get("ingressClassName") is None else spec["ingressClassName"],
        ((",".join(rules[i]["host"] for i in places) or "*") + more),
        ",".join(load_balancers(obj)),
        "80, 443" if spec.get("tls") else "80",
        age(obj, now),
    ]


_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


def _ingress_class(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    params = spec.get("parameters")
    text = NOTHING
    if params is not None:
        group = f".{params['apiGroup']}" if params.get("apiGroup") is not None else ""
        text = f"{params.get('kind', '')}{group}/{params.get('name', '')}"
    noted = (meta_of(obj).get("annotations") or {}).get(_DEFAULT) == "true"
    return [name_of(obj) + " (default)" * noted, spec.get("controller", ""), text, age(obj, now)]


def _address(obj: JsonObject, now: float) -> list[JsonValue]:
    ref = spec_of(obj).get("parentRef")
    text = NOTHING
    if ref is not None:
        group = f".{ref['group']}" if ref.get("group") else ""
        parts = (f"{ref.get('resource', '')}{group}".lower(), ref.get("namespace"), ref.get("name", ""))
        text = "/".join(p for p in parts if p)
    return [name_of(obj), text, age(obj, now)]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "networking.k8s.io/ingresses": _ingress,
        "networking.k8s.io/ingressclasses": _ingress_class,
        "networking.k8s.io/networkpolicies": lambda obj, now: [
            name_of(obj),
            label_selector(spec_of(obj).get("podSelector")),
            age(obj, now),
        ],
        "networking.k8s.io/servicecidrs": lambda obj, now: [
            name_of(obj),
            ",".join(spec_of(obj).get("cidrs") or ()),
            age(obj, now),
        ],
        "networking.k8s.io/ipaddresses": _address,
    }
)
"""By ``group/resource``."""
