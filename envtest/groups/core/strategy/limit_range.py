"""Limit ranges: the limits of requests of pods, containers and claims.

Upstream: pkg/registry/core/limitrange/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.validation.limit_range import validate_limit_range
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class LimitRangeStrategy(GeneratedStrategy):
    """Validates LimitRanges, and names those without a name."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Set a name for a LimitRange without one."""
        super().prepare_for_create(context, obj)
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = context.new_uid()

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        return list(validate_limit_range(obj))
