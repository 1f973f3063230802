"""Defaults of the group resource.k8s.io. Each function fills in an object that the caller owns.

Upstream: pkg/apis/resource/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def device_claim(obj: JsonObject) -> None:
    """Default requests to exactly one device."""
    _devices(obj.get("spec") or {})


def device_claim_template(obj: JsonObject) -> None:
    """Default requests to exactly one device."""
    _devices((obj.get("spec") or {}).get("spec") or {})


def _devices(spec: JsonObject) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for device_request in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if not isinstance(device_request, dict):
                continue
            put(device_request, allocationMode="ExactCount")
            if device_request["allocationMode"] == "ExactCount":
                put(device_request, count=1)
            for toleration in device_request.get("tolerations") or ():
                put(toleration, operator="Equal")


DEFAULTS: Mapping[str, Defaults] = {
    "resource.k8s.io/resourceclaims": device_claim,
    "resource.k8s.io/resourceclaimtemplates": device_claim_template,
}
"""By ``group/resource``."""
