"""The RBAC rules that the declarations of an operator imply. Pure.

Only permissions that every such declaration uses are implied: the informers of declared kinds, finalizers, owner
references, the election, the authorization of metrics and the certificates of webhooks. The writes of a reconciler are
declared next to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.cache.options import CacheOptions, follows_namespaces, scopes
from opsdk.rbac.permissions import SELECTED_NAMESPACES
from opsdk.rbac.resources import RuleResource
from opsdk.rbac.rules import Namespaces, RbacRule, reads

_LEASES = "leases.coordination.k8s.io"


class ControllerKinds(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a controller's declaration that rules depend on.

    Attributes:
        kind: the reconciled kind.
        owns: kinds of owned objects.
        watches: other watched kinds.
        has_finalizers: whether finalizers are added to the reconciled kind.
        implied: what the controller's options need.
        rules: declared next to the reconciler.
    """

    kind: Kind[AnyObject] | None = None
    owns: tuple[Kind[AnyObject], ...] = ()
    watches: tuple[Kind[AnyObject], ...] = ()
    has_finalizers: bool = False
    implied: tuple[RbacRule, ...] = ()
    rules: tuple[RbacRule, ...] = ()

    def rbac_rules(self) -> Iterator[RbacRule]:
        """Return the implied rules, then the declared ones."""
        reconciled = (self.kind,) if self.kind is not None else ()
        if kinds := (*reconciled, *self.owns, *self.watches):
            yield reads(*kinds)
        if self.kind is not None and self.has_finalizers:
            yield RbacRule("patch", self.kind)
        if self.kind is not None and self.owns:
            # An owner reference that blocks the owner's deletion: OwnerReferencesPermissionEnforcement asks for this.
            yield RbacRule("update", self.kind, subresource="finalizers")
        yield from self.implied
        yield from self.rules


def metrics_rules() -> Iterable[RbacRule]:
    """Return the rules of the reviews that `opsdk.manager.metrics_authorization` sends."""
    reviews = ("tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io")
    return (RbacRule("create", *reviews),)


def election_rules(lease: str, namespace: str) -> Iterable[RbacRule]:
    """Return the rules of leader election. A create has no name, so only reads and updates are limited to the Lease."""
    return (
        RbacRule("get update", _LEASES, resource_names=[lease], namespaces=[namespace]),
        RbacRule("create", _LEASES, "events.events.k8s.io", namespaces=[namespace]),
    )


def cached_namespaces(options: CacheOptions) -> Namespaces:
    """Return a function from a resource to the namespaces of its informers.

    >>> from opsdk.rbac.resources import resource_of
    >>> list(cached_namespaces(CacheOptions(namespaces=["shop"]))(resource_of("secrets")))
    ['shop']
    """

    def namespaces(info: RuleResource) -> Iterable[str]:
        gvk = info.gvk or GroupVersionKind(info.group, "", "")
        resource = GroupVersionResource(info.group, gvk.version, info.resource)
        mapping = RestMapping(gvk=gvk, resource=resource, namespaced=info.namespaced)
        if follows_namespaces(options, mapping):
            return [SELECTED_NAMESPACES]
        return sorted({scope.namespace for scope in scopes(options, mapping).values()})

    return namespaces
