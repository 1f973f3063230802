"""Permissions and sets of them: coverage, difference, and the compact policy rules that grant a set. Pure.

Upstream: k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/rbac.go, RuleAllows (v1.36)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from opsdk.api.rbac.v1 import PolicyRule

if TYPE_CHECKING:  # start-up time: reviews begin after the start
    from opsdk.api.authorization.v1 import SubjectRulesReviewStatus

__all__ = ["Permission", "RuleSet"]

ALL_NAMESPACES: Final = ""
"""As a namespace: all of them, also those that do not exist yet."""
SELECTED_NAMESPACES: Final = "*"
"""As a namespace: those that `CacheOptions.namespace_selector` matches at that time."""
ANY: Final = "*"
"""As a verb, group or resource: all of them."""

# The order of a role that people read: kubectl and kubebuilder print reads before writes.
_VERB_ORDER: Final = ("*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

K = TypeVar("K")


class Permission(NamedTuple):
    """One verb on one resource, or on one path. The same value describes a request.

    Attributes:
        verb: ``get``, ``list``, ``watch``, ``create``, ``update``, ``patch``, ``delete``, ``deletecollection``, or
            ``*``.
        group: the API group; empty for the core group, ``*`` for all.
        resource: the plural, with its subresource: ``pods``, ``pods/log``, ``*/status``, ``*``. Empty for a path.
        name: the name of the object; empty for every object. A request for a collection has no name, and a create has
            none unless a server-side apply or an update creates the object.
        namespace: empty for cluster-scoped resources, and for all namespaces at once; `SELECTED_NAMESPACES` for those
            that a selector matches.
        path: of a request without a resource, such as ``/metrics``. A final ``*`` matches any rest.
    """

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    namespace: str = ALL_NAMESPACES
    path: str = ""

    def covers(self, other: Permission) -> bool:
        """Whether a role with this permission allows the request `other`, or grants the permission `other`.

        >>> Permission("get", "", "secrets").covers(Permission("get", "", "secrets", "token", "default"))
        True
        >>> Permission("get", "", "secrets", "token").covers(Permission("list", "", "secrets"))
        False
        """
        if self.verb not in (ANY, other.verb) or not self._covers_namespace(other.namespace):
            return False
        if not other.resource:
            return bool(self.path) and (
                self.path == other.path or (self.path.endswith("*") and other.path.startswith(self.path.rstrip("*")))
            )
        subresource = other.resource.partition("/")[2]
        resources = (ANY, other.resource, f"{ANY}/{subresource}") if subresource else (ANY, other.resource)
        return self.group in (ANY, other.group) and self.resource in resources and self.name in ("", other.name)

    def _covers_namespace(self, namespace: str) -> bool:
        if self.namespace == SELECTED_NAMESPACES:
            return namespace != ALL_NAMESPACES
        return self.namespace in (ALL_NAMESPACES, namespace)

    def __str__(self) -> str:
        """The permission in words: ``list secrets in namespace default``."""
        if not self.resource:
            return f"{self.verb} {self.path}"
        resource, slash, subresource = self.resource.partition("/")
        words = [self.verb, f"{resource}.{self.group}{slash}{subresource}" if self.group else self.resource]
        words += [f'named "{self.name}"'] if self.name else []
        if self.namespace == SELECTED_NAMESPACES:
            words.append("in selected namespaces")
        elif self.namespace:
            words.append(f"in namespace {self.namespace}")
        return " ".join(words)


class RuleSet:
    """A set of permissions. Immutable; iterates in a stable order.

    >>> rules = RuleSet([Permission("get", "apps", "deployments"), Permission("list", "apps", "deployments")])
    >>> print(rules - RuleSet([Permission("get", "apps", "deployments")]))
    list deployments.apps

    Args:
        permissions: in any order; duplicates count once.
    """

    __slots__ = ("permissions",)

    permissions: frozenset[Permission]

    def __init__(self, permissions: Iterable[Permission] = ()) -> None:
        self.permissions = frozenset(permissions)

    @classmethod
    def everything(cls) -> RuleSet:
        """Return the permissions of an admin, for plans of operators whose role is not known.

        >>> RuleSet.everything().covers(Permission("delete", "apps", "deployments", "web", "shop"))
        True
        """
        return cls([Permission(ANY, ANY, ANY)])

    @classmethod
    def from_policy_rules(cls, rules: Iterable[PolicyRule], namespace: str = ALL_NAMESPACES) -> RuleSet:
        """Return the permissions that the rules of a Role in `namespace`, or of a ClusterRole, grant."""
        permissions: set[Permission] = set()
        for rule in rules:
            permissions |= {Permission(verb, path=path) for path in rule.non_resource_urls for verb in rule.verbs}
            permissions |= {
                Permission(verb, group, resource, name, namespace)
                for group in rule.api_groups
                for resource in rule.resources
                for name in rule.resource_names or ("",)
                for verb in rule.verbs
            }
        return cls(permissions)

    @classmethod
    def from_review(cls, status: SubjectRulesReviewStatus, namespace: str) -> RuleSet:
        """Return the resource permissions in the status of a SelfSubjectRulesReview of a namespace."""
        rules = [
            PolicyRule(
                verbs=rule.verbs,
                api_groups=rule.api_groups,
                resources=rule.resources,
                resource_names=rule.resource_names,
            )
            for rule in status.resource_rules
        ]
        return cls.from_policy_rules(rules, namespace)

    def covers(self, permission: Permission) -> bool:
        """Whether the set allows a request, or grants a permission."""
        return permission in self.permissions or any(own.covers(permission) for own in self.permissions)

    def __sub__(self, other: RuleSet) -> RuleSet:
        """Return the permissions that `other` does not cover."""
        return RuleSet(p for p in self.permissions if not other.covers(p))

    def __or__(self, other: RuleSet) -> RuleSet:
        """Return the permissions of both."""
        return RuleSet(self.permissions | other.permissions)

    def in_selected(self, namespaces: Iterable[str]) -> RuleSet:
        """Return the set with the permissions in `SELECTED_NAMESPACES` as permissions in each of these namespaces.

        >>> rules = RuleSet([Permission("list", "", "secrets", namespace=SELECTED_NAMESPACES)])
        >>> print(rules.in_selected(["shop"]))
        list secrets in namespace shop
        """
        names = tuple(namespaces)
        chosen = {own: names if own.namespace == SELECTED_NAMESPACES else (own.namespace,) for own in self.permissions}
        return RuleSet(own._replace(namespace=name) for own, where in chosen.items() for name in where)

    def normalized(self) -> RuleSet:
        """Return the set without permissions that others of the set cover."""
        # No two permissions cover each other: `covers` is antisymmetric but for paths such as /a* and /a**.
        widest: dict[Permission, None] = {}
        for permission in sorted(self.permissions, key=_generality_key):
            if not any(own.covers(permission) for own in widest):
                widest[permission] = None
        return RuleSet(widest)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces of the permissions, sorted, with `ALL_NAMESPACES` and `SELECTED_NAMESPACES` among them."""
        return tuple(sorted({permission.namespace for permission in self.permissions}))

    def policy_rules(self, namespace: str = ALL_NAMESPACES) -> list[PolicyRule]:
        """Return the fewest rules of this form that grant exactly the permissions of a namespace.

        Rules of one group with equal verbs share their resources, then groups with equal resources share a rule.
        """
        normalized = self.normalized().permissions
        verbs = _group_values((p.path, p.verb) for p in normalized if not p.resource)
        paths = _group_values((verb, path) for path, verb in verbs.items())
        rules = [
            PolicyRule(non_resource_urls=list(path), verbs=list(sorted_verbs(verb))) for verb, path in paths.items()
        ]
        path_rules = sorted(rules, key=lambda rule: (rule.non_resource_urls, rule.verbs))
        return path_rules * (namespace == ALL_NAMESPACES) + _resource_rules(
            p for p in normalized if p.namespace == namespace and p.resource
        )

    def __iter__(self) -> Iterator[Permission]:
        return iter(sorted(self.permissions, key=_sort_key))

    def __len__(self) -> int:
        return len(self.permissions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RuleSet) and self.permissions == other.permissions

    def __hash__(self) -> int:
        return hash(self.permissions)

    def __str__(self) -> str:
        """One permission a line."""
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        return f"<RuleSet of {len(self)} permissions>"


def sorted_verbs(verbs: Iterable[str]) -> tuple[str, ...]:
    """Return verbs in the usual order of roles.

    >>> sorted_verbs(["watch", "create", "get", "approve"])
    ('get', 'watch', 'create', 'approve')
    """
    rank = {verb: number for number, verb in enumerate(_VERB_ORDER)}
    return tuple(sorted(set(verbs), key=lambda verb: (rank.get(verb, len(rank)), verb)))


def _sort_key(permission: Permission) -> tuple[object, ...]:
    rank = _VERB_ORDER.index(permission.verb) if permission.verb in _VERB_ORDER else len(_VERB_ORDER)
    return (permission.namespace, permission.group, permission.resource, permission.path, permission.name, rank,
            permission.verb)  # fmt: skip


def _generality_key(permission: Permission) -> tuple[object, ...]:
    """Return a sort key: a permission comes before those that it may cover. An empty name and ``*`` sort first."""
    return (
        permission.verb != ANY,
        permission.group != ANY,
        permission.namespace != ALL_NAMESPACES,
        not permission.resource.startswith(ANY),
        not permission.path.endswith(ANY),
        len(permission.path),
        _sort_key(permission),
    )


def _group_values(rows: Iterable[tuple[K, str]]) -> dict[K, tuple[str, ...]]:
    """Return the values of each key, sorted."""
    values: dict[K, set[str]] = defaultdict(set)
    for key, value in rows:
        values[key].add(value)
    return {key: tuple(sorted(texts)) for key, texts in values.items()}


def _resource_rules(permissions: Iterable[Permission]) -> list[PolicyRule]:
    """Join verbs, then names, then resources, then groups. Each step joins rows that agree in everything else."""
    verbs = _group_values(((p.group, p.resource, p.name), p.verb) for p in permissions)
    names = _group_values(((group, resource, verb), name) for (group, resource, name), verb in verbs.items())
    resources = _group_values(((group, verb, name), resource) for (group, resource, verb), name in names.items())
    groups = _group_values(((resource, verb, name), group) for (group, verb, name), resource in resources.items())
    rules = [
        PolicyRule(
            api_groups=list(group),
            resources=list(resource),
            resource_names=[text for text in name if text],
            verbs=list(sorted_verbs(verb)),
        )
        for (resource, verb, name), group in groups.items()
    ]
    return sorted(rules, key=lambda rule: (rule.api_groups, rule.resources, rule.resource_names, rule.verbs))
