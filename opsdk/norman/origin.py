"""The origin that a browser sees: its scheme, its cookies, and the headers that name a page's origin.

Upstream: github.com/rancher/norman/api/validate.go, urlbuilder/url.go
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from opsdk.http.server.request import HttpRequest
from opsdk.norman.codes import ErrorCode

_SCHEMES = {"http": "http", "ws": "http", "https": "https", "wss": "https"}


def forwarded_scheme(request: HttpRequest) -> str:
    """Return ``http`` or ``https`` as the first proxy received the request: ``X-Forwarded-Proto``, or the connection's.

    A client that forges the header changes the links of its own response, which no cache keeps.
    """
    forwarded = request.header("x-forwarded-proto").partition(",")[0].strip().lower()
    return _SCHEMES.get(forwarded) or _SCHEMES.get(request.scheme, "http")


def uses_https(request: HttpRequest) -> bool:
    """Whether the browser uses HTTPS, on this connection or to a proxy that ends TLS.

    No trusted proxy is needed: pages of other origins cannot set these headers, and a client that forges them only
    makes its own cookies stricter.
    """
    return _has_tls(request) or request.header("origin").lower().startswith("https://")


def cookie_of(request: HttpRequest, name: str) -> str:
    """Return the unquoted value of a cookie, or an empty string. The first of several wins, as in browsers."""
    # http.cookies backtracks (CVE-2024-7592), and rejects all cookies if one of another program is not valid.
    # A search takes a tenth of the time of a split: a header may have a megabyte.
    text, begin = request.header("cookie"), -1
    while (begin := text.find(name, begin + 1)) >= 0:
        before, after = begin, begin + len(name)
        while before and text[before - 1].isspace():
            before -= 1
        while text[after : after + 1].isspace():
            after += 1
        if (not before or text[before - 1] == ";") and text[after : after + 1] == "=":
            return unquote(text[after + 1 :].partition(";")[0].strip())
    return ""


def set_cookie(request: HttpRequest, name: str, value: str, *attributes: str) -> str:
    """Return a ``Set-Cookie`` header for the browser of a request; ``Secure`` over HTTPS.

    >>> from opsdk.http.server.request import Query
    >>> request = HttpRequest("GET", "/", Query(), {"x-forwarded-proto": "https"}, receive=...)
    >>> set_cookie(request, "a", "x/y", "HttpOnly")
    'a=x%2Fy; Path=/; HttpOnly; Secure'
    """
    parts = [f"{name}={quote(value, safe='')}", "Path=/", *attributes]
    return "; ".join([*parts, "Secure"] if uses_https(request) else parts)


def check_origin(request: HttpRequest, *hosts: str) -> None:
    """Reject the request of a page of another origin, because browsers send cookies with it.

    Over HTTPS, a page that the same host serves without TLS is another origin. Clients other than browsers send no
    ``Origin``.

    Args:
        request: a write, or the handshake of a WebSocket.
        hosts: names, with ports, that clients know this server by, besides the header ``Host``.

    Raises:
        NormanError: PermissionDenied.
    """
    origin = request.header("origin").lower()
    # Without a header of its proxy, this server does not know that pages are served over HTTPS: both schemes count.
    schemes = ("https",) if _has_tls(request) else ("http", "https")
    names = {host.lower() for host in (request.header("host"), *hosts) if host}
    own = {f"{scheme}://{name}" for scheme in schemes for name in names}
    is_foreign_fetch = not origin and request.header("sec-fetch-site").lower() in ("cross-site", "same-site")
    if is_foreign_fetch or (origin and origin not in own):
        raise ErrorCode.PERMISSION_DENIED.error(f"a page of {origin or 'another site'} may not send this request")


def _has_tls(request: HttpRequest) -> bool:
    return "https" in (_SCHEMES.get(request.scheme), forwarded_scheme(request))
