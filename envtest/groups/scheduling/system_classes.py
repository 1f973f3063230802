"""The priority classes that every cluster has.

Upstream: pkg/apis/scheduling/v1/helpers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from opsdk.structured_merge.value import JsonObject

HIGHEST: Final = 1_000_000_000
"""The highest value that users may set."""
PREFIX: Final = "system-"
SYSTEM: Final[Mapping[str, tuple[int, str]]] = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
"""Values and descriptions of the system classes."""
POLICIES: Final = ("PreemptLowerPriority", "Never")


def system_classes() -> Iterator[JsonObject]:
    """Return the system priority classes."""
    for name, (value, description) in SYSTEM.items():
        priority_class: JsonObject = {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name},
        }
        yield {**priority_class, "value": value, "description": description, "preemptionPolicy": POLICIES[0]}
