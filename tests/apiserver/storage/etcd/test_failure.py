"""What readiness says of etcd."""

from __future__ import annotations

import asyncio

import pytest

from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure
from opsdk.apiserver.storage.etcd.failure import LastFailure
from opsdk.errors import ApiError


def fail(last: LastFailure, verb: str, failure: EtcdFailure) -> None:
    """Let a request fail."""
    with pytest.raises(ApiError), last.translated(verb, "/a"):
        raise EtcdError(failure, "https://member:2379: etcdserver: no leader")


def succeed(last: LastFailure, verb: str) -> None:
    """Let a request be served."""
    with last.translated(verb, "/a"):
        pass


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (EtcdFailure.UNREACHABLE, "no member of etcd is reachable"),
        (EtcdFailure.NOT_DONE, "no leader"),
        (EtcdFailure.UNKNOWN, "does not answer"),
        (EtcdFailure.TOKEN, "refuses the user"),
        (EtcdFailure.DENIED, "refuses the user"),
    ],
)
async def test_any_request_shows_that_etcd_serves_again(failure: EtcdFailure, words: str) -> None:
    """Each state has its words, without the address of a member, until a request is served."""
    last = LastFailure()
    for verb in ("list", "update"):
        fail(last, verb, failure)
        assert words in last.text
        assert "member:2379" not in last.text
        succeed(last, "get")
        assert last.text == ""


async def test_only_a_write_shows_that_etcd_is_full_no_more() -> None:
    """Reads are served by a full etcd."""
    last = LastFailure()
    fail(last, "create", EtcdFailure.FULL)
    succeed(last, "list")
    assert last.text == "etcd is full"
    succeed(last, "delete")
    assert last.text == ""


@pytest.mark.parametrize("failure", [EtcdFailure.TOO_LARGE, EtcdFailure.COMPACTED, EtcdFailure.OTHER])
async def test_an_error_of_the_request_says_nothing_of_etcd(failure: EtcdFailure) -> None:
    """A server stays ready although a client asks for too much."""
    last = LastFailure()
    fail(last, "create", failure)
    assert last.text == ""


async def test_a_failure_is_forgotten_without_requests() -> None:
    """A server that is not ready gets no requests, so it could not recover."""
    last = LastFailure()
    fail(last, "create", EtcdFailure.FULL)
    await asyncio.sleep(29)
    assert last.text == "etcd is full"
    await asyncio.sleep(2)
    assert last.text == ""
