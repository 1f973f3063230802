"""The roles and bindings of a cluster, and the access sets of the users that were looked up. Pure.

A change of a role or binding drops only the sets of the users that it names.

Upstream: github.com/rancher/steve/pkg/accesscontrol/policy_rule_index.go, access_store.go
Deviates: steve computes the grants of a user at every look-up, and keeps the sets of the last 50.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cachetools import LRUCache

from opsdk.apiserver.auth.rbac import PolicyRule, RbacBinding, keys_of
from opsdk.apiserver.auth.user import User
from opsdk.norman.collections.access_set import AccessSet, Grant

_RoleKey = tuple[str, str]
"""Namespace and name of a Role or RoleBinding; the namespace of a cluster-wide one is empty."""

_UserKey = tuple[str, tuple[str, ...]]
"""Name and sorted groups of a user."""

_SubjectKey = tuple[str, str]
"""``User`` or ``Group``, and a name."""

_ROLE_KINDS = ("Role", "ClusterRole")


def _user_key(user: User) -> _UserKey:
    """Return the part of a user that RBAC reads."""
    return (user.name, tuple(sorted(set(user.groups))))


class AccessIndex:
    """Roles and bindings by subject, and the access sets of users.

    A ClusterRole counts with its written rules. The API server's aggregation controller writes those of an aggregated
    role, and the authorizer reads nothing else.

    Args:
        max_users: the number of access sets that are kept. The least recently used one is dropped first.
    """

    def __init__(self, *, max_users: int = 1000) -> None:
        self._roles: dict[_RoleKey, tuple[PolicyRule, ...]] = {}
        self._bindings: dict[_RoleKey, RbacBinding] = {}
        self._by_subject: dict[_SubjectKey, dict[_RoleKey, None]] = {}
        self._by_role: dict[_RoleKey, dict[_RoleKey, None]] = {}
        self._sets: LRUCache[_UserKey, AccessSet] = LRUCache(max_users)

    # -------------------------------------------------------------- changes
    def put_role(self, namespace: str, name: str, rules: Sequence[PolicyRule] | None) -> None:
        """Add, replace or, with None, remove a role, and drop the sets of its users."""
        key = (namespace, name)
        if self._roles.get(key) == (tuple(rules) if rules is not None else None):
            return
        if rules is None:
            del self._roles[key]
        else:
            self._roles[key] = tuple(rules)
        bindings = (self._bindings[binding] for binding in self._by_role.get(key, ()))
        self._forget(subject for binding in bindings for subject in _subjects(binding))

    def put_binding(self, namespace: str, name: str, binding: RbacBinding | None) -> None:
        """Add, replace or, with None, remove a binding, and drop the sets of its users."""
        key = (namespace, name)
        old = self._bindings.pop(key, None)
        if old is not None:
            for subject in _subjects(old):
                _discard(self._by_subject, subject, key)
            _discard(self._by_role, old.role_key, key)
        if binding is not None:
            self._bindings[key] = binding
            for subject in _subjects(binding):
                self._by_subject.setdefault(subject, {})[key] = None
            self._by_role.setdefault(binding.role_key, {})[key] = None
        if old != binding:
            self._forget(subject for b in (old, binding) if b is not None for subject in _subjects(b))

    def _forget(self, subjects: Iterable[_SubjectKey]) -> None:
        """Drop the sets of the users that are one of these subjects, or in one of these groups."""
        touched = frozenset(subjects)
        for key in [key for key in self._sets if _touches(touched, key)] if touched else ():
            del self._sets[key]

    # -------------------------------------------------------------- questions
    def access_for(self, user: User) -> AccessSet:
        """Return the access set of a user."""
        key = _user_key(user)
        access = self._sets.get(key)
        if access is None:
            access = self._sets[key] = AccessSet.of(self._grants(user))
        return access

    def _grants(self, user: User) -> Iterator[Grant]:
        keys = {key: None for subject in keys_of(user) for key in self._by_subject.get(subject, ())}
        for binding in map(self._bindings.__getitem__, keys):
            for rule in self._roles.get(binding.role_key, ()) if binding.role_kind in _ROLE_KINDS else ():
                yield binding.namespace, rule

    def __repr__(self) -> str:
        return f"<AccessIndex of {len(self._roles)} roles, {len(self._bindings)} bindings, {len(self._sets)} users>"


def _touches(subjects: frozenset[_SubjectKey], key: _UserKey) -> bool:
    """Whether one of the subjects is this user, or one of its groups.

    >>> _touches(frozenset({("Group", "dev")}), ("ann", ("dev",)))
    True
    """
    name, groups = key
    return ("User", name) in subjects or any(("Group", group) in subjects for group in groups)


def _subjects(binding: RbacBinding) -> Iterator[_SubjectKey]:
    for subject in binding.subjects:
        if (key := subject.key(binding.namespace)) is not None:
            yield key


def _discard(index: dict[tuple[str, str], dict[_RoleKey, None]], value: tuple[str, str], key: _RoleKey) -> None:
    keys = index.get(value)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del index[value]
