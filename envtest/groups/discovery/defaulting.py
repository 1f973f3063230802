"""Defaults of the group discovery.k8s.io. Each function fills in an object that the caller owns.

Upstream: pkg/apis/discovery/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def endpoint_slice(obj: JsonObject) -> None:
    """Default the name of ports to empty and the protocol to TCP."""
    for port in obj.get("ports") or ():
        put(port, name="", protocol="TCP")


DEFAULTS: Mapping[str, Defaults] = {
    "discovery.k8s.io/endpointslices": endpoint_slice,
}
"""By ``group/resource``."""
