"""Every exception of opsdk, in one tree.

::

    OpsdkError
    ├── ApiError                  the server said no; one subclass per reason
    │   ├── BadRequestError           400
    │   ├── UnauthorizedError         401
    │   ├── ForbiddenError            403
    │   ├── NotFoundError             404
    │   ├── MethodNotAllowedError     405
    │   ├── NotAcceptableError        406
    │   ├── ConflictError             409  the object was modified
    │   ├── AlreadyExistsError        409
    │   ├── GoneError                 410  reasons Gone and Expired
    │   ├── TooLargeError             413
    │   ├── UnsupportedMediaTypeError 415
    │   ├── InvalidError              422
    │   ├── TooManyRequestsError      429
    │   ├── InternalServerError       500
    │   ├── ServiceUnavailableError   503
    │   └── ServerTimeoutError        504 and reason ServerTimeout
    ├── TransportError            no answer
    │   ├── ConnectError              nobody listens, DNS, refused
    │   ├── ConnectionLostError       cut in the middle
    │   ├── TlsError                  certificate not trusted or not ours
    │   └── DeadlineError             no answer in time
    ├── CodecError                cannot understand
    │   ├── DecodeError               bytes that are no such object
    │   └── EncodeError               an object that has no wire form
    ├── NoMatchError              the server does not serve this kind
    ├── SchemeError               this type or kind is not registered, or twice
    ├── ConfigError               kubeconfig, token or certificate is unusable
    ├── PatchError                a patch that cannot be applied
    ├── CacheError                a cached read cannot be answered
    │   ├── CacheNotStartedError
    │   ├── NotCachedError
    │   ├── UnknownNamespaceError
    │   └── CacheSyncError            not synced in time; carries why
    ├── CelError                  an expression of the Common Expression Language
    │   ├── CelCompileError           does not parse or does not fit its declarations; says where
    │   └── CelEvaluationError        has no value with these variables
    │       └── CelBudgetError            would cost more than it may
    ├── AlreadyOwnedError         another controller owns the object
    ├── LeaderElectionLostError   this process must stop writing
    ├── ShutdownTimeoutError      something did not stop in time
    ├── UsageError                the caller's mistake; fix the code
    └── TerminalError             raised by a reconciler: do not retry

Each carries what the caller needs next: ``retryable`` says whether the same call may succeed later,
``retry_after`` how many seconds the server asked to wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class OpsdkError(Exception):
    """The root of the tree."""

    retryable: ClassVar[bool] = False


# ------------------------------------------------------------------ the server said no
@dataclass(frozen=True, slots=True)
class Cause:
    """One reason inside a failed answer, e.g. one invalid field."""

    reason: str = ""
    message: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The ``details`` of a failed answer.

    ``kind`` holds the plural resource for most reasons and the kind for ``Invalid``, as on the wire.
    """

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: Sequence[Cause] = ()
    retry_after_seconds: int = 0


class ApiError(OpsdkError):
    """The server answered, and the answer is no.

    ``code`` is the HTTP status, ``reason`` the machine-readable word, ``retry_after`` seconds or None.
    """

    default_code: ClassVar[int] = 500
    default_reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str = "",
        *,
        code: int | None = None,
        reason: str | None = None,
        details: Details | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.message = message
        self.code = self.default_code if code is None else code
        self.reason = self.default_reason if reason is None else reason
        self.details = details or Details()
        from_details = self.details.retry_after_seconds or None
        self.retry_after = retry_after if retry_after is not None else from_details
        super().__init__(message or self.reason or f"HTTP {self.code}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code} {self.reason}: {self.message})"


class BadRequestError(ApiError):
    """400: the request makes no sense to the server."""

    default_code, default_reason = 400, "BadRequest"


class UnauthorizedError(ApiError):
    """401: the credentials are missing, wrong or expired."""

    default_code, default_reason = 401, "Unauthorized"


class ForbiddenError(ApiError):
    """403: known, but not allowed (RBAC, or admission said no)."""

    default_code, default_reason = 403, "Forbidden"


class NotFoundError(ApiError):
    """404: no such object, or no such resource."""

    default_code, default_reason = 404, "NotFound"


class MethodNotAllowedError(ApiError):
    """405: the resource has no such verb."""

    default_code, default_reason = 405, "MethodNotAllowed"


class NotAcceptableError(ApiError):
    """406: no answer format that the client accepts."""

    default_code, default_reason = 406, "NotAcceptable"


class ConflictError(ApiError):
    """409: the object was modified since it was read, or a precondition or field owner is in the way."""

    default_code, default_reason = 409, "Conflict"


class AlreadyExistsError(ApiError):
    """409: an object of this name is there already."""

    default_code, default_reason = 409, "AlreadyExists"


class GoneError(ApiError):
    """410: the resource version or continue token is too old; list again."""

    default_code, default_reason = 410, "Expired"


class TooLargeError(ApiError):
    """413: the request body exceeds the server's limit."""

    default_code, default_reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaTypeError(ApiError):
    """415: the server does not read this content type here."""

    default_code, default_reason = 415, "UnsupportedMediaType"


class InvalidError(ApiError):
    """422: understood, but the object is not valid; ``details.causes`` names the fields."""

    default_code, default_reason = 422, "Invalid"


class TooManyRequestsError(ApiError):
    """429: slow down; ``retry_after`` says for how long."""

    default_code, default_reason = 429, "TooManyRequests"
    retryable = True


class InternalServerError(ApiError):
    """500: the server failed."""

    default_code, default_reason = 500, "InternalError"
    retryable = True


class ServiceUnavailableError(ApiError):
    """503: not now."""

    default_code, default_reason = 503, "ServiceUnavailable"
    retryable = True


class ServerTimeoutError(ApiError):
    """504 Timeout, or 500 ServerTimeout: the server gave up waiting."""

    default_code, default_reason = 504, "Timeout"
    retryable = True


_BY_REASON: Mapping[str, type[ApiError]] = {
    "BadRequest": BadRequestError,
    "Unauthorized": UnauthorizedError,
    "Forbidden": ForbiddenError,
    "NotFound": NotFoundError,
    "MethodNotAllowed": MethodNotAllowedError,
    "NotAcceptable": NotAcceptableError,
    "Conflict": ConflictError,
    "AlreadyExists": AlreadyExistsError,
    "Gone": GoneError,
    "Expired": GoneError,
    "RequestEntityTooLarge": TooLargeError,
    "UnsupportedMediaType": UnsupportedMediaTypeError,
    "Invalid": InvalidError,
    "TooManyRequests": TooManyRequestsError,
    "InternalError": InternalServerError,
    "ServiceUnavailable": ServiceUnavailableError,
    "Timeout": ServerTimeoutError,
    "ServerTimeout": ServerTimeoutError,
}

_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    406: NotAcceptableError,
    409: ConflictError,
    410: GoneError,
    413: TooLargeError,
    415: UnsupportedMediaTypeError,
    422: InvalidError,
    429: TooManyRequestsError,
    500: InternalServerError,
    503: ServiceUnavailableError,
    504: ServerTimeoutError,
}


def api_error_type(reason: str, code: int) -> type[ApiError]:
    """The class for a reason, else for an HTTP code, else ``ApiError`` itself."""
    return _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)


def api_error_from_status(status: Mapping[str, Any], *, code: int = 0, retry_after: float | None = None) -> ApiError:
    """The typed error for a ``Status`` object; `code` is the HTTP status, used where the object names none.

    Tolerates any JSON: wrongly typed parts are ignored, because an unreadable error must not hide the error.
    """

    def text(source: Mapping[str, Any], key: str) -> str:
        value = source.get(key)
        return value if isinstance(value, str) else ""

    def number(source: Mapping[str, Any], key: str) -> int:
        value = source.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    raw = status.get("details")
    raw_details: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    listed = raw_details.get("causes")
    causes = tuple(
        Cause(reason=text(c, "reason"), message=text(c, "message"), field=text(c, "field"))
        for c in (listed if isinstance(listed, list) else ())
        if isinstance(c, Mapping)
    )
    details = Details(
        name=text(raw_details, "name"),
        group=text(raw_details, "group"),
        kind=text(raw_details, "kind"),
        uid=text(raw_details, "uid"),
        causes=causes,
        retry_after_seconds=number(raw_details, "retryAfterSeconds"),
    )
    code = number(status, "code") or code
    reason = text(status, "reason")
    return api_error_type(reason, code)(
        text(status, "message"), code=code, reason=reason, details=details, retry_after=retry_after
    )


# ------------------------------------------------------------------ no answer
class TransportError(OpsdkError):
    """No answer came; whether the server did the work is unknown unless the subclass says otherwise."""

    retryable = True


class ConnectError(TransportError):
    """No connection could be made: the request was certainly not processed."""


class ConnectionLostError(TransportError):
    """The connection broke after the request may have been sent."""


class TlsError(TransportError):
    """The TLS handshake failed: check the CA bundle, the server name and the client certificate."""

    retryable = False


class DeadlineError(TransportError):
    """The deadline of the call passed before an answer came."""


# ------------------------------------------------------------------ cannot understand
class CodecError(OpsdkError):
    """Bytes and objects do not fit together."""


class DecodeError(CodecError):
    """These bytes are no such object; the message names the path inside it."""


class EncodeError(CodecError):
    """This object has no wire form; the message names the path inside it."""


class NoMatchError(OpsdkError):
    """The server does not serve this kind: install its CRD, or correct group, version or kind."""

    retryable = True


class SchemeError(OpsdkError):
    """A type or kind is not registered in the scheme, or registered for something else."""


class ConfigError(OpsdkError):
    """Configuration that cannot be used; the message names the file and the entry."""


class PatchError(OpsdkError):
    """A patch that does not fit the document; `path` is where."""

    def __init__(self, message: str, *, path: str = "") -> None:
        self.path = path
        super().__init__(message)


# ------------------------------------------------------------------ the cache
class CacheError(OpsdkError):
    """A cached read cannot be answered."""


class CacheNotStartedError(CacheError):
    """The cache is not started: add it to a manager, or start it, before reading."""


class NotCachedError(CacheError):
    """This kind has no informer, and the cache is configured not to start one on a read."""


class UnknownNamespaceError(CacheError):
    """The cache does not watch this namespace."""


class CacheSyncError(CacheError):
    """An informer did not sync in time; `__cause__` holds its last list or watch error."""

    retryable = True


# ------------------------------------------------------------------ the rest
class CelError(OpsdkError):
    """An expression of the Common Expression Language is wrong, or goes wrong."""


class CelCompileError(CelError):
    """The expression does not parse, or does not fit its declarations; the message shows where."""


class CelEvaluationError(CelError):
    """The expression has no value with these variables, e.g. because a key is missing."""


class CelBudgetError(CelEvaluationError):
    """The evaluation would cost more than it may."""


class AlreadyOwnedError(OpsdkError):
    """Another controller is the controlling owner of the object."""


class LeaderElectionLostError(OpsdkError):
    """The lease was lost: this process must not write any more."""


class ShutdownTimeoutError(OpsdkError):
    """Something did not stop within the grace period; the message names it."""


class UsageError(OpsdkError):
    """A mistake in the calling code."""


class TerminalError(OpsdkError):
    """Raised by a reconciler: retrying cannot help, so the request is dropped until its object changes.

    >>> raise TerminalError("spec.image is not a valid reference")
    Traceback (most recent call last):
    ...
    opsdk.errors.TerminalError: spec.image is not a valid reference
    """
