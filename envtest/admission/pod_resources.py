"""Total requests and limits of a pod over all its containers. Pure.

Upstream: k8s.io/component-helpers/resource/helpers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from opsdk.apimachinery.quantity import Quantity
from opsdk.structured_merge.value import JsonObject, JsonValue

Amounts = dict[str, Quantity]
"""Quantities by resource name."""

ZERO = Quantity("0")


def read(amounts: Mapping[str, JsonValue] | None) -> Amounts:
    """Parse a resource list."""
    return {name: Quantity(text) for name, text in (amounts or {}).items()}


def plus(one: Quantity, other: Quantity) -> Quantity:
    """Add two quantities; the sum has the format of the first one, unless that is zero."""
    return one + other if one.value else ZERO + other if not other.value else other + ZERO


def add(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    """Add two resource lists."""
    return {**one, **{name: plus(one[name], more) if name in one else more for name, more in other.items()}}


def most(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    """Return the higher quantity of each resource."""
    return {**one, **{name: more for name, more in other.items() if name not in one or more > one[name]}}


def of_pod(spec: JsonObject, kind: str) -> Amounts:
    """Return ``requests`` or ``limits`` of a pod: the sum of its containers, or the maximum of its init phase."""
    total, sidecars, start = Amounts(), Amounts(), Amounts()
    for container in spec.get("containers") or ():
        total = add(total, _of(container, kind))
    for container in spec.get("initContainers") or ():
        own = _of(container, kind)
        if container.get("restartPolicy") == "Always":
            total, sidecars = add(total, own), add(sidecars, own)
            own = sidecars
        else:
            own = add(own, sidecars)
        start = most(start, own)
    return {**most(total, start), **_of(spec, kind)}


def with_overhead(spec: JsonObject, kind: str, amounts: Amounts) -> Amounts:
    """Add the pod overhead; limits only get it if the pod sets a limit."""
    overhead = read(spec.get("overhead"))
    if kind == "limits":
        overhead = {name: amount for name, amount in overhead.items() if amounts.get(name, ZERO).value}
    return add(amounts, overhead)


def _of(owner: JsonObject, kind: str) -> Amounts:
    return read((owner.get("resources") or {}).get(kind))


def containers(spec: JsonObject, keys: Iterable[str] = ("containers", "initContainers")) -> Iterator[JsonObject]:
    """Return the containers of a pod spec in the fields `keys`."""
    for key in keys:
        yield from spec.get(key) or ()
