"""Base classes of mutating and of validating plugins.

Upstream: k8s.io/apiserver/pkg/admission/handler.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.resources import ResourceInfo


class Plugin:
    """A plugin that admits everything; subclasses override the phases that they need.

    Attributes:
        resources: the resources that it applies to, as ``resource``, ``group/resource`` or with a subresource;
            None for all. The chain does not call it for others.
    """

    resources: Collection[str] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    async def mutate(self, attributes: Attributes) -> None: ...

    async def validate(self, attributes: Attributes) -> None: ...


def writes(attributes: Attributes, path: str, *operations: str) -> bool:
    """Report whether a request is one of `operations` on a resource path.

    For example ``writes(attributes, "pods", "CREATE")``.
    """
    return attributes.operation in operations and resource_path(attributes.served.info) == path


def resource_path(info: ResourceInfo) -> str:
    """Return ``pods``, ``pods/status`` or ``apps/deployments/scale``."""
    return f"{info.group}/{info.path}" if info.group else info.path
