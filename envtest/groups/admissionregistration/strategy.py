# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
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
    """Both kinds of configurations; what an old object got away with stays allowed."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._mutating = row.info.kind.startswith("Mutating")

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Every webhook."""
        return list(validate_webhooks(obj.get("webhooks") or (), mutating=self._mutating))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Every webhook, in the light of the old ones."""
        before = old.get("webhooks") or ()
        return list(validate_webhooks(obj.get("webhooks") or (), before, mutating=self._mutating))


class PolicyStrategy(GeneratedStrategy):
    """Both kinds of policies; match conditions that nothing can have broken are not compiled again."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._mutating = row.info.kind.startswith("Mutating")

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """The whole spec."""
        return list(validate_policy(obj, mutating=self._mutating))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The whole spec, in the light of the old one."""
        return list(validate_policy(obj, old.get("spec") or {}, mutating=self._mutating))

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """What controllers say of a policy."""
        return list(validate_policy_status(obj.get("status") or {}))


# ------------------------------------------------------------------ bindings
class PolicyBindingStrategy(GeneratedStrategy):
    """Both kinds of bindings."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._mutating = row.info.kind.startswith("Mutating")

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """The whole spec."""
        return list(validate_policy_binding(obj.get("spec") or {}, "spec", mutating=self._mutating))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The whole spec."""
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
