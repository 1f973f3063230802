"""Reads the bearer token of a request, or the login cookie of a browser.

Upstream: none in github.com/rancher/norman; Rancher reads the cookie R_SESS. RFC 6265bis section 4.1.3 (prefixes)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from opsdk.api.authentication.v1 import UserInfo
from opsdk.errors import OpsdkError
from opsdk.http.server.request import HttpRequest
from opsdk.norman.codes import ErrorCode
from opsdk.norman.origin import cookie_of, set_cookie, uses_https
from opsdk.rbac.delegated import DelegatedAuth, ReviewClient

__all__ = ["token_review"]

Authenticator = Callable[[HttpRequest], Awaitable[UserInfo | None]]
"""Returns the user of a request, or None for an unknown user. May raise `NormanError` or `UnauthorizedError`."""

TOKEN_COOKIE = "norman-token"  # noqa: S105 - the name of a cookie
"""The cookie of the login without TLS."""

# A token that is revoked ends within this many seconds.
_TOKEN_SECONDS = 10.0
_MAX_TOKENS = 16_384
# Browsers accept a cookie with this prefix only over HTTPS, and only from this host.
_STRICT_COOKIE = f"__Host-{TOKEN_COOKIE}"


def bearer_token(request: HttpRequest) -> str:
    """Return the token of the Authorization header; empty for none."""
    scheme, _, token = request.header("authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def token_of(request: HttpRequest) -> str:
    """Return the token of the Authorization header, or the token that the login stored; empty for none.

    Over HTTPS only the cookie with the prefix ``__Host-`` counts: pages that are served without TLS, or by another host
    of the domain, can set the other cookie.
    """
    token = bearer_token(request) or cookie_of(request, _STRICT_COOKIE)
    return token if token or uses_https(request) else cookie_of(request, TOKEN_COOKIE)


def login_cookie(request: HttpRequest, token: str) -> str:
    """Return the ``Set-Cookie`` header that stores a token in the browser of a request; an empty token signs out."""
    name = _STRICT_COOKIE if uses_https(request) else TOKEN_COOKIE
    expiry = () if token else ("Max-Age=0",)
    return set_cookie(request, name, token, "HttpOnly", "SameSite=Strict", *expiry)


def token_review(client: ReviewClient) -> Authenticator:
    """Return an authenticator that uses TokenReviews, for bearer tokens and for browsers that signed in on a `WebPage`.

    The result of a review is cached for ten seconds. The user of `client` needs ``create`` on ``tokenreviews``.
    """
    reviews = DelegatedAuth(client, token_seconds=_TOKEN_SECONDS, max_cached=_MAX_TOKENS)

    async def authenticate(request: HttpRequest) -> UserInfo | None:
        token = token_of(request)
        if not token:
            return None
        try:
            return await reviews.user_of(token)
        except (OpsdkError, TimeoutError) as error:
            raise ErrorCode.CLUSTER_UNAVAILABLE.error("the token cannot be checked now") from error

    return authenticate
