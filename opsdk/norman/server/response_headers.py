"""Headers that keep a response out of caches, and what it contains away from the origin of the page.

Upstream: none; Rancher serves the responses of handlers with the power of its own pages.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.http.server.response import HttpResponse, UpgradeResponse

# Every response depends on permissions and on the current state.
_API_HEADERS = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))
# A sandboxed document has an origin of its own, and runs no scripts.
_FOREIGN_HEADERS = (*_API_HEADERS, ("content-security-policy", "sandbox"))


def protect(response: HttpResponse) -> HttpResponse:
    """Add ``no-store`` and ``nosniff`` to a response of the API. Headers that it already has stay."""
    return _add_missing(response, _API_HEADERS)


def protect_foreign(response: HttpResponse) -> HttpResponse:
    """Add the headers of `protect`, and a sandbox for content of a handler that sets no Content-Security-Policy."""
    return _add_missing(response, _FOREIGN_HEADERS)


def _add_missing(response: HttpResponse, headers: Sequence[tuple[str, str]]) -> HttpResponse:
    if not isinstance(response, UpgradeResponse):
        names = {name.lower() for name, _ in response.headers}
        response.headers.extend(header for header in headers if header[0] not in names)
    return response
