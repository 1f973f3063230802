"""What all containers of a pod ask for together. Pure."""

from __future__ import annotations

from decimal import Decimal

from envtest.kinds.quantities import canonical
from opsdk.api.quantity import Quantity
from opsdk.apiserver.storage.ports import Tree


def requested(spec: Tree, name: str) -> Decimal:
    """Of one resource: the ordinary containers and the sidecars, or the largest of those before them."""
    main = sum((_amount(c, name) for c in spec.get("containers") or ()), Decimal(0))
    sidecars = before = Decimal(0)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars += _amount(container, name)
            before = max(before, sidecars)
        else:
            before = max(before, sidecars + _amount(container, name))
    return max(main + sidecars, before)


def _amount(container: Tree, name: str) -> Decimal:
    found = ((container.get("resources") or {}).get("requests") or {}).get(name)
    return Decimal(0) if found is None else Quantity(found).value


def shown_amount(value: Decimal) -> str:
    """As the server writes it."""
    return canonical(f"{value:f}")
