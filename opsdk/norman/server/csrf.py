"""CSRF protection: a cookie that only pages of this origin can copy into a header.

Upstream: github.com/rancher/norman/api/validate.go, parse/browser.go
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie

from opsdk.http.server.request import HttpRequest
from opsdk.norman.codes import ErrorCode

COOKIE = "CSRF"
HEADER = "x-api-csrf"


def is_browser(request: HttpRequest, *, check_accept: bool) -> bool:
    """Whether a browser sent the request: its user agent has ``Mozilla``.

    Args:
        request: the request.
        check_accept: also require that it accepts every type, as for a page.
    """
    accept = request.header("accept").lower() or "*/*"
    return "mozilla" in request.header("user-agent").lower() and (not check_accept or "*/*" in accept)


def check_csrf(request: HttpRequest, method: str, *, secure: bool) -> str:
    """Return a ``Set-Cookie`` header for a browser that has no token yet, or an empty text.

    Args:
        request: the request.
        method: after ``_method`` and ``?action=remove``.
        secure: the browser uses HTTPS.

    Raises:
        NormanError: InvalidCSRFToken; a write of a browser does not repeat its token in the header or the query.
    """
    if not is_browser(request, check_accept=False):
        return ""
    try:
        cookies = SimpleCookie(request.header("cookie"))
    except CookieError as error:
        raise ErrorCode.INVALID_CSRF_TOKEN.error("Failed to parse cookies") from error
    token = cookies[COOKIE].value if COOKIE in cookies else ""
    if method not in ("GET", "HEAD"):
        repeated = request.header(HEADER) or request.query.get(COOKIE)
        if not token or not hmac.compare_digest(token.encode(), repeated.encode()):
            raise ErrorCode.INVALID_CSRF_TOKEN.error("Invalid CSRF token")
    if token:
        return ""
    # Not HttpOnly: the page reads it. Lax, so that links from other pages send it.
    return f"{COOKIE}={secrets.token_hex(16)}; Path=/; SameSite=Lax{'; Secure' if secure else ''}"


def check_origin(request: HttpRequest, *hosts: str) -> None:
    """Reject a WebSocket handshake of another origin, because browsers send cookies with it.

    Args:
        request: the handshake; clients other than browsers send no ``Origin``.
        hosts: names, with ports, that clients know this server by.

    Raises:
        NormanError: PermissionDenied.
    """
    origin = request.header("origin")
    if origin and origin.partition("://")[2].lower() not in {host.lower() for host in hosts}:
        raise ErrorCode.PERMISSION_DENIED.error(f"the origin {origin} may not subscribe to this server")
