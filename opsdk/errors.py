"""The exceptions of the runtime, and the root of all others.

::

    OpsdkError
    ├── ApiError                  the server returned an error; one subclass per reason
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
    ├── TransportError            no response arrived
    │   ├── ConnectError              connection refused, or DNS failed: the request was not sent
    │   ├── ConnectionLostError       the connection broke after the request may have been sent
    │   ├── TlsError                  the TLS handshake failed
    │   ├── DeadlineError             no response within the timeout
    │   └── ResponseLimitError        the response is too large, or a list never ends
    ├── CodecError                an object cannot be decoded or encoded
    │   ├── DecodeError               the bytes do not match the kind
    │   └── EncodeError               a value of the object has no JSON form
    ├── NoMatchError              the server does not serve the kind
    ├── SchemeError               a type or kind is not registered, or registered twice
    ├── ConfigError               a kubeconfig, token or certificate is unusable
    ├── PatchError                a patch cannot be applied
    ├── CacheError                a read from the cache fails
    │   ├── CacheNotStartedError
    │   ├── NotCachedError
    │   ├── UnknownNamespaceError
    │   ├── CacheSyncError            the initial list did not finish in time
    │   └── StaleCacheError           the cache received nothing for longer than the read allows
    ├── opsdk.cel.errors.CelError     a Common Expression Language expression fails
    ├── AdmissionDeniedError      raised by a validator or defaulter: the request is not allowed
    ├── ConversionError           an object cannot be converted between versions of its kind
    ├── StorageMigrationError     objects cannot be rewritten in the storage version
    ├── CopyError                 a file cannot be copied from or to a Pod
    ├── ExitError                 a command in a container failed
    ├── AlreadyOwnedError         another controller owns the object
    ├── ContendedError            two field managers overwrite each other; the next write waits
    ├── TerminatingError          the object is being deleted; retry when it is gone
    ├── MissingPermissionsError   the operator's user lacks declared RBAC permissions
    ├── LeaderElectionLostError   this process lost the lease and must stop writing
    ├── ShutdownTimeoutError      a runnable did not stop in time
    ├── PanicError                user code raised an exception that is no ``Exception``
    ├── UsageError                a mistake in the calling code
    ├── opsdk.lifecycle.errors    what handlers of a GenericController raise, and their failures
    ├── TemporaryError            raised by a reconciler: retry after its delay
    └── TerminalError             raised by a reconciler: do not retry

`NotReadyError` is outside the tree: it is a ``BaseException`` that ends a reconcile without a failure.

``retryable`` shows whether the same call may succeed later. `ApiError.retry_after` is the server's wait in seconds.

Upstream: k8s.io/apimachinery/pkg/api/errors/errors.go (v1.36)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import ClassVar

import msgspec

__all__ = [
    "AdmissionDeniedError",
    "AlreadyExistsError",
    "AlreadyOwnedError",
    "ApiError",
    "CacheError",
    "ConfigError",
    "ConflictError",
    "ConnectError",
    "ConnectionLostError",
    "ConversionError",
    "CopyError",
    "DeadlineError",
    "DecodeError",
    "ExitError",
    "ForbiddenError",
    "GoneError",
    "InvalidError",
    "LeaderElectionLostError",
    "NoMatchError",
    "NotCachedError",
    "NotFoundError",
    "OpsdkError",
    "StaleCacheError",
    "StorageMigrationError",
    "TemporaryError",
    "TerminalError",
    "TerminatingError",
    "TooLargeError",
    "TooManyRequestsError",
    "TransportError",
    "UnauthorizedError",
    "UsageError",
]


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The request that an error is about. It holds no query, headers or body, so it is safe to log.

    >>> str(RequestInfo(verb="update", group="apps", resource="deployments", namespace="default", name="web"))
    'update deployments.apps default/web'

    Attributes:
        verb: ``get``, ``list``, ``watch``, ``create`` and so on; the HTTP method if there is no resource.
        group: API group, empty for the core group.
        version: API version.
        resource: the plural; empty for a request for a path.
        subresource: ``status``, ``scale`` and so on.
        namespace: empty for cluster-scoped requests.
        name: empty for collections.
        path: the path of a request without a resource.
        cached: the cache served the read; no request was sent.
    """

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    cached: bool = False

    @property
    def group_resource(self) -> str:
        """The resource with subresource and group as kubectl writes it: ``deployments.apps/status``."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{resource}/{self.subresource}" if self.subresource else resource

    @property
    def key(self) -> str:
        """``namespace/name``, or the part of it that exists."""
        return "/".join(part for part in (self.namespace, self.name) if part)

    def __str__(self) -> str:
        if not self.resource:
            return f"{self.verb} {self.path}"
        where = self.key if self.name or not self.namespace else f"in {self.namespace}"
        source = "(from the cache)" if self.cached else ""
        return " ".join(part for part in (self.verb, self.group_resource, where, source) if part)


class OpsdkError(Exception):
    """Base class of all exceptions of opsdk.

    Attributes:
        retryable: whether the same call may succeed later without a change by the caller.
        request: the request that failed, or None; ``str(error)`` starts with it.
    """

    retryable: ClassVar[bool] = False
    request: RequestInfo | None = None

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.request is None else f"{self.request}: {text}"


# ------------------------------------------------------------------ error responses
class Cause(msgspec.Struct, frozen=True):
    """One cause in a ``Status`` object, such as one invalid field (``StatusCause``)."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """The ``details`` of a ``Status`` object (``StatusDetails``).

    As on the wire, ``kind`` holds the plural resource for most reasons and the kind for ``Invalid``.
    """

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: Sequence[Cause] = ()
    retry_after_seconds: int = 0


class ApiError(OpsdkError):
    """The server returned an error response.

    Attributes:
        message: the message of the ``Status`` object.
        code: the HTTP status.
        reason: the machine-readable reason, such as ``NotFound``.
        details: name, kind and causes.
        retry_after: seconds that the server asks to wait, at most `max_retry_after`: an informer is deaf meanwhile.
        request: the request, or None if no client of opsdk sent it. `message` is the server's text alone.

    >>> request = RequestInfo(verb="update", resource="configmaps", namespace="default", name="site")
    >>> str(InternalServerError("Internal error occurred: injected", request=request))
    'update configmaps default/site: 500 InternalError: Internal error occurred: injected'
    """

    default_code: ClassVar[int] = 500
    default_reason: ClassVar[str] = ""
    max_retry_after: ClassVar[float] = 60.0

    def __init__(
        self,
        message: str = "",
        *,
        code: int | None = None,
        reason: str | None = None,
        details: Details | None = None,
        retry_after: float | None = None,
        request: RequestInfo | None = None,
    ) -> None:
        self.message = message
        self.code: int = self.default_code if code is None else code
        self.reason: str = self.default_reason if reason is None else reason
        self.details: Details = details or Details()
        wait = retry_after if retry_after is not None else self.details.retry_after_seconds or None
        self.retry_after: float | None = None if wait is None else float(min(max(wait, 0), self.max_retry_after))
        self.request = request
        super().__init__(message or self.reason or f"HTTP {self.code}")

    def __str__(self) -> str:
        if self.request is None:
            return super().__str__()
        return f"{self.request}: {f'{self.code} {self.reason}'.rstrip()}: {self.message}".removesuffix(": ")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code} {self.reason}: {self.message})"


class BadRequestError(ApiError):
    """400: the request is malformed."""

    default_code, default_reason = 400, "BadRequest"


class UnauthorizedError(ApiError):
    """401: the credentials are missing, invalid or expired."""

    default_code, default_reason = 401, "Unauthorized"


class ForbiddenError(ApiError):
    """403: RBAC or admission does not allow the request."""

    default_code, default_reason = 403, "Forbidden"


class NotFoundError(ApiError):
    """404: the object or the resource does not exist."""

    default_code, default_reason = 404, "NotFound"


class MethodNotAllowedError(ApiError):
    """405: the resource does not support the verb."""

    default_code, default_reason = 405, "MethodNotAllowed"


class NotAcceptableError(ApiError):
    """406: the server supports none of the accepted media types."""

    default_code, default_reason = 406, "NotAcceptable"


class ConflictError(ApiError):
    """409: the object was modified since it was read, a precondition failed, or another manager owns a field."""

    default_code, default_reason = 409, "Conflict"


class AlreadyExistsError(ApiError):
    """409: an object with this name exists."""

    default_code, default_reason = 409, "AlreadyExists"


class GoneError(ApiError):
    """410: the resource version or the continue token has expired; list again.

    Attributes:
        continue_token: continues an expired list with the objects as they are now; empty if the server sent none.
    """

    default_code, default_reason = 410, "Expired"
    continue_token: str = ""


class TooLargeError(ApiError):
    """413: the request body exceeds the server's limit."""

    default_code, default_reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaTypeError(ApiError):
    """415: the server does not accept this content type for the request."""

    default_code, default_reason = 415, "UnsupportedMediaType"


class InvalidError(ApiError):
    """422: the object is not valid; ``details.causes`` names the fields."""

    default_code, default_reason = 422, "Invalid"


class TooManyRequestsError(ApiError):
    """429: the server limits requests; ``retry_after`` is the wait in seconds."""

    default_code, default_reason = 429, "TooManyRequests"
    retryable = True


class InternalServerError(ApiError):
    """500: the server failed."""

    default_code, default_reason = 500, "InternalError"
    retryable = True


class ServiceUnavailableError(ApiError):
    """503: the server is temporarily unavailable."""

    default_code, default_reason = 503, "ServiceUnavailable"
    retryable = True


class ServerTimeoutError(ApiError):
    """504 with reason Timeout, or 500 with reason ServerTimeout: the server did not finish in time."""

    default_code, default_reason = 504, "Timeout"
    retryable = True


_SHOWN_STDERR = 400  # bytes in a message

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
    """Return the class for a reason, else for an HTTP status, else `ApiError`."""
    return _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)


def api_error_from_status(
    status: Mapping[str, object],
    *,
    code: int = 0,
    retry_after: float | None = None,
    request: RequestInfo | None = None,
) -> ApiError:
    """Return the typed error of a ``Status`` object.

    Args:
        status: decoded JSON. Members of the wrong type are ignored, so that a malformed Status never hides the error.
        code: the HTTP status, used if the object has none.
        retry_after: seconds from the ``Retry-After`` header.
        request: the request that failed.
    """

    def text(source: Mapping[str, object], key: str) -> str:
        value = source.get(key)
        return value if isinstance(value, str) else ""

    def number(source: Mapping[str, object], key: str) -> int:
        value = source.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    raw = status.get("details")
    raw_details: Mapping[str, object] = raw if isinstance(raw, Mapping) else {}
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
    error = api_error_type(reason, code)(
        text(status, "message"),
        code=code,
        reason=reason,
        details=details,
        retry_after=retry_after,
        request=request,
    )
    metadata = status.get("metadata")
    if isinstance(error, GoneError) and isinstance(metadata, Mapping):
        error.continue_token = text(metadata, "continue")
    return error


# ------------------------------------------------------------------ no response
class TransportError(OpsdkError):
    """No response arrived. The server may have processed the request, unless the subclass excludes it."""

    retryable = True


class ConnectError(TransportError):
    """No connection was made, so the server did not process the request."""


class ConnectionLostError(TransportError):
    """The connection broke after the request may have been sent."""


class TlsError(TransportError):
    """The TLS handshake failed: check the CA bundle, the server name and the client certificate."""

    retryable = False


class DeadlineError(TransportError):
    """No response arrived within the timeout of the call."""


class ResponseLimitError(TransportError):
    """A response is larger than a limit, or a list never ends. The message names the limit and what to do."""

    retryable = False


# ------------------------------------------------------------------ encoding, kinds, configuration
class CodecError(OpsdkError):
    """An object cannot be decoded or encoded."""


class DecodeError(CodecError):
    """The bytes do not match the kind. The message names the path inside the object."""


class EncodeError(CodecError):
    """A value of the object has no JSON form. The message names the object."""


class NoMatchError(OpsdkError):
    """The server does not serve the kind: install its CRD, or correct group, version or kind."""

    retryable = True


class SchemeError(OpsdkError):
    """A type or kind is not registered in the scheme, or is registered for something else."""


class ConfigError(OpsdkError):
    """The configuration cannot be used. The message names the file and the entry."""


class PatchError(OpsdkError):
    """A patch does not apply to the document.

    Attributes:
        path: the position in the document, if known.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        self.path = path
        super().__init__(message)


# ------------------------------------------------------------------ the cache
class CacheError(OpsdkError):
    """A read from the cache fails."""


class CacheNotStartedError(CacheError):
    """The cache is not started: add it to a manager or start it before reading."""


class NotCachedError(CacheError):
    """The kind has no informer, and ``reader_fail_on_missing_informer`` is set."""


class UnknownNamespaceError(CacheError):
    """The cache does not watch this namespace."""


class CacheSyncError(CacheError):
    """An informer did not sync in time. ``__cause__`` holds its last list or watch error."""

    retryable = True


class StaleCacheError(CacheError):
    """The cache received nothing for longer than ``max_staleness``: retry, or pass ``uncached=True``."""

    retryable = True


# ------------------------------------------------------------------ admission, ownership, life cycle
class AdmissionDeniedError(OpsdkError):
    """Raised by a validator or a defaulter of a webhook: the request is not allowed.

    Attributes:
        message: shown to the client; the server adds the name of the webhook. Without it, the causes are joined.
        reason: the reason of the ``Status``; ``Invalid`` for wrong fields. It decides the HTTP status.
        causes: one for each wrong field, see `opsdk.webhook.admission.invalid_field`.
        warnings: shown with the denial.
        code: the HTTP status of `reason`; 403 for an unknown reason.

    >>> error = AdmissionDeniedError("the name is reserved")
    >>> error.code, error.reason
    (403, 'Forbidden')
    >>> str(AdmissionDeniedError(reason="Invalid", causes=[Cause(message="Required value", field="spec.image")]))
    'spec.image: Required value'
    """

    def __init__(
        self,
        message: str = "",
        *,
        reason: str = "Forbidden",
        causes: Sequence[Cause] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        self.message: str = message or ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
        self.reason = reason
        self.causes: tuple[Cause, ...] = tuple(causes)
        self.warnings: tuple[str, ...] = tuple(warnings)
        self.code: int = _BY_REASON.get(reason, ForbiddenError).default_code
        super().__init__(self.message)


class ConversionError(OpsdkError):
    """An object cannot be converted between versions of its kind. The message names both versions."""


class StorageMigrationError(OpsdkError):
    """The objects of a custom resource cannot be migrated to its storage version.

    The message names the definition and the objects, and what to correct. ``status.storedVersions`` is unchanged.
    """


class CopyError(OpsdkError):
    """A file cannot be copied from or to a Pod. The message has the reason, and what to do. Nothing is left half."""


class ExitError(OpsdkError):
    """A command in a container ended with an exit status that is not 0.

    Attributes:
        status: the exit status.
        stderr: what the command wrote to standard error. The message has its end.

    >>> print(ExitError("command psql in Pod default/db-0", status=2, stderr=b"FATAL: no such database"))
    command psql in Pod default/db-0 ended with status 2: FATAL: no such database
    """

    def __init__(self, what: str, *, status: int, stderr: bytes = b"") -> None:
        self.status = status
        self.stderr = stderr
        end = stderr[-_SHOWN_STDERR:].decode(errors="replace").strip()
        super().__init__(f"{what} ended with status {status}" + (f": {end}" if end else ""))


class AlreadyOwnedError(OpsdkError):
    """Another controller is the controlling owner of the object."""


class ContendedError(OpsdkError):
    """Two field managers each apply again after the other. The message names both. Retried later."""

    retryable: ClassVar[bool] = True


class TerminatingError(OpsdkError):
    """The object is being deleted, so it cannot be brought into its desired state.

    Let it end the reconcile. The retry, or the event of the deletion, creates the object again.
    """


class MissingPermissionsError(OpsdkError):
    """The user of the operator lacks permissions that the operator declares: grant them, or correct the declaration.

    Attributes:
        missing: the permissions in words, such as ``list secrets in namespace shop``.
    """

    def __init__(self, message: str, *, missing: Sequence[str] = ()) -> None:
        self.missing: tuple[str, ...] = tuple(missing)
        super().__init__(message)


class LeaderElectionLostError(OpsdkError):
    """This process lost the lease and must stop writing.

    A write that raises it was not sent. Let it end the reconcile: the manager stops, and another replica continues.
    """


class ShutdownTimeoutError(OpsdkError):
    """A runnable did not stop within the shutdown timeout. The message names it."""


class UsageError(OpsdkError):
    """A mistake in the calling code."""


class PanicError(OpsdkError):
    """User code raised an exception that is no ``Exception``, such as a native library's panic. That is the cause."""


class TerminalError(OpsdkError):
    """Raised by a reconciler when a retry cannot help: the request is dropped until the object changes."""


class TemporaryError(OpsdkError):
    """Raised by a reconciler or finalizer to be called again after a delay. It counts and is logged as a failure.

    Args:
        message: what is missing or wrong.
        delay: time until the next attempt, in seconds or as a timedelta. It replaces the rate limiter's delay.

    Raises:
        UsageError: `delay` is negative, or no time.
    """

    retryable = True

    def __init__(self, message: str = "", *, delay: float | timedelta = 60.0) -> None:
        super().__init__(message)
        # This module imports no other: as in `opsdk.base.durations.as_seconds`.
        seconds: object = delay.total_seconds() if isinstance(delay, timedelta) else delay
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < math.inf:
            raise UsageError(f"delay is {delay!r}: pass seconds, at least 0, or a timedelta")
        self.seconds = float(seconds)
        """The delay in seconds."""


class NotReadyError(BaseException):
    """Ends a reconcile quietly: a child with ``ready=`` is not ready yet. `Context.apply` raises it; programs do not.

    It is not a failure: nothing is counted or retried, and the child's own event starts the next reconcile. It does not
    derive from ``Exception``, so ``except Exception`` does not catch it. A reconciler that catches it still waits.
    """
