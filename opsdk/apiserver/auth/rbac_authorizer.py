"""The RBAC authorizer for stored roles and bindings.

Upstream: k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/rbac.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver.auth.authorization import AuthorizerAttributes, Decision, ResolvedRules
from opsdk.apiserver.auth.rbac import PolicyRule, RbacBinding
from opsdk.apiserver.auth.rule_resolver import RbacPolicy, joined
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.storage.ports import ChangeType, LocalStorage, StorageChange

_GROUP = "rbac.authorization.k8s.io/"
_ROLES = (f"{_GROUP}roles/", f"{_GROUP}clusterroles/")
_BINDINGS = (f"{_GROUP}rolebindings/", f"{_GROUP}clusterrolebindings/")


class RbacAuthorizer:
    """Authorizes by the roles and bindings in `storage`. The first decision loads them, and each write updates them."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage
        self._policy: RbacPolicy | None = None

    def __repr__(self) -> str:
        return f"<RbacAuthorizer by {self._policy or 'roles yet to be read'}>"

    @property
    def policy(self) -> RbacPolicy:
        """The current roles and bindings."""
        if self._policy is None:
            self._policy = RbacPolicy()
            for prefix in (*_ROLES, *_BINDINGS):
                for key, value in self._storage.list_now(prefix).items:
                    self._take(StorageChange.of(key, value))
            self._storage.subscribe(self._take, _GROUP)
        return self._policy

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        return self.policy.decide(attributes)

    async def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        rules, problems = self.policy.rules_for(user, namespace)
        return ResolvedRules(rules=tuple(r.wire() for r in rules), error=joined(problems) if problems else "")

    def _take(self, change: StorageChange) -> None:
        """Handle a write to storage; it must not fail for any stored object."""
        policy, key = self._policy, change.key
        if policy is None or not key.startswith(_GROUP):
            return
        namespace, _, name = key.removeprefix(_GROUP).partition("/")[2].rpartition("/")
        gone = change.kind is not ChangeType.PUT or change.value is None
        if key.startswith(_ROLES):
            if gone:
                policy.drop_role(namespace, name)
            else:
                policy.put_role(namespace, name, [PolicyRule.of(r) for r in (change.value or {}).get("rules") or ()])
        elif key.startswith(_BINDINGS):
            if gone:
                policy.drop_binding(namespace, name)
            else:
                policy.put_binding(RbacBinding.of(change.value or {}))
