"""Reads the bearer token of a request, or the login cookie of a browser.

Upstream: github.com/rancher/norman has none; Rancher reads the cookie R_SESS. RFC 6265bis section 4.1.3 (prefixes)
"""

from __future__ import annotations

from opsdk.http.server.request import HttpRequest
from opsdk.norman.origin import cookie_of, set_cookie, uses_https

TOKEN_COOKIE = "norman-token"  # noqa: S105 - the name of a cookie
"""The cookie of the login without TLS."""

# Browsers accept a cookie with this prefix only over HTTPS, and only from this host.
_STRICT_COOKIE = f"__Host-{TOKEN_COOKIE}"


def bearer_token(request: HttpRequest) -> str:
    """Return the token of the Authorization header; empty for none."""
    scheme, _, token = request.header("authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def token_of(request: HttpRequest) -> str:
    """Return the token of the Authorization header, or the one that the login stored; empty for none.

    Over HTTPS only the cookie with the prefix ``__Host-`` counts: pages that are served without TLS, or by another host
    of the domain, can set the other one.
    """
    token = bearer_token(request) or cookie_of(request, _STRICT_COOKIE)
    return token if token or uses_https(request) else cookie_of(request, TOKEN_COOKIE)


def login_cookie(request: HttpRequest, token: str) -> str:
    """Return the ``Set-Cookie`` header that stores a token in the browser of a request; an empty token signs out."""
    name = _STRICT_COOKIE if uses_https(request) else TOKEN_COOKIE
    expiry = () if token else ("Max-Age=0",)
    return set_cookie(request, name, token, "HttpOnly", "SameSite=Strict", *expiry)
