"""Warnings about objects of the group networking.k8s.io.

Upstream: pkg/registry/networking (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.common.ip_addresses import block_warnings
from opsdk.structured_merge.value import JsonObject

_INGRESS_CLASS = "kubernetes.io/ingress.class"


def network_policy_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of CIDRs that are not canonical."""
    spec = obj.get("spec") or {}
    if old is not None and (old.get("spec") or {}) == spec:
        return
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            for number, peer in enumerate(rule.get(peers) or ()):
                block, block_path = peer.get("ipBlock") or {}, f"spec.{direction}[{index}].{peers}[{number}].ipBlock"
                yield from block_warnings(block.get("cidr", ""), f"{block_path}.cidr")
                for inner, part in enumerate(block.get("except") or ()):
                    yield from block_warnings(part, f"{block_path}.except[{inner}]")


def ingress_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of the deprecated class annotation."""
    if old is None and _INGRESS_CLASS in (obj["metadata"].get("annotations") or {}):
        yield f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
