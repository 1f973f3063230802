"""Defaults of the group scheduling.k8s.io. Each function fills in an object that the caller owns.

Upstream: pkg/apis/scheduling/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def priority_class(obj: JsonObject) -> None:
    """Default the preemption policy to PreemptLowerPriority."""
    put(obj, preemptionPolicy="PreemptLowerPriority")


DEFAULTS: Mapping[str, Defaults] = {
    "scheduling.k8s.io/priorityclasses": priority_class,
}
"""By ``group/resource``."""
