"""Answers as values: the typed error, the wait the server asked for, its warnings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from opsdk.errors import ApiError, Cause, Details, api_error_from_status, api_error_type
from opsdk.rest.request import RestRequest
from opsdk.structured_merge.value import JsonValue

# An unreadable answer is quoted up to here; servers have been seen to answer with whole HTML pages.
_MAX_QUOTED = 2048


@dataclass(frozen=True, slots=True)
class RestResponse:
    """A whole answer. Header names are lower case; repeated ones are joined with ``, ``."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)

    @property
    def content_type(self) -> str:
        """The media type without parameters, lower case.

        >>> RestResponse(200, {"content-type": "application/json;g=x"}).content_type
        'application/json'
        """
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def ok(self) -> bool:
        """Whether the status is a 2xx."""
        return 200 <= self.status < 300


# ------------------------------------------------------------------ errors
# The words of a client-go error for an answer without a Status object, so that tools which read them keep working.
_GENERIC: Mapping[int, tuple[str, str]] = {
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
_NO_FORMAT = "the server was unable to respond with a content type that the client supports"


def raise_for_status(response: RestResponse, request: RestRequest, *, now: datetime | None = None) -> None:
    """Raise the typed error of any answer but a 2xx.

    `now` is needed only where ``Retry-After`` is a date and the answer names none itself.
    """
    if not response.ok:
        raise error_from_response(response, request, now=now)


def error_from_response(response: RestResponse, request: RestRequest, *, now: datetime | None = None) -> ApiError:
    """The typed error of a failed answer: the server's ``Status``, else one made from the HTTP status."""
    wait = retry_after(response, now=now)
    status = _status_object(response.body)
    if status is not None:
        return api_error_from_status(status, code=response.status, retry_after=wait)
    return _generic_error(response, request, wait)


def _status_object(body: bytes) -> Mapping[str, JsonValue] | None:
    """The ``Status`` in `body`, if it is one."""
    if not body.lstrip().startswith(b"{"):
        return None
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) and value.get("kind") == "Status" else None


def _generic_error(response: RestResponse, request: RestRequest, wait: float | None) -> ApiError:
    text = _server_text(response)
    reason, message = _generic_words(response.status, text, request.method)
    if request.resource:
        what = f"{request.resource}.{request.group}" if request.group else request.resource
        described = " ".join(part for part in (request.method.lower(), what, request.name) if part)
        message = f"{message} ({described})"
    details = Details(
        name=request.name,
        group=request.group,
        kind=request.resource,
        causes=(Cause(reason="UnexpectedServerResponse", message=text),),
        retry_after_seconds=int(wait or 0),
    )
    kind = api_error_type(reason, response.status)
    return kind(message, code=response.status, reason=reason, details=details, retry_after=wait)


def _server_text(response: RestResponse) -> str:
    """What a plain-text answer says, else ``unknown``."""
    if response.content_type and not response.content_type.startswith("text/"):
        return "unknown"
    return response.body[:_MAX_QUOTED].decode(errors="replace").strip() or "unknown"


def _generic_words(code: int, said: str, method: str) -> tuple[str, str]:
    """Reason and message for a bare HTTP status."""
    if code == 409 and method == "POST":
        return "AlreadyExists", _GENERIC[409][1]
    if code in _GENERIC:
        reason, message = _GENERIC[code]
        return reason, message or (_NO_FORMAT if said == "unknown" and code in {406, 415} else said)
    if code >= 500:
        return "InternalError", f'an error on the server ("{said}") has prevented the request from succeeding'
    return "", f"the server responded with the status code {code} but did not return more information"


# ------------------------------------------------------------------ Retry-After
def retry_after(response: RestResponse, *, now: datetime | None = None) -> float | None:
    """The seconds in ``Retry-After``, which may be a number or a date; None where it is absent or unreadable.

    A date is measured from the answer's own ``Date``, else from `now`.

    >>> retry_after(RestResponse(429, {"retry-after": "7"}))
    7.0
    """
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    until = _date(value)
    start = _date(response.headers.get("date", "")) or now
    if until is None or start is None:
        return None
    return max(0.0, (until - start).total_seconds())


def _date(value: str) -> datetime | None:
    if not value:
        return None
    try:
        parsed = parsedate_to_datetime(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


# ------------------------------------------------------------------ warnings
@dataclass(frozen=True, slots=True)
class Warning299:
    """One warning of the server, as admission and deprecations send it."""

    text: str
    agent: str = ""


# code, agent, quoted text, and perhaps a quoted date.
_WARNING = re.compile(r'\s*(\d{3})\s+(\S+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"[^"]*")?\s*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")


def parse_warnings(response: RestResponse) -> list[Warning299]:
    """The warnings with code 299, in order; unreadable rest is dropped, for it must not fail a good answer.

    >>> warnings_of(RestResponse(200, {"warning": '299 - "v1beta1 is deprecated"'}))
    [Warning299(text='v1beta1 is deprecated', agent='-')]
    """
    header, warnings, position = response.headers.get("warning", ""), [], 0
    while match := _WARNING.match(header, position):
        if match[1] == "299":
            warnings.append(Warning299(text=_ESCAPED.sub(r"\1", match[3]), agent=match[2]))
        position = match.end()
    return warnings
