"""CSRF protection: a cookie that only pages of this origin can copy into a header.

Upstream: github.com/rancher/norman/api/validate.go, parse/browser.go
Deviates: norman recognizes browsers by their user agent, and accepts any value that cookie and header share. Here every
write is checked, unless it has a bearer token or no sign of a browser. The token belongs to the session.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from opsdk.http.server.request import HttpRequest
from opsdk.norman.codes import ErrorCode
from opsdk.norman.origin import check_origin, cookie_of, set_cookie
from opsdk.norman.tokens import bearer_token, token_of

COOKIE = "CSRF"
_HEADER = "x-api-csrf"

_NONCE_LENGTH = 32
_READS = ("GET", "HEAD")
# A browser sends one of these with each write: Origin with a write from a page of another origin, the second one to
# secure hosts, the third with its session.
_BROWSER_HEADERS = ("origin", "sec-fetch-site", "cookie")


def is_browser(request: HttpRequest, *, check_accept: bool) -> bool:
    """Whether a browser sent the request: its user agent has ``Mozilla``.

    Args:
        request: the request.
        check_accept: also require that it accepts every type, as for a page.
    """
    accept = request.header("accept").lower() or "*/*"
    return "mozilla" in request.header("user-agent").lower() and (not check_accept or "*/*" in accept)


def check_csrf(request: HttpRequest, method: str, *hosts: str) -> str:
    """Return a ``Set-Cookie`` header for a browser that has no token of its session yet, or an empty string.

    Pages of other origins cannot send a bearer token, so such requests need no CSRF token.

    Args:
        request: the request.
        method: after ``_method`` and ``?action=remove``.
        hosts: see `check_origin`.

    Raises:
        NormanError: InvalidCSRFToken; a write does not repeat the token of its session in the header or the query.
            PermissionDenied; it comes from a page of another origin.
    """
    if bearer_token(request):
        return ""
    if not is_browser(request, check_accept=False) and not any(map(request.header, _BROWSER_HEADERS)):
        return ""
    token = cookie_of(request, COOKIE)
    is_valid = _is_token_of(token, request)
    if method not in _READS:
        check_origin(request, *hosts)
        repeated = request.header(_HEADER) or request.query.get(COOKIE)
        if not is_valid or not hmac.compare_digest(token.encode(), repeated.encode()):
            raise ErrorCode.INVALID_CSRF_TOKEN.error("Invalid CSRF token")
    if is_valid:
        return ""
    nonce = secrets.token_hex(_NONCE_LENGTH // 2)
    # Not HttpOnly: the page reads it. Lax, so that links from other pages send it.
    return set_cookie(request, COOKIE, f"{nonce}{_signature(nonce, request)}", "SameSite=Lax")


def _is_token_of(token: str, request: HttpRequest) -> bool:
    signature = _signature(token[:_NONCE_LENGTH], request)
    return hmac.compare_digest(token[_NONCE_LENGTH:].encode(), signature.encode())


def _signature(nonce: str, request: HttpRequest) -> str:
    """Sign with the credentials of the session, so that every replica can check it without a key of its own."""
    session = token_of(request) or request.header("authorization")
    return hmac.new(session.encode(), nonce.encode(), hashlib.sha256).hexdigest()
