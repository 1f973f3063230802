"""Endpoint slices.

Upstream: pkg/registry/discovery (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.strategy import KindRules, StrategyFactory, ruled
from envtest.groups.discovery import validation
from envtest.groups.discovery.warnings import slice_warnings
from opsdk.apiserver.registry.context import Context
from opsdk.structured_merge.value import JsonObject


def forget_topology(context: Context, obj: JsonObject, old: JsonObject | None) -> None:
    """Drop ``deprecatedTopology``, which v1 does not have."""
    for endpoint in obj.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


STRATEGIES: Mapping[str, StrategyFactory] = {
    "discovery.k8s.io/endpointslices": ruled(
        KindRules(
            new=validation.validate_endpoint_slice,
            changed=validation.validate_slice_update,
            warnings=slice_warnings,
            prepare=forget_topology,
            counted=lambda obj: obj["metadata"].get("labels") or {},
        )
    ),
}
"""By ``group/resource``."""
