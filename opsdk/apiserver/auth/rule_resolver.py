"""Indexes roles and bindings by subject, so that a decision reads only the user's bindings. Pure.

Upstream: k8s.io/kubernetes/pkg/registry/rbac/validation/rule.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from opsdk.apiserver.auth.authorization import AuthorizerAttributes, Decision
from opsdk.apiserver.auth.rbac import PolicyRule, RbacBinding, Subject, keys_of
from opsdk.apiserver.auth.user import User

_CACHE_LIMIT = 1024


class Grant(msgspec.Struct, frozen=True):
    """A binding that matches the user, and its role's rules; `problem` if the role is missing."""

    binding: RbacBinding
    subject: Subject
    rules: tuple[PolicyRule, ...] = ()
    problem: str = ""


class RbacPolicy:
    """The roles and bindings, with a cache of grants that each change clears."""

    def __init__(self) -> None:
        self._roles: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}
        self._bindings: dict[tuple[str, str], RbacBinding] = {}
        self._by_subject: dict[tuple[str, tuple[str, str]], set[str]] = {}
        self._grants_by_user: dict[tuple[str, tuple[str, ...], str], tuple[Grant, ...]] = {}

    def __repr__(self) -> str:
        return f"<RbacPolicy of {len(self._roles)} roles and {len(self._bindings)} bindings>"

    # -------------------------------------------------------------- changes
    def put_role(self, namespace: str, name: str, rules: Sequence[PolicyRule]) -> None:
        """Add or replace a role; cluster roles have no namespace."""
        self._roles[namespace, name] = tuple(rules)
        self._grants_by_user.clear()

    def drop_role(self, namespace: str, name: str) -> None:
        """Remove a role."""
        self._roles.pop((namespace, name), None)
        self._grants_by_user.clear()

    def put_binding(self, binding: RbacBinding) -> None:
        """Add or replace a binding."""
        self.drop_binding(binding.namespace, binding.name)
        self._bindings[binding.namespace, binding.name] = binding
        for key in _keys(binding):
            self._by_subject.setdefault((binding.namespace, key), set()).add(binding.name)

    def drop_binding(self, namespace: str, name: str) -> None:
        """Remove a binding."""
        self._grants_by_user.clear()
        binding = self._bindings.pop((namespace, name), None)
        for key in _keys(binding) if binding is not None else ():
            names = self._by_subject[namespace, key]
            names.discard(name)
            if not names:
                del self._by_subject[namespace, key]

    # -------------------------------------------------------------- decisions
    def role(self, namespace: str, name: str) -> tuple[PolicyRule, ...] | None:
        """Return the rules of a role, or None."""
        return self._roles.get((namespace, name))

    def grants(self, user: User, namespace: str) -> tuple[Grant, ...]:
        """Return a user's grants: of ClusterRoleBindings, then of the namespace's, each sorted by name."""
        key = (user.name, user.groups, namespace)
        grants = self._grants_by_user.get(key)
        if grants is None:
            if len(self._grants_by_user) >= _CACHE_LIMIT:
                self._grants_by_user.clear()
            places = ("", namespace) if namespace else ("",)
            grants = self._grants_by_user[key] = tuple(g for place in places for g in self._grants_in(place, user))
        return grants

    def _grants_in(self, namespace: str, user: User) -> Iterator[Grant]:
        names: set[str] = set()
        for key in keys_of(user):
            names |= self._by_subject.get((namespace, key), set())
        for name in sorted(names):
            binding = self._bindings[namespace, name]
            subject = binding.subject_for(user)
            if subject is not None:
                rules = self._roles.get(binding.role_key) if binding.role_kind in ("Role", "ClusterRole") else None
                yield Grant(binding, subject, rules or (), binding.role_missing() if rules is None else "")

    def rules_for(self, user: User, namespace: str) -> tuple[list[PolicyRule], list[str]]:
        """Return all rules of a user, and the errors of collecting them."""
        grants = self.grants(user, namespace)
        return [r for g in grants for r in g.rules], [g.problem for g in grants if g.problem]

    def decide(self, attributes: AuthorizerAttributes) -> Decision:
        """Decide a request; a denial's reason lists the errors of collecting rules."""
        problems: list[str] = []
        for grant in self.grants(attributes.user, attributes.namespace):
            if grant.problem:
                problems.append(grant.problem)
            elif any(rule.allows(attributes) for rule in grant.rules):
                return Decision(allowed=True, reason=f"RBAC: allowed by {grant.binding.describe(grant.subject)}")
        return Decision(allowed=False, reason=f"RBAC: {joined(problems)}" if problems else "")


def joined(problems: Sequence[str]) -> str:
    """Join distinct errors as Go's aggregate does: in brackets if there are several."""
    once = list(dict.fromkeys(problems))
    return once[0] if len(once) == 1 else f"[{', '.join(once)}]"


def _keys(binding: RbacBinding) -> set[tuple[str, str]]:
    return {key for subject in binding.subjects if (key := subject.key(binding.namespace)) is not None}
