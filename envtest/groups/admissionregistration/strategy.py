"""Webhook configurations, admission policies and their bindings.

Upstream: pkg/registry/admissionregistration (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.admissionregistration.validation import (
    validate_policy,
    validate_policy_binding,
    validate_policy_status,
    validate_webhooks,
)
from envtest.groups.common.strategy import GeneratedStrategy, StrategyFactory
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class WebhookStrategy(GeneratedStrategy):
    """The strategy of both webhook configurations; updates use ratcheting validation."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._mutating = row.info.kind.startswith("Mutating")

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate every webhook."""
        return list(validate_webhooks(obj.get("webhooks") or (), mutating=self._mutating))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate every webhook, with the old webhooks for ratcheting."""
        before = old.get("webhooks") or ()
        return list(validate_webhooks(obj.get("webhooks") or (), before, mutating=self._mutating))


class PolicyStrategy(GeneratedStrategy):
    """The strategy of both policy kinds; unchanged match conditions are not compiled again."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._mutating = row.info.kind.startswith("Mutating")

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate the spec."""
        return list(validate_policy(obj, mutating=self._mutating))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the spec, with the old spec for ratcheting."""
        return list(validate_policy(obj, old.get("spec") or {}, mutating=self._mutating))

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the status that controllers write."""
        return list(validate_policy_status(obj.get("status") or {}))


# ------------------------------------------------------------------ bindings
class PolicyBindingStrategy(GeneratedStrategy):
    """The strategy of both policy binding kinds."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._mutating = row.info.kind.startswith("Mutating")

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate the spec."""
        return list(validate_policy_binding(obj.get("spec") or {}, "spec", mutating=self._mutating))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the spec."""
        return self.validate(context, obj)


STRATEGIES: Mapping[str, StrategyFactory] = {
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": WebhookStrategy,
    "admissionregistration.k8s.io/validatingwebhookconfigurations": WebhookStrategy,
    "admissionregistration.k8s.io/mutatingadmissionpolicies": PolicyStrategy,
    "admissionregistration.k8s.io/validatingadmissionpolicies": PolicyStrategy,
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": PolicyBindingStrategy,
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": PolicyBindingStrategy,
}
"""By ``group/resource``."""
