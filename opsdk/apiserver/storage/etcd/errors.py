"""What an error of etcd means for a request: whether it was carried out, and which `ApiError` says so. Pure.

Upstream: k8s.io/apiserver/pkg/storage/errors and etcd api/v3rpc/rpctypes/error.go (v3.6).
"""

from __future__ import annotations

import enum

from opsdk.errors import (
    ApiError,
    Details,
    InternalServerError,
    ServerTimeoutError,
    ServiceUnavailableError,
    TooLargeError,
)


class EtcdFailure(enum.Enum):
    """What is known after a request failed."""

    UNREACHABLE = "unreachable"
    """The request was not sent: another member may answer."""
    NOT_DONE = "not done"
    """A member refused it before any effect, such as one without a leader: another member may answer."""
    UNKNOWN = "unknown"
    """The request may have been carried out: the answer was lost or late."""
    COMPACTED = "compacted"
    """The revision is compacted."""
    FUTURE = "future"
    """The revision has not happened yet."""
    TOKEN = "token"  # noqa: S105 - no secret
    """The token of the user has expired: authenticate again."""
    FULL = "full"
    """The database has reached its quota. Nothing was written."""
    TOO_LARGE = "too large"
    """The request is larger than etcd takes. Nothing was written."""
    DENIED = "denied"
    """The user name, password or permission is wrong. Nothing was done."""
    OTHER = "other"
    """Anything else that etcd answers; another member would answer the same."""


class EtcdError(Exception):
    """A request failed; the storage translates it. `done` says whether it may have been carried out."""

    def __init__(self, failure: EtcdFailure, text: str, *, done: bool = False) -> None:
        self.failure = failure
        self.text = text
        self.done = done
        super().__init__(text)


_TEXTS = (
    ("required revision has been compacted", EtcdFailure.COMPACTED),
    ("required revision is a future revision", EtcdFailure.FUTURE),
    ("database space exceeded", EtcdFailure.FULL),
    ("request is too large", EtcdFailure.TOO_LARGE),
    ("invalid auth token", EtcdFailure.TOKEN),
    ("auth: revision in header is old", EtcdFailure.TOKEN),
    ("authentication failed", EtcdFailure.DENIED),
    ("permission denied", EtcdFailure.DENIED),
    ("user name", EtcdFailure.DENIED),
    ("authentication is not enabled", EtcdFailure.DENIED),
    ("etcdserver: no leader", EtcdFailure.NOT_DONE),
    ("etcdserver: too many requests", EtcdFailure.NOT_DONE),
    ("etcdserver: server is learner", EtcdFailure.NOT_DONE),
    ("etcdserver: not capable", EtcdFailure.NOT_DONE),
    ("failed to connect to all addresses", EtcdFailure.UNREACHABLE),
    ("DNS resolution failed", EtcdFailure.UNREACHABLE),
    ("name resolution failure", EtcdFailure.UNREACHABLE),
    ("handshake failed", EtcdFailure.UNREACHABLE),
)
_LOST = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN", "INTERNAL", "ABORTED"})


def classify(code: str, details: str) -> EtcdFailure:
    """Return what an error of a gRPC call means; `code` is the name of its status.

    >>> classify("UNAVAILABLE", "etcdserver: leader changed"), classify("UNAVAILABLE", "etcdserver: no leader")
    (<EtcdFailure.UNKNOWN: 'unknown'>, <EtcdFailure.NOT_DONE: 'not done'>)
    """
    for text, failure in _TEXTS:
        if text in details:
            return failure
    return EtcdFailure.UNKNOWN if code in _LOST else EtcdFailure.OTHER


def api_error(error: EtcdError, verb: str, key: str) -> ApiError:
    """Return what the client of the API server reads about a failed `verb` of `key`."""
    text = error.text
    if error.done:
        return ServerTimeoutError(
            f"Timeout: etcd did not answer, so the {verb} of {key} may have been carried out ({text});"
            " read the object before you try again",
            details=Details(retry_after_seconds=1),
        )
    match error.failure:
        case EtcdFailure.UNREACHABLE | EtcdFailure.NOT_DONE | EtcdFailure.TOKEN:
            return ServiceUnavailableError(
                f"no member of etcd could do the {verb} of {key} ({text}); check that a majority of its members runs"
                " and that the endpoints and certificates are right",
                details=Details(retry_after_seconds=1),
            )
        case EtcdFailure.UNKNOWN:
            return ServerTimeoutError(
                f"The {verb} operation against etcd could not be completed at this time, please try again. ({text})",
                code=500,
                reason="ServerTimeout",
                details=Details(retry_after_seconds=2),
            )
        case EtcdFailure.FULL:
            return ServiceUnavailableError(
                f"etcd is full, so {key} was not written ({text}); compact and defragment it, raise"
                " --quota-backend-bytes if needed, then run: etcdctl alarm disarm",
                details=Details(retry_after_seconds=10),
            )
        case EtcdFailure.TOO_LARGE:
            return TooLargeError(f"Request entity too large: etcd does not take {key} ({text})")
        case EtcdFailure.DENIED:
            return InternalServerError(
                f"etcd refuses the {verb} of {key} ({text}); check user, password and role of the server"
            )
        case _:
            return InternalServerError(f"the {verb} of {key} failed in etcd: {text}")
