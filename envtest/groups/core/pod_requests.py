"""Total resource requests of a pod's containers. Pure.

Upstream: k8s.io/component-helpers/resource/helpers.go (v1.36)
"""

from __future__ import annotations

from opsdk.apimachinery.quantity import Quantity
from opsdk.structured_merge.value import JsonObject

_NOTHING = Quantity("0")


def requested(spec: JsonObject, name: str) -> Quantity:
    """Return the request of one resource, as the scheduler computes it for a pod."""
    main = sidecars = before = _NOTHING
    for container in spec.get("containers") or ():
        main += _amount(container, name)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars += _amount(container, name)
            before = max(before, sidecars)
        else:
            before = max(before, sidecars + _amount(container, name))
    return max(main + sidecars, before)


def _amount(container: JsonObject, name: str) -> Quantity:
    quantity = ((container.get("resources") or {}).get("requests") or {}).get(name)
    return _NOTHING if quantity is None else Quantity(quantity)
