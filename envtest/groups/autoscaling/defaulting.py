"""Defaults of the group autoscaling. Each function fills in an object that the caller owns.

Upstream: pkg/apis/autoscaling/v2/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def horizontal_pod_autoscaler(obj: JsonObject) -> None:
    """Default to one replica at least and a CPU target of 80 %."""
    spec = obj.setdefault("spec", {})
    put(spec, minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if isinstance(behavior, dict):
        up = behavior.setdefault("scaleUp", {})
        put(
            up,
            stabilizationWindowSeconds=0,
            selectPolicy="Max",
            policies=[
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        )
        down = behavior.setdefault("scaleDown", {})
        put(down, selectPolicy="Max", policies=[{"type": "Percent", "value": 100, "periodSeconds": 15}])


DEFAULTS: Mapping[str, Defaults] = {
    "autoscaling/horizontalpodautoscalers": horizontal_pod_autoscaler,
}
"""By ``group/resource``."""
