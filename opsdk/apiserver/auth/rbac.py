"""RBAC rules: what a rule allows and which rules cover others. Pure.

Upstream: k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from opsdk.apiserver.auth.authorization import AuthorizerAttributes
from opsdk.apiserver.auth.user import User
from opsdk.structured_merge.value import JsonObject, JsonValue

ALL = "*"
SERVICE_ACCOUNT = "system:serviceaccount:"


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: verbs on resources of groups (optionally only some names), or on paths."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, tree: Mapping[str, JsonValue]) -> PolicyRule:
        """Parse a rule of a Role."""
        return cls(
            verbs=tuple(tree.get("verbs") or ()),
            groups=tuple(tree.get("apiGroups") or ()),
            resources=tuple(tree.get("resources") or ()),
            names=tuple(tree.get("resourceNames") or ()),
            paths=tuple(tree.get("nonResourceURLs") or ()),
        )

    def wire(self) -> JsonObject:
        """Return the rule as JSON."""
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {key: list(value) for key, value in fields.items() if value}

    def __str__(self) -> str:
        fields = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.paths,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{key}:{quoted(value)}" for key, value in fields.items() if value) + "}"

    def allows(self, attributes: AuthorizerAttributes) -> bool:
        """Report whether the rule allows this request."""
        if ALL not in self.verbs and attributes.verb not in self.verbs:
            return False
        if not attributes.resource_request:
            return any(_path_covers(path, attributes.path) for path in self.paths)
        resource, subresource = attributes.resource, attributes.subresource
        covering = (ALL, f"{resource}/{subresource}", f"*/{subresource}") if subresource else (ALL, resource)
        return (
            (ALL in self.groups or attributes.group in self.groups)
            and any(name in self.resources for name in covering)
            and (not self.names or attributes.name in self.names)
        )

    def covers(self, other: PolicyRule) -> bool:
        """Report whether this rule allows everything that `other` allows."""
        return (
            _has_all(self.verbs, other.verbs)
            and _has_all(self.groups, other.groups)
            and self._covers_resources(other.resources)
            and all(any(_path_covers(own_path, path) for own_path in self.paths) for path in other.paths)
            and (not self.names or (bool(other.names) and set(other.names) <= set(self.names)))
        )

    def _covers_resources(self, resources: Sequence[str]) -> bool:
        if _has_all(self.resources, resources):
            return True
        for path in resources:
            _, slash, subresource = path.partition("/")
            if path not in self.resources and not (slash and f"*/{subresource}" in self.resources):
                return False
        return True

    def parts(self) -> Iterator[PolicyRule]:
        """Yield the rule split into single verbs, groups, resources and names."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    for names in [(name,) for name in self.names] if self.names else [()]:
                        yield PolicyRule(verbs=(verb,), groups=(group,), resources=(resource,), names=names)
        for path in self.paths:
            for verb in self.verbs:
                yield PolicyRule(verbs=(verb,), paths=(path,))


def quoted(names: Iterable[str]) -> str:
    """Return names as error messages list them: ``["a" "b"]``."""
    return f"[{' '.join(json.dumps(word, ensure_ascii=False) for word in names)}]"


def _has_all(allowed: Sequence[str], required: Sequence[str]) -> bool:
    return ALL in allowed or set(required) <= set(allowed)


def _path_covers(owner_path: str, sub_path: str) -> bool:
    return owner_path in (ALL, sub_path) or (owner_path.endswith("*") and sub_path.startswith(owner_path.rstrip("*")))


def uncovered_rules(owner_rules: Sequence[PolicyRule], servant_rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the parts of `servant_rules` that no rule of `owner_rules` covers."""
    return [
        part
        for rule in servant_rules
        for part in rule.parts()
        if not any(owned_rule.covers(part) for owned_rule in owner_rules)
    ]


def compact(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Join rules of one group, one resource and at most one name that differ only in their verbs."""
    done: list[PolicyRule] = []
    joined: dict[tuple[str, ...], PolicyRule] = {}
    for rule in rules:
        if rule.paths or len(rule.names) > 1 or len(rule.groups) != 1 or len(rule.resources) != 1:
            done.append(rule)
            continue
        key = (*rule.groups, *rule.resources, *rule.names)
        before = joined.get(key)
        verbs = (*before.verbs, *rule.verbs) if before is not None else rule.verbs
        joined[key] = PolicyRule(verbs=verbs, groups=rule.groups, resources=rule.resources, names=rule.names)
    return [*done, *joined.values()]


def escalation(
    user: User, owner_rules: Sequence[PolicyRule], servant_rules: Iterable[PolicyRule], problems: Sequence[str] = ()
) -> str | None:
    """Return why `user` with `owner_rules` may not grant `servant_rules`; None if it may.

    `problems` are the errors of the rule resolver.
    """
    lacking = uncovered_rules(owner_rules, servant_rules)
    if not lacking:
        return None
    listed = "\n".join(sorted({str(rule) for rule in compact(lacking)}))
    text = (
        f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions'
        f" not currently held:\n{listed}"
    )
    return f"{text}; resolution errors: [{' '.join(problems)}]" if problems else text


# ------------------------------------------------------------------ bindings
class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A subject of a binding."""

    kind: str
    name: str
    namespace: str = ""

    @classmethod
    def of(cls, tree: Mapping[str, JsonValue]) -> Subject:
        """Parse a subject of a RoleBinding."""
        return cls(kind=tree.get("kind", ""), name=tree.get("name", ""), namespace=tree.get("namespace", ""))

    def __str__(self) -> str:
        name = f"{self.name}/{self.namespace}" if self.kind == "ServiceAccount" else self.name
        return f"{self.kind} {json.dumps(name, ensure_ascii=False)}"

    def key(self, namespace: str) -> tuple[str, str] | None:
        """Return the index key: a user's or a group's name. `namespace` is the binding's."""
        if self.kind != "ServiceAccount":
            return (self.kind, self.name)
        home = self.namespace or namespace
        return ("User", f"{SERVICE_ACCOUNT}{home}:{self.name}") if home else None


class RbacBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A RoleBinding, or a ClusterRoleBinding without namespace."""

    name: str
    namespace: str = ""
    role_kind: str
    role: str
    subjects: tuple[Subject, ...] = ()

    @classmethod
    def of(cls, tree: Mapping[str, JsonValue]) -> RbacBinding:
        """Parse a RoleBinding or a ClusterRoleBinding."""
        meta, ref = tree["metadata"], tree.get("roleRef") or {}
        return cls(
            name=meta["name"],
            namespace=meta.get("namespace", ""),
            role_kind=ref.get("kind", ""),
            role=ref.get("name", ""),
            subjects=tuple(Subject.of(s) for s in tree.get("subjects") or ()),
        )

    def subject_for(self, user: User) -> Subject | None:
        """Return the first subject that matches the user or one of its groups."""
        subject_keys = keys_of(user)
        return next((s for s in self.subjects if s.key(self.namespace) in subject_keys), None)

    def describe(self, subject: Subject) -> str:
        """Return the reason of an allow that this binding grants."""
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        return f'{kind} "{name}" of {self.role_kind} "{self.role}" to {subject}'

    @property
    def role_key(self) -> tuple[str, str]:
        """The namespace and name of the role; cluster roles have no namespace."""
        return (self.namespace if self.role_kind == "Role" else "", self.role)

    def role_missing(self) -> str:
        """Return the error of a missing role."""
        if self.role_kind not in ("Role", "ClusterRole"):
            return f'unsupported role reference kind: "{self.role_kind}"'
        return f'{self.role_kind.lower()}.rbac.authorization.k8s.io "{self.role}" not found'


def keys_of(user: User) -> set[tuple[str, str]]:
    """Return the index keys of the subjects that match this user."""
    return {("User", user.name), *(("Group", group) for group in user.groups)}
