"""The strategy of custom resources: pruning, defaulting and validation on writes.

Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver.field_errors import FieldError
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.strategy import HasStatusRules
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.errors import Cause
from opsdk.structured_merge.equality import strict_equal
from opsdk.structured_merge.value import JsonObject


class SchemaStrategy(HasStatusRules):
    """The strategy of custom resources."""

    has_generation = True

    def __init__(self, schema: StructuralSchema, *, namespaced: bool, has_status: bool) -> None:
        self.namespaced = namespaced
        self.has_status = has_status
        self._schema = schema

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Drop the status."""
        if self.has_status:
            obj.pop("status", None)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore the status."""
        if self.has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]

    def generation_changed(self, obj: JsonObject, old: JsonObject) -> bool:
        """Report whether an update increments ``metadata.generation``; ``1.0`` instead of ``1`` does too."""
        skip = {"metadata", "apiVersion", "kind", *(("status",) if self.has_status else ())}
        return not strict_equal(*({k: v for k, v in tree.items() if k not in skip} for tree in (obj, old)))

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate by the schema."""
        return [error.cause for error in self._schema.validate(obj, beside=self.additional_errors(obj))]

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate by the schema, with ratcheting: unchanged values may stay invalid."""
        errors = self._schema.validate(obj, old, warn=context.warn, beside=self.additional_errors(obj))
        return [error.cause for error in errors]

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the status by its schema, and the whole object by its rules."""
        beside = self.additional_errors(obj, status_only=True)
        return [error.cause for error in self._schema.validate_status(obj, old, warn=context.warn, beside=beside)]

    def additional_errors(self, obj: JsonObject, *, status_only: bool = False) -> Sequence[FieldError]:
        """Return additional errors of an object; with `status_only`, only those in its status."""
        return ()
