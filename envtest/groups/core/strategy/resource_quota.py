"""Resource quotas: the hard limits of a namespace, and their scopes.

Upstream: pkg/registry/core/resourcequota/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.validation.resource_quota import validate_amounts, validate_scope_selector, validate_scopes
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class ResourceQuotaStrategy(GeneratedStrategy):
    """Validates ResourceQuotas."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate quantities and scopes."""
        spec = obj.get("spec") or {}
        return [
            *validate_amounts(spec.get("hard") or {}, "spec.hard"),
            *validate_scopes(spec),
            *validate_scope_selector(spec),
        ]

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: the scopes are immutable."""
        causes = list(self.validate(context, obj))
        scopes = (obj.get("spec") or {}).get("scopes") or []
        if set(scopes) != set((old.get("spec") or {}).get("scopes") or ()):
            causes.append(api_errors.invalid_value("spec.scopes", scopes or None, "field is immutable"))
        return causes

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the quantities of the status."""
        status = obj.get("status") or {}
        return [c for key in ("hard", "used") for c in validate_amounts(status.get(key) or {}, f"status.{key}")]
