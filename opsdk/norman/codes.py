"""The error codes of a Norman API, and the codes for errors of Kubernetes.

Upstream: github.com/rancher/norman/httperror/error.go, store/proxy/error_wrapper.go;
github.com/rancher/steve/pkg/stores/proxy/error_wrapper.go
Deviates: the reasons Forbidden, MethodNotAllowed and Expired of Kubernetes become the codes of norman.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from opsdk.errors import ApiError, CacheError, NoMatchError, TransportError
from opsdk.norman.errors import NormanError

__all__ = ["ErrorCode"]


class ErrorCode(Enum):
    """A code and its HTTP status.

    >>> ErrorCode.METHOD_NOT_ALLOWED.code, ErrorCode.METHOD_NOT_ALLOWED.status
    ('MethodNotAllow', 405)
    """

    UNAUTHORIZED = ("Unauthorized", 401)
    PERMISSION_DENIED = ("PermissionDenied", 403)
    NOT_FOUND = ("NotFound", 404)
    ACTION_NOT_AVAILABLE = ("ActionNotAvailable", 404)
    METHOD_NOT_ALLOWED = ("MethodNotAllow", 405)
    CONFLICT = ("Conflict", 409)
    GONE = ("Gone", 410)
    INVALID_DATE_FORMAT = ("InvalidDateFormat", 422)
    INVALID_FORMAT = ("InvalidFormat", 422)
    INVALID_REFERENCE = ("InvalidReference", 422)
    NOT_NULLABLE = ("NotNullable", 422)
    NOT_UNIQUE = ("NotUnique", 422)
    MIN_LIMIT_EXCEEDED = ("MinLimitExceeded", 422)
    MAX_LIMIT_EXCEEDED = ("MaxLimitExceeded", 422)
    MIN_LENGTH_EXCEEDED = ("MinLengthExceeded", 422)
    MAX_LENGTH_EXCEEDED = ("MaxLengthExceeded", 422)
    INVALID_OPTION = ("InvalidOption", 422)
    INVALID_CHARACTERS = ("InvalidCharacters", 422)
    MISSING_REQUIRED = ("MissingRequired", 422)
    INVALID_CSRF_TOKEN = ("InvalidCSRFToken", 422)
    INVALID_ACTION = ("InvalidAction", 422)
    INVALID_BODY_CONTENT = ("InvalidBodyContent", 422)
    INVALID_TYPE = ("InvalidType", 422)
    INVALID_STATE = ("InvalidState", 422)
    SERVER_ERROR = ("ServerError", 500)
    CLUSTER_UNAVAILABLE = ("ClusterUnavailable", 503)

    @property
    def code(self) -> str:
        """The text in the body."""
        return self.value[0]

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.value[1]

    def error(self, message: str = "", *, field_name: str = "") -> NormanError:
        """Return an error with this code.

        >>> str(ErrorCode.NOT_NULLABLE.error(field_name="replicas"))
        'NotNullable 422: replicas'
        """
        return NormanError(message, status=self.status, code=self.code, field_name=field_name)


def not_found(object_id: str) -> NormanError:
    """Return the error for an object that does not exist, or that the user may not see."""
    return ErrorCode.NOT_FOUND.error(f"failed to find {object_id}")


def revision_too_old() -> NormanError:
    """Return the error for a revision that is no longer in the log of a watch: the client lists again."""
    return ErrorCode.GONE.error("the revision is too old: list again", field_name="resourceVersion")


_CODES: Mapping[str, ErrorCode] = {
    "Expired": ErrorCode.GONE,
    "Forbidden": ErrorCode.PERMISSION_DENIED,
    "MethodNotAllowed": ErrorCode.METHOD_NOT_ALLOWED,
    "": ErrorCode.SERVER_ERROR,
}
"""The codes of reasons of Kubernetes. Another reason is a code itself, such as ``AlreadyExists``."""


def as_norman_error(error: Exception) -> NormanError:
    """Return the error for a client. An unexpected exception becomes an error without details."""
    if isinstance(error, NormanError):
        return error
    if isinstance(error, ApiError):
        code = _CODES[error.reason].code if error.reason in _CODES else error.reason
        return NormanError(error.message, status=error.code, code=code)
    if isinstance(error, TransportError):
        return ErrorCode.CLUSTER_UNAVAILABLE.error("the cluster cannot be reached")
    if isinstance(error, CacheError | NoMatchError):
        return ErrorCode.CLUSTER_UNAVAILABLE.error(str(error))
    return ErrorCode.SERVER_ERROR.error("internal error; see the server log")
