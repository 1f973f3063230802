"""What etcd's errors mean for a request."""

from __future__ import annotations

import pytest

from opsdk.apiserver.storage.etcd.errors import EtcdError, Failure, api_error, classify

_TEXTS = [
    ("UNAVAILABLE", "failed to connect to all addresses; last error: connection refused", Failure.UNREACHABLE),
    ("UNAVAILABLE", "Ssl handshake failed: CERTIFICATE_VERIFY_FAILED", Failure.UNREACHABLE),
    ("UNAVAILABLE", "etcdserver: no leader", Failure.NOT_DONE),
    ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", Failure.NOT_DONE),
    ("UNAVAILABLE", "etcdserver: leader changed", Failure.UNKNOWN),
    ("UNAVAILABLE", "etcdserver: request timed out, possibly due to previous leader failure", Failure.UNKNOWN),
    ("UNAVAILABLE", "Socket closed", Failure.UNKNOWN),
    ("DEADLINE_EXCEEDED", "Deadline Exceeded", Failure.UNKNOWN),
    ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted", Failure.COMPACTED),
    ("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision", Failure.FUTURE),
    ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", Failure.FULL),
    ("INVALID_ARGUMENT", "etcdserver: request is too large", Failure.TOO_LARGE),
    ("UNAUTHENTICATED", "etcdserver: invalid auth token", Failure.TOKEN),
    ("INVALID_ARGUMENT", "etcdserver: authentication failed, invalid user ID or password", Failure.DENIED),
    ("PERMISSION_DENIED", "etcdserver: permission denied", Failure.DENIED),
    ("INVALID_ARGUMENT", "etcdserver: user name is empty", Failure.DENIED),
    ("INVALID_ARGUMENT", "etcdserver: duplicate key given in txn request", Failure.OTHER),
]


@pytest.mark.parametrize(("code", "text", "failure"), _TEXTS)
def test_the_text_tells_what_happened(code: str, text: str, failure: Failure) -> None:
    """Each error of etcd or gRPC says whether the request was carried out, and whether another member may help."""
    assert classify(code, text) is failure


_CODES = {
    Failure.UNREACHABLE: (503, "ServiceUnavailable", 1),
    Failure.NOT_DONE: (503, "ServiceUnavailable", 1),
    Failure.UNKNOWN: (500, "ServerTimeout", 2),
    Failure.FULL: (503, "ServiceUnavailable", 10),
    Failure.TOO_LARGE: (413, "RequestEntityTooLarge", None),
    Failure.DENIED: (500, "InternalError", None),
    Failure.OTHER: (500, "InternalError", None),
}


@pytest.mark.parametrize("failure", _CODES)
def test_a_client_learns_what_to_do(failure: Failure) -> None:
    """The Status has the code and the wait of its failure, the key, and etcd's own words."""
    error = api_error(EtcdError(failure, "etcd's words"), "update", "core/configmaps/a")
    assert (error.code, error.reason, error.retry_after) == _CODES[failure]
    assert "etcd's words" in error.message


@pytest.mark.parametrize("failure", [Failure.UNKNOWN, Failure.UNREACHABLE])
def test_an_unknown_outcome_is_never_a_plain_failure(failure: Failure) -> None:
    """A write that may have happened is a 504 which says so, whatever ended the last attempt."""
    error = api_error(EtcdError(failure, "lost", done=True), "create", "core/configmaps/a")
    assert (error.code, error.reason, error.retry_after) == (504, "Timeout", 1)
    assert "may have been carried out" in error.message
