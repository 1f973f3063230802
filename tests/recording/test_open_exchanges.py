"""The exchanges that a checkpoint needs: open watches, and the last answers outside of reconciles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opsdk.recording.open_exchanges import OpenExchanges, collection_of
from opsdk.recording.records import ExchangeBegan, Received, Record, Responded

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
PODS = "/api/v1/pods?watch=true&resourceVersion=7&timeoutSeconds=400"


class Exchanges:
    """Sends exchanges to an `OpenExchanges`, one after the other."""

    def __init__(self) -> None:
        self.open = OpenExchanges()
        self._number = 0

    def begin(self, target: str, method: str = "GET", *, in_reconcile: bool = False, body: bytes = b"") -> int:
        """Send a request. Returns the number of the exchange."""
        self._number += 1
        self.open.began(ExchangeBegan(1, self._number, "host:443", method, target, "", body), in_reconcile=in_reconcile)
        return self._number

    def answer(self, number: int, body: bytes, *, status: int = 200, is_end: bool = True) -> None:
        """Answer a request."""
        self.open.responded(Responded(1, number, status, {}))
        self.open.received(Received(1, number, body))
        if is_end:
            self.open.received(Received(1, number, b"", is_end=True))

    def kept(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield method, target and body of the response of each exchange that a checkpoint has."""
        records: list[Record] = list(self.open.records())
        for record in records:
            if isinstance(record, ExchangeBegan):
                yield record.method, record.target, _body(records, record.exchange)


def _body(records: list[Record], number: int) -> bytes:
    return b"".join(each.data for each in records if isinstance(each, Received) and each.exchange == number)


def test_the_last_answers_outside_of_reconciles_are_kept() -> None:
    """One for each request: a start needs the API groups and the lease, and sends no request of a reconcile."""
    exchanges = Exchanges()
    exchanges.answer(exchanges.begin("/apis"), b"old")
    exchanges.answer(exchanges.begin("/apis"), b"groups")
    exchanges.answer(exchanges.begin(LEASE, "PUT", body=b"1"), b"first")
    exchanges.answer(exchanges.begin(LEASE, "PUT", body=b"2"), b"second")
    exchanges.answer(exchanges.begin("/api/v1/namespaces/default/secrets/a", in_reconcile=True), b"secret")
    exchanges.answer(exchanges.begin("/api/v1/configmaps?limit=500"), b"list")
    assert list(exchanges.kept()) == [("GET", "/apis", b"groups"), ("PUT", LEASE, b"second")]


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_a_server_that_cannot_answer_changes_nothing(status: int) -> None:
    """The answer before it is what the server has."""
    exchanges = Exchanges()
    exchanges.answer(exchanges.begin(LEASE), b"lease")
    exchanges.answer(exchanges.begin(LEASE), b"sorry", status=status)
    assert list(exchanges.kept()) == [("GET", LEASE, b"lease")]


def test_a_missing_object_is_an_answer() -> None:
    """A start finds it missing, too."""
    exchanges = Exchanges()
    exchanges.answer(exchanges.begin(LEASE), b"not found", status=404)
    assert list(exchanges.kept()) == [("GET", LEASE, b"not found")]


def test_only_watches_between_two_events_are_quiet() -> None:
    """A request under way, a call, or half of an event would be lost."""
    exchanges = Exchanges()
    assert exchanges.open.is_quiet
    watch = exchanges.begin(PODS)
    assert not exchanges.open.is_quiet
    exchanges.answer(watch, b"", is_end=False)
    assert exchanges.open.is_quiet
    exchanges.answer(watch, b'{"type":"ADDED"', is_end=False)
    assert not exchanges.open.is_quiet
    exchanges.answer(watch, b"}\n", is_end=False)
    assert exchanges.open.is_quiet
    assert [target for _, target, _ in exchanges.kept()] == [PODS]
    assert exchanges.open.servers == {"host:443"}
    request = exchanges.begin("/apis", in_reconcile=True)
    assert not exchanges.open.is_quiet
    exchanges.open.ended(request)
    exchanges.open.call_began(99)
    assert not exchanges.open.is_quiet
    exchanges.open.call_ended(99)
    exchanges.answer(watch, b"", is_end=True)
    assert exchanges.open.is_quiet
    assert not list(exchanges.kept())


def test_memory_is_bounded() -> None:
    """The oldest answers go, by their number and by their size."""
    exchanges = Exchanges()
    for number in range(1000):
        exchanges.answer(exchanges.begin(f"/apis/group-{number}"), b"a")
    targets = [target for _, target, _ in exchanges.kept()]
    assert len(targets) == 256
    assert targets[-1] == "/apis/group-999"
    for number in range(20):
        exchanges.answer(exchanges.begin(f"/apis/large-{number}"), bytes(1 << 20))
    log = exchanges.begin("/api/v1/namespaces/default/pods/a/log?follow=true")
    for _ in range(100):
        exchanges.answer(log, bytes(1 << 20), is_end=False)
    assert sum(len(body) for *_, body in exchanges.kept()) <= 8 << 20


def test_a_list_and_its_watch_are_about_one_collection() -> None:
    """Whatever their pages and resource versions."""
    selectors = "fieldSelector=metadata.name%3Da&labelSelector=app"
    watch = "?watch=true&labelSelector=app&fieldSelector=metadata.name%3Da&resourceVersion=3&sendInitialEvents=true"
    assert collection_of(f"/api/v1/pods?limit=500&{selectors}") == collection_of(f"/api/v1/pods{watch}")
    assert collection_of("/api/v1/pods?limit=500") != collection_of(f"/api/v1/pods{watch}")
