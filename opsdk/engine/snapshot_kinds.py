"""Which kinds of a cluster a snapshot has, and what of them was not read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.tree_names import kind_in
from opsdk.client.scheme import default_scheme
from opsdk.engine.snapshot import ClusterSnapshot, Unseen
from opsdk.engine.writes import Ref
from opsdk.rbac.permissions import ALL_NAMESPACES, ANY, SELECTED_NAMESPACES, RuleSet
from opsdk.rest.discovery import ApiResource, DiscoveredGroups

__all__ = ["UnreadKinds", "blind_spots", "choose_kinds", "named_namespaces"]

_LEFT_OUT_REASON: Final = "the operator does not use it, so it was not read: plan for a file of opsdk snapshot --all"
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
"""Without them, a fork serves custom objects without their schemas."""
_DERIVED_FROM_DEFINITIONS: Final = "apiservices.apiregistration.k8s.io"
"""A server creates and deletes the APIServices of its definitions."""
_LEFT_OUT: Final = frozenset({
    ("", "events"),
    ("events.k8s.io", "events"),
    ("", "componentstatuses"),
    ("coordination.k8s.io", "leases"),
})  # fmt: skip
"""Kinds that say nothing about the desired state, and change all the time."""

_ALWAYS: Final = frozenset({
    ("", "namespaces"),
    ("", "serviceaccounts"),
    ("", "nodes"),
    ("", "resourcequotas"),
    ("", "limitranges"),
    ("", "persistentvolumes"),
    ("admissionregistration.k8s.io", ANY),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("networking.k8s.io", "servicecidrs"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", ANY),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
})  # fmt: skip
"""What decides how the server and its controllers treat the objects of every operator."""
_ROUTES: Final = (
    ("networking.k8s.io", "ingresses"),
    *(("gateway.networking.k8s.io", f"{each}routes") for each in ("http", "grpc", "tls", "tcp", "udp")),
)
_DEPENDENTS: Final = {
    ("apps", "deployments"): (("apps", "replicasets"),),
    ("apps", "replicasets"): (("", "pods"),),
    ("apps", "daemonsets"): (("", "pods"), ("apps", "controllerrevisions")),
    ("apps", "statefulsets"): (("", "pods"), ("apps", "controllerrevisions"), ("", "persistentvolumeclaims")),
    ("batch", "cronjobs"): (("batch", "jobs"),),
    ("batch", "jobs"): (("", "pods"),),
    ("", "replicationcontrollers"): (("", "pods"),),
    ("", "services"): (("", "endpoints"), ("discovery.k8s.io", "endpointslices"), *_ROUTES),
    ("", "pods"): (("", "persistentvolumeclaims"), ("", "configmaps"), ("", "secrets")),
}
"""What the built-in controllers make of a kind, and what sends requests to it.

Without the former, a fork would make them anew.
"""


def choose_kinds(
    discovered: DiscoveredGroups, rules: RuleSet | None = None, *, names: Iterable[str] = ()
) -> Sequence[ApiResource]:
    """Return the kinds to read, each in the version that the server prefers, in the server's order.

    Args:
        discovered: what the server serves.
        rules: of the operator: only the kinds that it may use, and what belongs to them. None for all kinds.
        names: of further kinds: plural, singular, short name or kind, with or without the group, such as ``deploy``
            or ``Deployment.apps``.

    >>> choose_kinds(DiscoveredGroups())
    []
    """
    preferred = {group.name: group.preferred for group in discovered.groups}
    listed = {}
    for resource in discovered.resources:
        key = (resource.group, resource.plural)
        if key in _LEFT_OUT or not {"get", "list"} <= set(resource.verbs):
            continue
        # A resource that is missing in the preferred version is read in the first one that has it.
        if key not in listed or resource.version == preferred.get(resource.group):
            listed[key] = resource
    if rules is None:
        return list(listed.values())
    further = [_split(name) for name in names]
    chosen = _with_dependents(
        key for key, resource in listed.items() if _is_used(key, rules) or _is_named(resource, further)
    )
    return [resource for key, resource in listed.items() if key in chosen]


def _split(name: str) -> tuple[str, str]:
    """Return name and group. A name without a group has ``*``."""
    first, dot, group = name.partition(".")
    return first, group if dot else ANY


def _is_named(resource: ApiResource, names: Iterable[tuple[str, str]]) -> bool:
    own = {resource.plural, resource.singular, resource.kind, *resource.short_names}
    return any(name in own and (group == ANY or resource.group.startswith(group)) for name, group in names)


def _is_used(key: tuple[str, str], rules: RuleSet) -> bool:
    group, resource = key
    return key in _ALWAYS or (group, ANY) in _ALWAYS or _permits(f"{resource}.{group}", rules)


def _with_dependents(keys: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the kinds with what the built-in controllers make of them, and of that in turn."""
    chosen: set[tuple[str, str]] = set()
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in chosen:
            chosen.add(key)
            waiting += _DEPENDENTS.get(key, ())
    return chosen


def named_namespaces(rules: RuleSet | None) -> set[str]:
    """Return the namespaces that rules name, in which a user may list what it may not list in all of them."""
    return set(rules.namespaces if rules is not None else ()) - {ALL_NAMESPACES, SELECTED_NAMESPACES}


# ------------------------------------------------------------------ what was not read
class UnreadKinds:
    """What of a cluster a snapshot does not have, although the cluster may have it.

    A fork has no objects there, or other ones. What happens to them says nothing about the cluster.

    Args:
        snapshot: of the cluster.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._refused = {each.what: each for each in snapshot.unseen}
        self._groups = {group: each for each in snapshot.unseen if (group := _group_of(each.what))}
        self._kinds = {(each.kind, each.what.partition(".")[2]): each for each in snapshot.unseen if each.kind}
        self._left_out = frozenset(snapshot.left_out)

    def is_unread(self, gvk: str, key: str) -> bool:
        """Whether an object of a kind such as ``apps/v1, Kind=Deployment`` was not read; the key is ``shop/web``."""
        group = gvk.rpartition("/")[0]
        unseen = self._kinds.get((kind_in(gvk), group)) or self._groups.get(group)
        return unseen is not None and key.rpartition("/")[0] not in unseen.besides

    def reason(self, ref: Ref) -> Unseen | None:
        """Return why an object was not read; None if it was, or if it does not exist.

        >>> refused = [Unseen(what="secrets", reason="forbidden", besides=("shop",))]
        >>> unread = UnreadKinds(ClusterSnapshot(taken_at="", unseen=refused))
        >>> str(unread.reason(Ref("", "secrets", "default", "a"))), unread.reason(Ref("", "secrets", "shop", "a"))
        ('secrets outside of shop: forbidden', None)
        """
        resource = f"{ref.resource}.{ref.group}" if ref.group else ref.resource
        if (unseen := self._refused.get(resource)) is not None:
            return None if ref.namespace and ref.namespace in unseen.besides else unseen
        if resource == _DERIVED_FROM_DEFINITIONS and _DEFINITIONS in self._refused:
            return self._refused[_DEFINITIONS]
        if resource in self._left_out:
            return Unseen(what=resource, reason=_LEFT_OUT_REASON)
        return self._groups.get(ref.group)


def without_unread(end: ClusterSnapshot) -> ClusterSnapshot:
    """Return the state at the end of a run without the objects of the fork that say nothing about the cluster."""
    unread = UnreadKinds(end)
    plurals = {(kind.api_version, kind.kind): kind.plural for kind in end.kinds}
    objects = []
    for obj in end.objects:
        group, metadata = str(obj["apiVersion"]).rpartition("/")[0], obj["metadata"]
        plural = plurals.get((obj["apiVersion"], obj["kind"]), "")
        if unread.reason(Ref(group, plural, metadata.get("namespace", ""), metadata["name"])) is None:
            objects.append(obj)
    read = {(obj["apiVersion"], obj["kind"]) for obj in objects}
    kinds = [
        kind
        for kind in end.kinds
        if (kind.api_version, kind.kind) in read or unread.reason(Ref(kind.group, kind.plural, "", "")) is None
    ]
    return replace(end, kinds=kinds, objects=objects)


def _group_of(what: str) -> str:
    """Return the group of a group version whose discovery failed; empty for anything else."""
    group, slash, _ = what.partition("/")
    return group if slash and " " not in what else ""


def blind_spots(snapshot: ClusterSnapshot, rules: RuleSet) -> Sequence[Unseen]:
    """Return what could not be read, and what decides on the writes of an operator: it can hide a write.

    >>> blind_spots(ClusterSnapshot(taken_at="", unseen=[Unseen(what="pods", reason="forbidden")]), RuleSet())
    []
    """
    defined = any(not default_scheme().versions(GroupKind(kind.group, kind.kind)) for kind in snapshot.kinds)
    return [
        each
        for each in snapshot.unseen
        if _permits(each.what, rules, besides=each.besides) or (defined and each.what == _DEFINITIONS)
    ]


def _permits(what: str, rules: RuleSet, *, besides: Collection[str] = ()) -> bool:
    """Whether rules name a resource, such as ``deployments.apps``, or one of a group version, outside of namespaces."""
    plural, _, group = what.partition(".")
    if group_of_version := _group_of(what):
        plural, group = ANY, group_of_version
    return any(
        permission.group in (ANY, group)
        and (plural == ANY or permission.resource.partition("/")[0] in (ANY, plural))
        and permission.namespace not in besides
        for permission in rules.permissions
    )
