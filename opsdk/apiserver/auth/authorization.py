"""The authorizer port and the union authorizer.

Upstream: k8s.io/apiserver/pkg/authorization/authorizer/interfaces.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from opsdk.apiserver.auth.user import MASTERS, UNAUTHENTICATED, User
from opsdk.structured_merge.value import JsonValue


class AuthorizerAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of an authorization check; `path` is set for non-resource requests."""

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
    field_selector: str = ""
    label_selector: str = ""
    """Selectors of a list, watch or deletecollection; an authorizer may allow only certain selectors."""


class Decision(msgspec.Struct, frozen=True):
    """The decision with its reason.

    `denied` is final: later authorizers are not called. `error` is the evaluation error.
    """

    allowed: bool
    reason: str = ""
    denied: bool = False
    error: str = ""


class ResolvedRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a user in a namespace, as a SelfSubjectRulesReview lists them."""

    rules: Sequence[Mapping[str, JsonValue]] = ()
    incomplete: bool = False
    error: str = ""


class Authorizer(Protocol):
    """Authorizes requests."""

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        """Return the decision; an evaluation error never allows the request."""
        ...


@runtime_checkable
class RuleResolver(Protocol):
    """An authorizer that lists the rules of a user."""

    async def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        """Return the user's rules in a namespace, including cluster-wide ones."""
        ...


_ALLOWED: Final = Decision(allowed=True)
_NO_OPINION: Final = Decision(allowed=False)


class PrivilegedGroup:
    """Allows members of ``system:masters`` everything; no opinion on other users."""

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        """Allow members of the group."""
        return _ALLOWED if MASTERS in attributes.user.groups else _NO_OPINION


class UnionAuthorizer:
    """Several authorizers in order: the first allow or deny decides."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def __repr__(self) -> str:
        return f"<UnionAuthorizer of {', '.join(map(repr, self._authorizers))}>"

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        """See the class; without an opinion, the decision joins all reasons and errors."""
        reasons: list[str] = []
        errors: list[str] = []
        for authorizer in self._authorizers:
            decision = await authorizer.authorize(attributes)
            if decision.allowed or decision.denied:
                return decision
            reasons += [decision.reason] if decision.reason else []
            errors += [decision.error] if decision.error else []
        return Decision(allowed=False, reason="\n".join(reasons), error=", ".join(errors))

    async def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        """Return the rules of all authorizers that can list them."""
        answers = [await a.rules_for(user, namespace) for a in self._authorizers if isinstance(a, RuleResolver)]
        return ResolvedRules(
            rules=[rule for rules in answers for rule in rules.rules],
            incomplete=any(rules.incomplete for rules in answers),
            error=", ".join(rules.error for rules in answers if rules.error),
        )


PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")


def is_public(path: str) -> bool:
    """Report whether a path needs no authentication: health and version."""
    return any(path == p or path.startswith(f"{p}/") for p in PUBLIC_PATHS)


class AllowAuthenticated:
    """Allows authenticated users everything, and anonymous ones health and version."""

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        if UNAUTHENTICATED not in attributes.user.groups:
            return Decision(allowed=True)
        public = not attributes.resource_request and attributes.verb == "get" and is_public(attributes.path)
        return Decision(allowed=public)
