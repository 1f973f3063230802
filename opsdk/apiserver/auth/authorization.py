"""The authorizer port, and the simplest authorizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from opsdk.apiserver.auth.user import UNAUTHENTICATED, User


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What someone wants to do; `path` is used where it is no resource request."""

    user: User
    verb: str
    resource_request: bool = True
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether it is allowed, and why."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Decides what users may do."""

    async def authorize(self, attributes: Attributes) -> Decision:
        """The decision; errors are the server's fault, never a yes."""
        ...


PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")


def is_public(path: str) -> bool:
    """Whether everybody may read this path: health and version."""
    return any(path == p or path.startswith(f"{p}/") for p in PUBLIC_PATHS)


class AllowAuthenticated:
    """Everything for everyone with credentials; health and version for all."""

    async def authorize(self, attributes: Attributes) -> Decision:
        """Yes, unless the user is anonymous."""
        if UNAUTHENTICATED not in attributes.user.groups:
            return Decision(allowed=True)
        public = not attributes.resource_request and attributes.verb == "get" and is_public(attributes.path)
        return Decision(allowed=public)
