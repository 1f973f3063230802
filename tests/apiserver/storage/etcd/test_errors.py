"""The meaning of etcd's errors for a request."""

from __future__ import annotations

import pytest

from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure, api_error, classify

_TEXTS = [
    ("UNAVAILABLE", "failed to connect to all addresses; last error: connection refused", EtcdFailure.UNREACHABLE),
    ("UNAVAILABLE", "Ssl handshake failed: CERTIFICATE_VERIFY_FAILED", EtcdFailure.UNREACHABLE),
    ("UNAVAILABLE", "etcdserver: no leader", EtcdFailure.NOT_DONE),
    ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", EtcdFailure.NOT_DONE),
    ("UNAVAILABLE", "etcdserver: leader changed", EtcdFailure.UNKNOWN),
    ("UNAVAILABLE", "etcdserver: request timed out, possibly due to previous leader failure", EtcdFailure.UNKNOWN),
    ("UNAVAILABLE", "Socket closed", EtcdFailure.UNKNOWN),
    ("DEADLINE_EXCEEDED", "Deadline Exceeded", EtcdFailure.UNKNOWN),
    ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted", EtcdFailure.COMPACTED),
    ("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision", EtcdFailure.FUTURE),
    ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", EtcdFailure.FULL),
    ("INVALID_ARGUMENT", "etcdserver: request is too large", EtcdFailure.TOO_LARGE),
    ("UNAUTHENTICATED", "etcdserver: invalid auth token", EtcdFailure.TOKEN),
    ("INVALID_ARGUMENT", "etcdserver: authentication failed, invalid user ID or password", EtcdFailure.DENIED),
    ("PERMISSION_DENIED", "etcdserver: permission denied", EtcdFailure.DENIED),
    ("INVALID_ARGUMENT", "etcdserver: user name is empty", EtcdFailure.DENIED),
    ("INVALID_ARGUMENT", "etcdserver: duplicate key given in txn request", EtcdFailure.OTHER),
]


@pytest.mark.parametrize(("code", "text", "failure"), _TEXTS)
def test_the_text_tells_what_happened(code: str, text: str, failure: EtcdFailure) -> None:
    """Each error of etcd or gRPC shows whether the request was executed, and whether another member may help."""
    assert classify(code, text) is failure


_CODES = {
    EtcdFailure.UNREACHABLE: (503, "ServiceUnavailable", 1),
    EtcdFailure.NOT_DONE: (503, "ServiceUnavailable", 1),
    EtcdFailure.UNKNOWN: (500, "ServerTimeout", 2),
    EtcdFailure.FULL: (503, "ServiceUnavailable", 10),
    EtcdFailure.TOO_LARGE: (413, "RequestEntityTooLarge", None),
    EtcdFailure.DENIED: (500, "InternalError", None),
    EtcdFailure.OTHER: (500, "InternalError", None),
}


@pytest.mark.parametrize("failure", _CODES)
def test_a_client_learns_what_to_do(failure: EtcdFailure) -> None:
    """The Status has code and Retry-After of the failure, the key, and etcd's message."""
    error = api_error(EtcdError(failure, "etcd's words"), "update", "core/configmaps/a")
    assert (error.code, error.reason, error.retry_after) == _CODES[failure]
    assert "etcd's words" in error.message


@pytest.mark.parametrize("failure", [EtcdFailure.UNKNOWN, EtcdFailure.UNREACHABLE])
def test_an_unknown_outcome_is_never_a_plain_failure(failure: EtcdFailure) -> None:
    """A write that may have happened is a 504 which says so, whatever ended the last attempt."""
    error = api_error(EtcdError(failure, "lost", done=True), "create", "core/configmaps/a")
    assert (error.code, error.reason, error.retry_after) == (504, "Timeout", 1)
    assert "may have been carried out" in error.message
