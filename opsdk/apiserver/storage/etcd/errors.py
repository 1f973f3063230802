"""Classifies etcd errors: whether the request took effect, and which `ApiError` reports it. Pure.

Upstream: k8s.io/apiserver/pkg/storage/errors and etcd api/v3rpc/rpctypes/error.go (v3.6).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from opsdk.errors import (
    ApiError,
    Details,
    InternalServerError,
    ServerTimeoutError,
    ServiceUnavailableError,
    TooLargeError,
)


class EtcdFailure(enum.Enum):
    """The outcome of a failed request."""

    UNREACHABLE = "unreachable"
    """The request was not sent: another member may respond."""
    NOT_DONE = "not done"
    """The member rejected it before any effect, e.g. without a leader: another member may respond."""
    UNKNOWN = "unknown"
    """The request may have taken effect: the response was lost or late."""
    INVALID = "invalid"
    """The response is malformed or too large. The request may have taken effect; it is not repeated."""
    COMPACTED = "compacted"
    """The revision is compacted."""
    FUTURE = "future"
    """The revision is in the future."""
    TOKEN = "token"  # noqa: S105 - no secret
    """The token of the user has expired; the client authenticates again."""
    FULL = "full"
    """The database has reached its quota, so nothing was written."""
    TOO_LARGE = "too large"
    """The request exceeds etcd's size limit, so nothing was written."""
    DENIED = "denied"
    """The user name, password or permission is wrong, so nothing was done."""
    OTHER = "other"
    """Any other error; all members would return the same."""


class EtcdError(Exception):
    """A request failed; the storage translates it. `done` reports whether it may have taken effect."""

    def __init__(self, failure: EtcdFailure, text: str, *, done: bool = False) -> None:
        self.failure = failure
        self.text = text
        self.done = done
        super().__init__(text)


_TEXTS = (
    ("Received message larger than max", EtcdFailure.INVALID),
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
    """Return the outcome for a gRPC error; `code` is the name of its status.

    >>> classify("UNAVAILABLE", "etcdserver: leader changed"), classify("UNAVAILABLE", "etcdserver: no leader")
    (<EtcdFailure.UNKNOWN: 'unknown'>, <EtcdFailure.NOT_DONE: 'not done'>)
    """
    for text, failure in _TEXTS:
        if text in details:
            return failure
    return EtcdFailure.UNKNOWN if code in _LOST else EtcdFailure.OTHER


_STATES: Final[Mapping[EtcdFailure, str]] = {
    EtcdFailure.UNREACHABLE: "no member of etcd is reachable",
    EtcdFailure.NOT_DONE: "etcd has no leader or takes no requests",
    EtcdFailure.UNKNOWN: "etcd does not answer in time",
    EtcdFailure.FULL: "etcd is full",
    EtcdFailure.TOKEN: "etcd refuses the user of the server",
    EtcdFailure.DENIED: "etcd refuses the user of the server",
}


def state_of(error: EtcdError) -> str:
    """Return the state of etcd that an error shows; empty if it is about the request. Without addresses of members."""
    return _STATES.get(error.failure, "")


def api_error(error: EtcdError, verb: str, key: str) -> ApiError:
    """Return the error for a client whose `verb` of `key` failed."""
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
