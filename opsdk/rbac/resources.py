"""The resource of a kind, without a server: from its class, from the table of built-in kinds, or guessed. Pure."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import AnyKind, kind_of, metadata_only
from opsdk.apimachinery.object import Object
from opsdk.apimachinery.plurals import plural_of, pluralize
from opsdk.children.kinds import built_in_kind, built_in_kinds
from opsdk.errors import UsageError

# The table of built-in kinds has only kinds that can be applied.
_CLUSTER_SCOPED = frozenset(
    [
        ("", "componentstatuses"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ]
)

ResourceLike = AnyKind | GroupVersionKind | str
"""A class, a `Kind`, its GroupVersionKind, or the resource as kubectl writes it: ``pods/log``, ``deployments.apps``."""


class RuleResource(NamedTuple):
    """A resource as rules name it.

    Attributes:
        group: the API group; empty for the core group.
        resource: the plural, perhaps with a subresource.
        namespaced: whether its objects have a namespace.
        gvk: the kind, of a built-in kind or a class; None for other strings.
    """

    group: str
    resource: str
    namespaced: bool = True
    gvk: GroupVersionKind | None = None


def resource_of(resource: ResourceLike, subresource: str = "") -> RuleResource:
    """Return the resource of a kind or of a string.

    A string names the resource, its group after the first dot, and a subresource after a slash. ``*`` stands for all
    resources of the core group, ``*.apps`` for all of a group, ``*.*`` for everything.

    >>> resource_of("deployments.apps/scale")[:3]
    ('apps', 'deployments/scale', True)

    Raises:
        UsageError: the text does not name a resource.
    """
    if isinstance(resource, GroupVersionKind):
        resource = metadata_only(resource)
    if isinstance(resource, str):
        head, slash, written_subresource = resource.partition("/")
        plural, _, group = head.partition(".")
        if not plural or bool(slash) is not bool(written_subresource) or plural != plural.lower() or " " in resource:
            raise UsageError(
                f"{resource!r} is not a resource: write it as kubectl does, such as deployments.apps/scale"
            )
        gvk = _built_in_resources().get((group, plural))
        info = RuleResource(group, plural + slash + written_subresource, _is_namespaced(group, plural, gvk), gvk)
    else:
        kind = kind_of(resource)
        gvk, representation = kind.gvk, kind.representation
        if issubclass(representation, Object):
            plural = plural_of(representation)
            info = RuleResource(gvk.group, plural, representation.namespaced, gvk)
        else:
            plural = pluralize(gvk.kind.lower())
            info = RuleResource(gvk.group, plural, _is_namespaced(gvk.group, plural, gvk), gvk)
    return info._replace(resource=f"{info.resource}/{subresource}") if subresource else info


def _is_namespaced(group: str, plural: str, gvk: GroupVersionKind | None) -> bool:
    """Return the scope of a built-in resource; others count as namespaced."""
    built_in = built_in_kind(gvk) if gvk is not None else None
    return (group, plural) not in _CLUSTER_SCOPED if built_in is None else built_in.namespaced


@cache
def _built_in_resources() -> dict[tuple[str, str], GroupVersionKind]:
    return {(gvk.group, pluralize(gvk.kind.lower())): gvk for gvk in built_in_kinds()}
