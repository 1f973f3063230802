"""Validation of endpoints.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.common import validation
from envtest.groups.common.ip_addresses import ip_address, special_address
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


# ------------------------------------------------------------------ endpoints
def validate_endpoints(obj: JsonObject) -> Iterator[Cause]:
    """Validate Endpoints."""
    for index, subset in enumerate(obj.get("subsets") or ()):
        item_path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield api_errors.required(item_path, "must specify `addresses` or `notReadyAddresses`")
        for key in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(key) or ()):
                path = f"{item_path}.{key}[{number}]"
                text = address.get("ip", "")
                if not text:
                    yield api_errors.required(f"{path}.ip")
                else:
                    causes = list(special_address(text, f"{path}.ip"))
                    yield from causes
                    if list(ip_address(text, "")):
                        yield api_errors.invalid_value(f"{path}.ip", text, "must be a valid IP address")
                if address.get("hostname"):
                    yield from validation.label(address["hostname"], f"{path}.hostname")
                if address.get("nodeName") is not None:
                    yield from validation.subdomain(address["nodeName"], f"{path}.nodeName")
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports):
            yield from _endpoint_port(port, f"{item_path}.ports[{number}]", alone=len(ports) == 1)


def _endpoint_port(port: JsonObject, path: str, *, alone: bool) -> Iterator[Cause]:
    if port.get("name"):
        yield from validation.label(port["name"], f"{path}.name")
    elif not alone:
        yield api_errors.required(f"{path}.name")
    yield from validation.port_number(port.get("port", 0), f"{path}.port")
    yield from validation.one_of(port.get("protocol"), validation.PROTOCOLS, f"{path}.protocol")
