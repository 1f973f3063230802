"""The two policy plugins. They import CEL at the first matching policy, because the import is slow.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.matching import policy_exempt
from opsdk.apiserver.admission.plugin import Plugin
from opsdk.apiserver.admission.policies.matcher import PolicyDependencies
from opsdk.apiserver.admission.policies.policy_source import PolicySource


class MutatingPolicies(Plugin):
    """``MutatingAdmissionPolicy``."""

    def __init__(self, policies: PolicySource, ports: PolicyDependencies) -> None:
        self._policies = policies
        self._ports = ports

    async def mutate(self, attributes: Attributes) -> None:
        bound = self._policies.hooks()
        if not bound or attributes.operation == "DELETE" or policy_exempt(attributes.resource):
            return
        from opsdk.apiserver.admission.policies.mutating import mutate  # noqa: PLC0415 - CEL is slow

        await mutate(attributes, bound, self._ports)


class ValidatingPolicies(Plugin):
    """``ValidatingAdmissionPolicy``."""

    def __init__(self, policies: PolicySource, ports: PolicyDependencies) -> None:
        self._policies = policies
        self._ports = ports

    async def validate(self, attributes: Attributes) -> None:
        hooks = self._policies.hooks()
        if not hooks or policy_exempt(attributes.resource):
            return
        from opsdk.apiserver.admission.policies.validating import validate  # noqa: PLC0415 - CEL is slow

        await validate(attributes, hooks, self._ports)
