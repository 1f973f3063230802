"""Namespaces: active until they are deleted, and removed when ``spec.finalizers`` is empty.

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
    """The strategy of Namespaces: removable when ``spec.finalizers`` is empty."""

    checks_preconditions = True

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {"status.phase": lambda obj: str((obj.get("status") or {}).get("phase", ""))}

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Check that the name is a DNS label."""
        return validation.dns_label(name, prefix=prefix)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Set the phase Active and the finalizer ``kubernetes``."""
        finalizers = list((obj.get("spec") or {}).get("finalizers") or [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        obj["spec"] = {"finalizers": finalizers}
        obj["status"] = {"phase": "Active"}

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore finalizers and status, which have subresources."""
        obj["spec"] = old.get("spec") or {}
        obj["status"] = old.get("status") or {}

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate ``spec.finalizers``."""
        return list(validate_finalizers((obj.get("spec") or {}).get("finalizers") or (), "spec.finalizers"))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Skip ``spec.finalizers``, which do not change here."""
        return ()

    def check_delete(self, context: Context, obj: JsonObject) -> None:
        """Refuse to delete the system namespaces."""
        name = obj["metadata"]["name"]
        if name in _PROTECTED:
            raise api_errors.forbidden(self.info, name, "this namespace may not be deleted")

    def mark_deleted(self, context: Context, obj: JsonObject) -> None:
        """Set the phase Terminating."""
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def removable(self, obj: JsonObject) -> bool:
        """Return whether ``spec.finalizers`` is empty."""
        return not (obj.get("spec") or {}).get("finalizers")

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate that the phase agrees with the deletion timestamp."""
        phase = (obj.get("status") or {}).get("phase", "")
        if not obj["metadata"].get("deletionTimestamp") and phase != "Active":
            text = "may only be 'Active' if `deletionTimestamp` is empty"
            return [api_errors.invalid_value("status.Phase", phase, text)]
        if obj["metadata"].get("deletionTimestamp") and phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [api_errors.invalid_value("status.Phase", phase, text)]
        return []


class NamespaceFinalizeStrategy(NamespaceStrategy):
    """Updates of ``namespaces/finalize``: only ``spec.finalizers`` changes."""

    def __init__(self, row: ServedResourceRow) -> None:
        super().__init__(row, has_status=False)

    @property
    def reset_fields(self) -> Sequence[str]:
        """Return the status, which has its own subresource."""
        return ("status",)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore everything but the finalizers."""
        obj["status"] = old.get("status") or {}

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate that finalizers are standard or have a domain."""
        finalizers = enumerate((obj.get("spec") or {}).get("finalizers") or ())
        return [
            cause for index, name in finalizers for cause in validate_finalizers((name,), f"spec.finalizers[{index}]")
        ]
