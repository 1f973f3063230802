"""Priority classes: two are reserved for the system; the value of others is at most a billion, and immutable.

Upstream: pkg/registry/scheduling (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy, StrategyFactory
from envtest.groups.scheduling.system_classes import SYSTEM
from envtest.groups.scheduling.validation import validate_priority_class, validate_priority_class_update
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class PriorityClassStrategy(GeneratedStrategy):
    """Validates PriorityClasses, and refuses to delete those of the system."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def generation_changed(self, obj: JsonObject, old: JsonObject) -> bool:
        """Return False: the generation is set on create and never changes."""
        return False

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        return list(validate_priority_class(obj))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        return list(validate_priority_class_update(obj, old))

    def check_delete(self, context: Context, obj: JsonObject) -> None:
        """Refuse to delete system priority classes."""
        name = obj["metadata"]["name"]
        if name in SYSTEM:
            raise api_errors.forbidden(self.info, name, "this is a system priority class and cannot be deleted")


STRATEGIES: Mapping[str, StrategyFactory] = {
    "scheduling.k8s.io/priorityclasses": PriorityClassStrategy,
}
"""By ``group/resource``."""
