"""Reads the bearer token of a request, or the login cookie of a browser.

Upstream: github.com/rancher/norman has none; Rancher reads the cookie R_SESS.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from urllib.parse import unquote

from opsdk.http.server.request import HttpRequest

TOKEN_COOKIE = "norman-token"  # noqa: S105 - the name of a cookie


def token_of(request: HttpRequest) -> str:
    """Return the token of the Authorization header, or the one that the login stored; empty for none."""
    scheme, _, token = request.header("authorization").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    try:
        cookies = SimpleCookie(request.header("cookie"))
    except CookieError:
        return ""
    return unquote(cookies[TOKEN_COOKIE].value) if TOKEN_COOKIE in cookies else ""
