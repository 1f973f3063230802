"""Config maps: keys, size, immutability.

Upstream: pkg/registry/core/configmap/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.validation.config_map import validate_config_map, validate_immutable
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class ConfigMapStrategy(GeneratedStrategy):
    """The strategy of ConfigMaps."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        return list(validate_config_map(obj))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: an immutable ConfigMap does not change."""
        return [*validate_immutable(obj, old, ("data", "binaryData")), *self.validate(context, obj)]
