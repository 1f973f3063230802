"""Base classes of mutating and of validating plugins.

Upstream: k8s.io/apiserver/pkg/admission/handler.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver.admission.attributes import Attributes


class Plugin:
    """A plugin that admits everything; subclasses override the phases that they need."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    async def mutate(self, attributes: Attributes) -> None:
        """See `AdmissionInterface`."""

    async def validate(self, attributes: Attributes) -> None:
        """See `AdmissionInterface`."""


def writes(attributes: Attributes, path: str, *operations: str) -> bool:
    """Whether a request is one of some operations on ``resource``, ``resource/subresource`` or those of a group.

    For example ``writes(attributes, "pods", "CREATE")``.
    """
    info = attributes.served.info
    resource_text = f"{info.group}/{info.path}" if info.group else info.path
    return resource_text == path and attributes.operation in operations
