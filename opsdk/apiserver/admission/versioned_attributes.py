"""Attributes with the objects converted to the version that a webhook or policy matches.

Upstream: k8s.io/apiserver/pkg/admission/conversion.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.matching import RequestAttributes, RuleWithOperations, in_some_namespace, selected_labels
from opsdk.apiserver.resources import InstalledResource
from opsdk.structured_merge.value import JsonObject


class Equivalents(Protocol):
    """Finds and converts between equivalent resources: other groups and versions of the same objects."""

    def equivalents(self, served: InstalledResource) -> Sequence[InstalledResource]:
        """Return the same resource or subresource in other versions and groups."""
        ...

    async def convert(self, obj: JsonObject, source: InstalledResource, target: InstalledResource) -> JsonObject:
        """Convert an object from one of these resources to another."""
        ...


GetNamespace = Callable[[str], JsonObject]
"""Returns the Namespace object of a name. Raises `NotFoundError`."""


class VersionedAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a request in the version that a webhook or policy matches."""

    kind: GroupVersionKind
    resource: GroupVersionResource
    obj: JsonObject | None
    old: JsonObject | None


class VersionedAttributesAccessor:
    """Converts the attributes of one request, with a cache of the old object's versions."""

    def __init__(self, attributes: Attributes, equivalents: Equivalents, namespace: GetNamespace) -> None:
        self._review = attributes
        self._equivalents = equivalents
        self._namespace = namespace
        self._request = RequestAttributes.of(attributes)
        self._others: Sequence[InstalledResource] | None = None
        self._old: dict[int, JsonObject | None] = {}

    def matched_resource(self, rules: Sequence[RuleWithOperations], *, equivalent: bool) -> InstalledResource | None:
        """Return the resource version for which a rule matches the request, or None."""
        review = self._review
        if any(rule.means(self._request, review.name) for rule in rules):
            return review.served
        if not equivalent or not rules:
            return None
        if self._others is None:
            self._others = self._equivalents.equivalents(review.served)
        for rule in rules:
            for other in self._others:
                info = other.info
                resource = review.resource._replace(group=info.group, version=info.version, resource=info.resource)
                if rule.means(self._request.instead(resource), review.name):
                    return other
        return None

    def selects_namespace(self, selector: LabelRequirements) -> bool:
        """Report whether the selector matches the namespace; requests without a namespace always match."""
        review = self._review
        if not selector.requirements or not in_some_namespace(review):
            return True
        labels = selected_labels(review)
        if labels is None:
            labels = self._namespace(review.namespace)["metadata"].get("labels") or {}
        return selector.matches(labels)

    async def versioned_attributes(self, served: InstalledResource) -> VersionedAttributes:
        """Return the current objects in the version of `served`."""
        review = self._review
        if served is review.served:
            return VersionedAttributes(kind=review.kind, resource=review.resource, obj=review.obj, old=review.old)
        info = served.info
        group, _, version = info.kind_api_version.rpartition("/")
        if id(served) not in self._old:
            self._old[id(served)] = await self._converted(review.old, served)
        return VersionedAttributes(
            kind=GroupVersionKind(group, version, info.kind),
            resource=review.resource._replace(group=info.group, version=info.version, resource=info.resource),
            obj=await self._converted(review.obj, served),
            old=self._old[id(served)],
        )

    async def _converted(self, obj: JsonObject | None, served: InstalledResource) -> JsonObject | None:
        if obj is None:
            return None
        return await self._equivalents.convert(obj, self._review.served, served)

    async def put(self, obj: JsonObject, served: InstalledResource) -> None:
        """Set the object of the request; `obj` is in the version of `served`."""
        if served is not self._review.served:
            obj = await self._equivalents.convert(obj, served, self._review.served)
        self._review.obj = obj
