"""What a user may do, computed from RBAC rules. Pure.

Upstream: github.com/rancher/steve/pkg/accesscontrol/access_set.go, access_control.go
Deviates: the resource name ``*`` is an ordinary name, as in RBAC; in steve it means all names. Subresources are
granted as RBAC grants them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

import msgspec

from opsdk.apiserver.auth.rbac import ALL, PolicyRule

__all__ = ["VisibleObjects"]

Grant = tuple[str, PolicyRule]
"""A namespace, empty for the whole cluster, and a rule that a binding grants there."""


class AccessPlace(NamedTuple):
    """Where a permission applies. None means every namespace, or every name.

    >>> AccessPlace("default", None).covers("default", "a"), AccessPlace(None, "a").covers("default", "b")
    (True, False)
    """

    namespace: str | None
    name: str | None

    def covers(self, namespace: str, name: str) -> bool:
        """Whether the permission applies to this object."""
        return self.namespace in (None, namespace) and self.name in (None, name)


class VisibleObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one resource that a user may list, or watch.

    Attributes:
        everything: all objects.
        namespaces: all objects of these namespaces.
        names: these names in a namespace; the key None is for every namespace, and for cluster-scoped objects.
    """

    everything: bool = False
    namespaces: frozenset[str] = frozenset()
    names: Mapping[str | None, frozenset[str]] = {}

    def contains(self, namespace: str, name: str) -> bool:
        """Whether the user may see this object.

        >>> VisibleObjects(names={"default": frozenset({"a"})}).contains("default", "a")
        True
        """
        return (
            self.everything
            or namespace in self.namespaces
            or name in self.names.get(namespace, ())
            or name in self.names.get(None, ())
        )

    def is_within(self, namespace: str) -> bool:
        """Whether the user may see objects of a namespace."""
        return self.everything or namespace in self.namespaces or bool(self.names.keys() & {None, namespace})

    @property
    def key(self) -> Hashable:
        """A value that is equal for equal permissions."""
        return (self.everything, self.namespaces, frozenset(self.names.items()))

    def __bool__(self) -> bool:
        return self.everything or bool(self.namespaces) or any(self.names.values())


EVERYTHING = VisibleObjects(everything=True)

_NO_ACCESS: frozenset[AccessPlace] = frozenset()
Key = tuple[str, str, str]
"""Verb, group and resource; each may be ``*``."""


class AccessSet(msgspec.Struct, frozen=True):
    """All permissions of one user on resources. No list or watch reads non-resource URLs, so they are left out.

    Attributes:
        resources: where each verb on each resource is granted.
    """

    resources: Mapping[Key, frozenset[AccessPlace]]

    @classmethod
    def of(cls, grants: Iterable[Grant]) -> AccessSet:
        """Compute the set of these grants.

        >>> rule = PolicyRule(verbs=("get",), groups=("",), resources=("pods",), names=("a",))
        >>> access = AccessSet.of([("default", rule)])
        >>> access.grants("get", "", "pods", "default", "a"), access.grants("get", "", "pods", "default", "b")
        (True, False)
        """
        resources: dict[Key, set[AccessPlace]] = {}
        for namespace, rule in grants:
            places = [AccessPlace(namespace or None, name) for name in rule.names or (None,)]
            for key in product(rule.verbs, rule.groups, rule.resources):
                resources.setdefault(key, set()).update(places)
        return cls({key: frozenset(places) for key, places in resources.items()})

    def places(self, verb: str, group: str, resource: str) -> Iterator[AccessPlace]:
        """Iterate over the places where a verb on a resource is granted. A subresource is written ``pods/log``."""
        _, slash, subresource = resource.partition("/")
        resources = (ALL, resource, f"*/{subresource}") if slash else (ALL, resource)
        for key in product((ALL, verb), dict.fromkeys((ALL, group)), dict.fromkeys(resources)):
            yield from self.resources.get(key, _NO_ACCESS)

    def grants(self, verb: str, group: str, resource: str, namespace: str = "", name: str = "") -> bool:
        """Whether a request is granted, as the RBAC authorizer of the API server decides.

        Args:
            verb: such as ``get``.
            group: of the resource; empty for the core group.
            resource: in plural; a subresource is written ``pods/log``.
            namespace: empty for all namespaces and cluster-scoped objects. For a Namespace, its own name.
            name: empty for a collection.
        """
        return any(access.covers(namespace, name) for access in self.places(verb, group, resource))

    def may(self, verb: str, group: str, resource: str, *, namespaced: bool) -> bool:
        """Whether the verb is granted for at least one object of a resource."""
        return bool(self.visible(verb, group, resource, namespaced=namespaced))

    def visible(self, verb: str, group: str, resource: str, *, namespaced: bool) -> VisibleObjects:
        """Return the objects of a resource that a verb is granted for.

        An object that a user may get by its name is in the user's lists too. A permission in one namespace does not
        cover cluster-scoped objects, except that Namespace itself.

        Args:
            verb: such as ``list``.
            group: of the resource.
            resource: in plural.
            namespaced: whether its objects have namespaces.
        """
        places = set(self.places(verb, group, resource))
        if verb == "list":
            places.update(access for access in self.places("get", group, resource) if access.name is not None)
        namespaces: set[str] = set()
        names: dict[str | None, set[str]] = {}
        for access in _applicable(places, group, resource, namespaced=namespaced):
            if access.name is not None:
                names.setdefault(access.namespace, set()).add(access.name)
            elif access.namespace is None:
                return EVERYTHING
            else:
                namespaces.add(access.namespace)
        frozen = {namespace: frozenset(values) for namespace, values in names.items()}
        return VisibleObjects(namespaces=frozenset(namespaces), names=frozen)

    def __repr__(self) -> str:
        return f"<AccessSet with {len(self.resources)} resource permissions>"


def _applicable(
    places: Iterable[AccessPlace], group: str, resource: str, *, namespaced: bool
) -> frozenset[AccessPlace]:
    if (group, resource) == ("", "namespaces"):
        places = map(_of_namespace, places)
    return frozenset(place for place in places if namespaced or place.namespace is None)


def _of_namespace(access: AccessPlace) -> AccessPlace:
    """Return the permission on a Namespace, whose requests are made in the namespace itself."""
    if access.namespace is not None and access.name in (None, access.namespace):
        return AccessPlace(None, access.namespace)
    return access
