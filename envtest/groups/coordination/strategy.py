"""Leases; fields of disabled feature gates are dropped.

Upstream: pkg/registry/coordination/lease (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy, StrategyFactory
from envtest.groups.coordination.validation import validate_lease
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class LeaseStrategy(GeneratedStrategy):
    """The strategy of Leases; fields of coordinated leader election are dropped, its feature gate is off."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """See the class."""
        super().prepare_for_create(context, obj)
        _drop_coordination(obj)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """See the class."""
        super().prepare_for_update(context, obj, old)
        _drop_coordination(obj)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        return list(validate_lease(obj))


def _drop_coordination(obj: JsonObject) -> None:
    for key in ("strategy", "preferredHolder"):
        (obj.get("spec") or {}).pop(key, None)


STRATEGIES: Mapping[str, StrategyFactory] = {
    "coordination.k8s.io/leases": LeaseStrategy,
}
"""By ``group/resource``."""
