"""Privilege escalation checks for roles and bindings.

Upstream: pkg/registry/rbac (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.groups.common.rest import CheckedStore
from opsdk.apiserver import api_errors
from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes
from opsdk.apiserver.auth.rbac import PolicyRule, escalation
from opsdk.apiserver.auth.rbac_authorizer import RbacAuthorizer
from opsdk.apiserver.auth.rule_resolver import RbacPolicy
from opsdk.apiserver.auth.user import MASTERS
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.resources import ResourceInfo
from opsdk.apiserver.storage.ports import LocalStorage
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject

GROUP = "rbac.authorization.k8s.io"
_EVERYTHING = (PolicyRule(verbs=("*",), groups=("*",), resources=("*",)), PolicyRule(verbs=("*",), paths=("*",)))
_KINDS = {"Role": "roles", "ClusterRole": "clusterroles"}
_GC_FIELDS = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion"})


class GuardedStore(CheckedStore):
    """A store of roles or bindings that refuses privilege escalation.

    Args:
        authorizer: checks whether the user may ``escalate`` or ``bind``.
        rbac: returns the rules of a user.
    """

    def __init__(
        self,
        storage: LocalStorage,
        info: ResourceInfo,
        strategy: Strategy,
        *,
        authorizer: Authorizer,
        rbac: RbacAuthorizer,
    ) -> None:
        super().__init__(storage, info, strategy)
        self._authorizer = authorizer
        self._rbac = rbac

    async def check_before_validation(
        self, context: Context, name: str, obj: JsonObject, old: JsonObject | None
    ) -> None:
        """Refuse an escalation: a user grants no permissions beyond their own without ``escalate`` or ``bind``."""
        # Skip members of system:masters, and writes that only change fields of the garbage collector.
        if MASTERS in context.user.groups or (old is not None and (_without_gc_fields(obj) == _without_gc_fields(old))):
            return
        if "roleRef" in obj or self.info.resource.endswith("bindings"):
            ref = obj.get("roleRef") or {}
            kind, role = ref.get("kind", ""), ref.get("name", "")
            if kind not in _KINDS:
                raise api_errors.plain(f'unsupported role reference kind: "{kind}"')
            if await self._is_allowed(context, "bind", _KINDS[kind], role, context.namespace):
                return
            rules = self._policy.role(context.namespace if kind == "Role" else "", role)
            if rules is None:
                raise api_errors.not_found(self.info, role)
            self._confirm_no_escalation(context, obj, rules)
        elif not await self._is_allowed(context, "escalate", self.info.resource, name, context.namespace):
            self._confirm_no_escalation(context, obj, [PolicyRule.of(r) for r in obj.get("rules") or ()])
            # Aggregation can collect any rule, so it requires all permissions.
            if (_aggregates(obj) or _aggregates(old or {})) and self._escalation(context, _EVERYTHING):
                raise self._refused(obj, "must have cluster-admin privileges to use the aggregationRule")

    @property
    def _policy(self) -> RbacPolicy:
        return self._rbac.policy

    async def _is_allowed(self, context: Context, verb: str, resource: str, name: str, namespace: str) -> bool:
        attributes = AuthorizerAttributes(
            user=context.user,
            verb=verb,
            group=GROUP,
            version="*",
            resource=resource,
            name=name,
            namespace=namespace,
        )
        return (await self._authorizer.authorize(attributes)).allowed

    def _escalation(self, context: Context, rules: Sequence[PolicyRule]) -> str | None:
        owned, errors = self._policy.rules_for(context.user, context.namespace)
        return escalation(context.user, owned, rules, errors)

    def _confirm_no_escalation(self, context: Context, obj: JsonObject, rules: Sequence[PolicyRule]) -> None:
        reason = self._escalation(context, rules)
        if reason is not None:
            raise self._refused(obj, reason)

    def _refused(self, obj: JsonObject, reason: str) -> ApiError:
        return api_errors.forbidden(self.info, (obj.get("metadata") or {}).get("name", ""), reason)


def _aggregates(role: JsonObject) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _without_gc_fields(obj: JsonObject) -> JsonObject:
    meta = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _GC_FIELDS}
    return {**obj, "metadata": meta}
