"""Defaults of the group flowcontrol.apiserver.k8s.io. Each function fills in an object that the caller owns.

Upstream: pkg/apis/flowcontrol/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def flow_schema(obj: JsonObject) -> None:
    """Default the matching precedence to 1000."""
    spec = obj.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def priority_level(obj: JsonObject) -> None:
    """Default concurrency shares to 30, and queues, queue length and hand size."""
    spec = obj.setdefault("spec", {})
    if spec.get("type") == "Exempt":
        put(spec, exempt={})
        put(spec["exempt"], nominalConcurrencyShares=0, lendablePercent=0)
    limited = spec.get("limited")
    if isinstance(limited, dict):
        put(limited, nominalConcurrencyShares=30, lendablePercent=0)
        response = limited.get("limitResponse") or {}
        if response.get("type") == "Queue":
            put(response, queuing={})
            put(response["queuing"], queues=64, handSize=8, queueLengthLimit=50)


DEFAULTS: Mapping[str, Defaults] = {
    "flowcontrol.apiserver.k8s.io/flowschemas": flow_schema,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": priority_level,
}
"""By ``group/resource``."""
