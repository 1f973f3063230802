# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Namespaces: active until they are deleted, and gone when their own finalizers are.

Upstream: pkg/registry/core/namespace/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.validation.namespace import validate_finalizers
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_PROTECTED = ("default", "kube-system", "kube-public")


class NamespaceStrategy(GeneratedStrategy):
    """Active until it is deleted; goes when its own finalizers are gone."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {"status.phase": lambda obj: str((obj.get("status") or {}).get("phase", ""))}

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Labels."""
        return validation.dns_label(name, prefix=prefix)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Phase, finalizer."""
        finalizers = list((obj.get("spec") or {}).get("finalizers") or [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        obj["spec"] = {"finalizers": finalizers}
        obj["status"] = {"phase": "Active"}

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Finalizers and status have their own resources."""
        obj["spec"] = old.get("spec") or {}
        obj["status"] = old.get("status") or {}

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Its own finalizers."""
        return list(validate_finalizers((obj.get("spec") or {}).get("finalizers") or (), "spec.finalizers"))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """They are not changed here."""
        return ()

    def check_delete(self, context: Context, obj: JsonObject) -> None:
        """Some must stay."""
        name = obj["metadata"]["name"]
        if name in _PROTECTED:
            raise api_errors.forbidden(self.info, name, "this namespace may not be deleted")

    def mark_deleted(self, context: Context, obj: JsonObject) -> None:
        """Terminating."""
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def removable(self, obj: JsonObject) -> bool:
        """When no finalizer of its spec is left."""
        return not (obj.get("spec") or {}).get("finalizers")

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The phase follows from the mark."""
        phase = (obj.get("status") or {}).get("phase", "")
        if not obj["metadata"].get("deletionTimestamp") and phase != "Active":
            text = "may only be 'Active' if `deletionTimestamp` is empty"
            return [api_errors.invalid_value("status.Phase", phase, text)]
        if obj["metadata"].get("deletionTimestamp") and phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [api_errors.invalid_value("status.Phase", phase, text)]
        return []


class NamespaceFinalizeStrategy(NamespaceStrategy):
    """Updates of ``namespaces/finalize``: only the finalizers of the spec."""

    def __init__(self, row: ServedResourceRow) -> None:
        super().__init__(row, has_status=False)

    @property
    def reset_fields(self) -> Sequence[str]:
        """The status has its own resource."""
        return ("status",)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Everything else stays."""
        obj["status"] = old.get("status") or {}

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Each finalizer is known, or has a domain."""
        finalizers = enumerate((obj.get("spec") or {}).get("finalizers") or ())
        return [
            cause for index, name in finalizers for cause in validate_finalizers((name,), f"spec.finalizers[{index}]")
        ]
