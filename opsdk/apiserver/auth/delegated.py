"""Delegated authentication and authorization with TokenReview and SubjectAccessReview.

Upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/webhook, plugin/pkg/authorizer/webhook (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.api.authentication.v1 import UserInfo
from opsdk.api.authorization.v1 import NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec
from opsdk.apiserver.auth.authentication import Authenticated
from opsdk.apiserver.auth.authorization import AuthorizerAttributes, Decision, is_public
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.errors import OpsdkError, UnauthorizedError
from opsdk.rbac.delegated import DelegatedAuth

__all__ = ["DelegatedAuthorizer", "DelegatedTokens"]


class DelegatedTokens:
    """Bearer tokens, checked by a ``TokenReview``; see `TokenChecker`."""

    def __init__(self, auth: DelegatedAuth) -> None:
        self._auth = auth

    async def check(self, token: str, audiences: Sequence[str]) -> Authenticated | None:
        try:
            status = await self._auth.review_token(token, audiences)
        except (OpsdkError, TimeoutError) as error:
            raise UnauthorizedError(f"the token cannot be checked: {error}") from error
        if status.authenticated:
            return Authenticated(user_of_info(status.user), tuple(status.audiences))
        if status.error:
            raise UnauthorizedError(status.error)
        return None


def user_of_info(info: UserInfo) -> User:
    """Return the user that a TokenReview names."""
    extra = {name: tuple(values) for name, values in info.extra.items()}
    return User(name=info.username or "", uid=info.uid or "", groups=tuple(info.groups), extra=extra)


class DelegatedAuthorizer:
    """Authorizes by ``SubjectAccessReview``. Public paths and ``system:masters`` are always allowed."""

    def __init__(self, auth: DelegatedAuth) -> None:
        self._auth = auth

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        if MASTERS in attributes.user.groups or (not attributes.resource_request and is_public(attributes.path)):
            return Decision(allowed=True)
        try:
            status = await self._auth.review_access(access_of(attributes))
        except (OpsdkError, TimeoutError) as error:
            return Decision(allowed=False, error=str(error))
        return Decision(
            allowed=status.allowed,
            reason=status.reason or "",
            denied=bool(status.denied),
            error=status.evaluation_error or "",
        )


def access_of(attributes: AuthorizerAttributes) -> SubjectAccessReviewSpec:
    """Return the ``spec`` of a SubjectAccessReview."""
    user = attributes.user
    extra = {name: list(values) for name, values in user.extra.items()}
    spec = SubjectAccessReviewSpec(user=user.name, uid=user.uid, groups=list(user.groups), extra=extra)
    if attributes.resource_request:
        spec.resource_attributes = ResourceAttributes(
            namespace=attributes.namespace,
            verb=attributes.verb,
            group=attributes.group,
            version=attributes.version,
            resource=attributes.resource,
            subresource=attributes.subresource,
            name=attributes.name,
        )
    else:
        spec.non_resource_attributes = NonResourceAttributes(path=attributes.path, verb=attributes.verb)
    return spec
