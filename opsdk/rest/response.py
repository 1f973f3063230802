"""Responses as values: the typed error, ``Retry-After``, warnings.

Upstream: k8s.io/client-go/rest/request.go, k8s.io/apimachinery/pkg/api/errors/errors.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from opsdk.errors import ApiError, Cause, Details, TransportError, api_error_from_status, api_error_type
from opsdk.rest.request import RestRequest
from opsdk.structured_merge.value import JSON_ERRORS

# Bytes of a response without Status to quote: proxies return whole HTML pages.
_MAX_QUOTED = 2048


class RestResponse(msgspec.Struct, frozen=True, gc=False):
    """A complete response. Header names are lower case; repeated headers are joined with ``, ``."""

    status: int
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""

    def __repr__(self) -> str:
        return f"RestResponse({self.status}, {len(self.body)} bytes)"  # the body may hold secrets

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case.

        >>> RestResponse(200, {"content-type": "application/json;g=x"}).content_type
        'application/json'
        """
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


# ------------------------------------------------------------------ errors
# Reason and message for a response without a Status object (NewGenericServerResponse). Tools match these strings.
_GENERIC_REASONS: Mapping[int, tuple[str, str]] = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", ""),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: ("NotAcceptable", ""),
    409: ("Conflict", "the server reported a conflict"),
    413: ("RequestEntityTooLarge", "the request body is larger than the server accepts"),
    415: ("UnsupportedMediaType", ""),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}
_CONTENT_TYPE_MESSAGE = "the server was unable to respond with a content type that the client supports"


def raise_for_status(response: RestResponse, request: RestRequest, *, now: datetime | None = None) -> None:
    """Raise the typed error of a response that is not 2xx, or that is a ``Status`` with the status ``Failure``.

    `now` is needed only if ``Retry-After`` is a date and the response has no ``Date``.
    """
    # The search costs no call, and is False for nearly every body.
    if not 200 <= response.status < 300 or (b'"Failure"' in response.body and _is_failure(response.body)):
        raise error_from_response(response, request, now=now)


class _Outcome(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: object = None


def _is_failure(body: bytes) -> bool:
    """Whether a body is a failed Status: a proxy, or an aggregated server, may send one with HTTP 200."""
    try:
        outcome = msgspec.json.decode(body, type=_Outcome)
    except JSON_ERRORS:
        return False
    return (outcome.kind, outcome.api_version, outcome.status) == ("Status", "v1", "Failure")


def error_from_response(response: RestResponse, request: RestRequest, *, now: datetime | None = None) -> ApiError:
    """Return the typed error of a failed response: from its ``Status``, else from the HTTP status."""
    wait = retry_after(response, now=now)
    if response.body.lstrip().startswith(b"{"):
        try:
            status = msgspec.json.decode(response.body)
        except JSON_ERRORS:
            status = None
        if isinstance(status, dict) and status.get("kind") == "Status":
            code = 500 if response.ok else response.status
            return api_error_from_status(status, code=code, retry_after=wait, request=request.info)
    text = _UNKNOWN
    if not response.content_type or response.content_type.startswith("text/"):
        text = response.body[:_MAX_QUOTED].decode(errors="replace").strip() or _UNKNOWN
    reason, message = _generic_reason(response.status, text, request.method)
    if request.resource:
        what = f"{request.resource}.{request.group}" if request.group else request.resource
        described = " ".join(part for part in (request.method.lower(), what, request.name) if part)
        message = f"{message} ({described})"
    details = Details(
        name=request.name,
        group=request.group,
        kind=request.resource,
        causes=(Cause(reason=_FOREIGN, message=text),),
        retry_after_seconds=int(wait or 0),
    )
    kind = api_error_type(reason, response.status)
    return kind(message, code=response.status, reason=reason, details=details, retry_after=wait, request=request.info)


_UNKNOWN: Final = "unknown"
_FOREIGN: Final = "UnexpectedServerResponse"
_NO_UPGRADE: Final = frozenset({405, 426, 501})
"""What only a proxy answers to an upgrade."""
_REFUSED: Final = frozenset({400, 403})
"""What a proxy answers with a page or nothing. A plain text may be of the kubelet, which the API server passes on."""
NO_WEBSOCKET: Final = "no WebSocket was opened; a proxy or load balancer before the API server must let them pass"


def websocket_error(error: ApiError) -> TransportError | None:
    """Return the error of a WebSocket that something before the API server refused; None if the server itself did.

    Upstream: k8s.io/apimachinery/pkg/util/httpstream/httpstream.go, UpgradeFailureError (v1.36)
    """
    text = next((cause.message for cause in error.details.causes if cause.reason == _FOREIGN), None)
    is_page = text is not None and (text == _UNKNOWN or text.startswith("<"))
    is_proxy = (error.code in _NO_UPGRADE and text is not None) or (error.code in _REFUSED and is_page)
    # The server itself says so if the header of the request did not reach it.
    if is_proxy or "Upgrade request required" in error.message:
        return TransportError(f"{NO_WEBSOCKET}: HTTP {error.code}: {error.message}")
    return None


def _generic_reason(code: int, text: str, method: str) -> tuple[str, str]:
    """Return reason and message for an HTTP status."""
    if code == 409 and method == "POST":
        return "AlreadyExists", _GENERIC_REASONS[409][1]
    if code in _GENERIC_REASONS:
        reason, message = _GENERIC_REASONS[code]
        return reason, message or (_CONTENT_TYPE_MESSAGE if text == _UNKNOWN and code in {406, 415} else text)
    if code >= 500:
        return "InternalError", f'an error on the server ("{text}") has prevented the request from succeeding'
    return "", f"the server responded with the status code {code} but did not return more information"


# ------------------------------------------------------------------ Retry-After
def retry_after(response: RestResponse, *, now: datetime | None = None) -> float | None:
    """Return the seconds of ``Retry-After``, a number or a date; None if it is absent or unreadable.

    They are at most `ApiError.max_retry_after`. A date is relative to the response's ``Date``, else to `now`.

    >>> retry_after(RestResponse(429, {"retry-after": "7"}))
    7.0
    """
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), ApiError.max_retry_after)
    until = _parse_date(value)
    start = _parse_date(response.headers.get("date", "")) or now
    if until is None or start is None:
        return None
    return min(max((until - start).total_seconds(), 0.0), ApiError.max_retry_after)


def _parse_date(value: str) -> datetime | None:
    if not value:
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - start-up time: few answers have such a date

    try:
        parsed = parsedate_to_datetime(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


# ------------------------------------------------------------------ warnings
class Warning299(msgspec.Struct, frozen=True):
    """One warning from the server: from admission, or about a deprecated API."""

    text: str
    agent: str = ""


# Code, agent, quoted text, and an optional quoted date.
_WARNING = re.compile(r'\s*(\d{3})\s+(\S+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"[^"]*")?\s*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")


def parse_warnings(response: RestResponse) -> list[Warning299]:
    """Return the warnings with code 299, in order. Parsing stops at the first malformed warning.

    >>> parse_warnings(RestResponse(200, {"warning": '299 - "v1beta1 is deprecated"'}))
    [Warning299(text='v1beta1 is deprecated', agent='-')]
    """
    header, warnings, position = response.headers.get("warning"), [], 0
    if not header:
        return []
    while match := _WARNING.match(header, position):
        if match[1] == "299":
            warnings.append(Warning299(text=_ESCAPED.sub(r"\1", match[3]), agent=match[2]))
        position = match.end()
    return warnings
