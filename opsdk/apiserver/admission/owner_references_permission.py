"""``OwnerReferencesPermissionEnforcement``: checks that the user may delete a changed object, and finalize the owner.

Upstream: k8s.io/kubernetes/plugin/pkg/admission/gc/gc_admission.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.errors import refused
from opsdk.apiserver.admission.plugin import Plugin
from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes
from opsdk.structured_merge.value import JsonObject

Mapping = Callable[[str, str], Sequence[GroupVersionResource]]
"""Maps an apiVersion and a kind to resources; empty for a kind that is not served."""


class OwnerReferencesPermissionEnforcement(Plugin):
    """Rejects changes of owner references by users without permission to delete the object or finalize the owner.

    Args:
        resources: maps an apiVersion and a kind to resources.
    """

    def __init__(self, authorizer: Authorizer, resources: Mapping) -> None:
        self._authorizer = authorizer
        self._resources = resources

    async def validate(self, attributes: Attributes) -> None:
        """Reject changed ownerReferences if the user lacks the permissions."""
        if attributes.operation not in ("CREATE", "UPDATE") or attributes.obj is None:
            return
        if attributes.served.info.path == "pods/status" or _owners(attributes.obj) == _owners(attributes.old):
            return
        if attributes.operation == "UPDATE":  # an object may be created with owners by a user who cannot delete it
            info = attributes.served.info
            own = GroupVersionResource(info.group, info.version, info.resource)
            reason = await self._refusal(attributes, "delete", own, info.subresource, attributes.name)
            if reason is not None:
                raise refused(attributes, f"cannot set an ownerRef on a resource you can't delete: {reason}, <nil>")
        before = {o.get("uid") for o in _owners(attributes.old) if o.get("blockOwnerDeletion")}
        for owner in [o for o in _owners(attributes.obj) if o.get("blockOwnerDeletion") and o.get("uid") not in before]:
            version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
            resources = self._resources(version, kind)
            if not resources:
                text = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion"
                no_match = f'no matches for kind "{kind}" in version "{version}"'
                raise refused(attributes, f"{text} {version} Kind {kind}: {no_match}")
            for resource in resources:
                reason = await self._refusal(attributes, "update", resource, "finalizers", owner.get("name", ""))
                if reason is not None:
                    text = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set"
                    raise refused(attributes, f"{text} finalizers on: {reason}, <nil>")

    async def _refusal(
        self, attributes: Attributes, verb: str, resource: GroupVersionResource, subresource: str, name: str
    ) -> str | None:
        """Return the authorizer's reason for a denial; None if it allows the request."""
        authorizer_attributes = AuthorizerAttributes(
            user=attributes.user,
            verb=verb,
            group=resource.group,
            version=resource.version,
            resource=resource.resource,
            subresource=subresource,
            namespace=attributes.namespace,
            name=name,
        )
        decision = await self._authorizer.authorize(authorizer_attributes)
        return None if decision.allowed else decision.reason


def _owners(obj: JsonObject | None) -> Sequence[JsonObject]:
    references: Sequence[JsonObject] = ((obj or {}).get("metadata") or {}).get("ownerReferences") or []
    return references
