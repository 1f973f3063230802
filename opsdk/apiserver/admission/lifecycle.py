"""``NamespaceLifecycle``: rejects creation in missing and terminating namespaces.

Upstream: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable

from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.plugin import Plugin
from opsdk.apiserver.resources import ResourceInfo
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class NamespaceLifecycle(Plugin):
    """Args: `find` returns a namespace, or None if it does not exist."""

    def __init__(self, find: Callable[[str], JsonObject | None], namespaces: ResourceInfo) -> None:
        self._find = find
        self._info = namespaces

    async def mutate(self, attributes: Attributes) -> None:
        """Refuse creations."""
        info = attributes.served.info
        if attributes.operation != "CREATE" or not info.namespaced or not attributes.namespace:
            return
        namespace = self._find(attributes.namespace)
        if namespace is None:
            raise api_errors.not_found(self._info, attributes.namespace)
        if (namespace.get("status") or {}).get("phase") != "Terminating":
            return
        text = f"unable to create new content in namespace {attributes.namespace} because it is being terminated"
        cause = Cause(
            reason="NamespaceTerminating",
            message=f"namespace {attributes.namespace} is being terminated",
            field="metadata.namespace",
        )
        raise api_errors.forbidden(info, attributes.name, text, causes=(cause,))
