"""Redirects and ``Retry-After`` of webhook calls. Pure.

Upstream: k8s.io/client-go/rest/with_retry.go (v1.36).
"""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import msgspec

from opsdk.apimachinery.integers import parse_int
from opsdk.apiserver.webhook_client.endpoint import ClientConfigTarget

MAX_HOPS = 10
"""Most requests of one call, as a limit for redirects."""
MAX_RETRIES = 10
"""Most retries after ``Retry-After``."""
_AS_GET = frozenset({301, 302, 303})
_AS_BEFORE = frozenset({307, 308})


class RedirectError(Exception):
    """A redirect that cannot be followed.

    Attributes:
        url: the URL in the error message.
    """

    def __init__(self, url: str, text: str) -> None:
        super().__init__(text)
        self.url = url


class Redirect(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a call.

    Attributes:
        service: namespace and name of the Service of the authority, if any.
        count: the number of previous requests.
    """

    method: str
    authority: str
    host: str
    port: int
    target: str
    service: tuple[str, str] | None = None
    count: int = 0

    @property
    def url(self) -> str:
        """The URL in error messages."""
        return f"https://{self.authority}{self.target}"


def first_hop(target: ClientConfigTarget, timeout: int) -> Redirect:
    """Return the first request of a ``clientConfig``; `timeout` is in seconds."""
    return Redirect(
        method="POST",
        authority=target.authority,
        host=target.host,
        port=target.port,
        target=target.target(timeout),
        service=target.service,
    )


def next_hop(hop: Redirect, status: int, location: str) -> Redirect | None:
    """Return the request that a redirect leads to; None if the response is final.

    >>> hop = Redirect(method="POST", authority="a:1", host="a", port=1, target="/x")
    >>> next_hop(hop, 307, "/y").url
    'https://a:1/y'
    """
    if not location or status not in _AS_GET | _AS_BEFORE:
        return None
    if hop.count + 1 >= MAX_HOPS:
        raise RedirectError(location, f"stopped after {MAX_HOPS} redirects")
    try:
        url = urlsplit(urljoin(hop.url, location))
        host, port = url.hostname or "", url.port or 443
    except ValueError as error:
        raise RedirectError(hop.url, f'failed to parse Location header "{location}": {error}') from None
    if url.scheme != "https" or not host:
        raise RedirectError(url.geturl(), "redirected to what is not an https address")
    return Redirect(
        method=hop.method if status in _AS_BEFORE else "GET",
        authority=url.netloc,
        host=host,
        port=port,
        target=(url.path or "/") + (f"?{url.query}" if url.query else ""),
        service=hop.service if url.netloc == hop.authority else None,
        count=hop.count + 1,
    )


def retry_delay(status: int, retry_after: str, attempts: int) -> int | None:
    """Return the seconds until the next attempt; None if the response is final.

    >>> retry_delay(503, "2", 0), retry_delay(503, "", 0), retry_delay(404, "2", 0), retry_delay(429, "0", 10)
    (2, None, None, None)
    """
    asks = status == 429 or status >= 500
    seconds = parse_int(retry_after)
    return None if not asks or attempts >= MAX_RETRIES or seconds is None else max(seconds, 0)
