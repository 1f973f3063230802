"""Warnings about endpoint slices.

Upstream: pkg/registry/discovery/endpointslice/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.common.ip_addresses import address_warnings
from opsdk.structured_merge.value import JsonObject


def slice_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of the deprecated address type FQDN, and of addresses that are not canonical."""
    if old is None and obj.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        for number, address in enumerate(endpoint.get("addresses") or ()):
            yield from address_warnings(address, f"endpoints[{index}].addresses[{number}]")
