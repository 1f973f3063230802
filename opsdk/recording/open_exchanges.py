"""The exchanges that a checkpoint needs: those that are open, and the last answers that a start needs. Pure.

A replay that begins with a checkpoint starts the operator anew. The start reads the API server's groups, its lease, and
what the operator applies at its start; lists and watches get what the caches have at the checkpoint.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from opsdk.recording.records import ExchangeBegan, Received, Record, Responded

__all__ = ["OpenExchanges", "collection_of", "is_collection", "is_watch"]

_MAX_ANSWERS: Final = 256
_MAX_BYTES: Final = 8 << 20
"""Answers outside of reconciles that are kept, and the bytes of all of them: the oldest go."""
_SELECTORS: Final = ("labelSelector", "fieldSelector", "shardSelector")


class _Exchange(msgspec.Struct):
    """An exchange that has not ended, or whose answer is kept."""

    began: ExchangeBegan
    is_kept: bool
    responded: Responded | None = None
    parts: list[Received] = []
    size: int = 0
    is_at_boundary: bool = True
    """For a watch: whether its last bytes ended an event."""

    def records(self) -> Iterator[Record]:
        yield self.began
        if self.responded is not None:
            yield self.responded
        yield from self.parts

    @property
    def is_answered(self) -> bool:
        """Whether the server has answered, and not refused."""
        return self.responded is not None and (self.responded.status < 400 or self.responded.status == 404)


class OpenExchanges:
    """Follows the exchanges of an operator."""

    def __init__(self) -> None:
        self._open: dict[int, _Exchange] = {}
        self._answers: OrderedDict[tuple[str, str, bytes], _Exchange] = OrderedDict()
        self._size = 0
        self._others: set[int] = set()

    def began(self, record: ExchangeBegan, *, in_reconcile: bool) -> None:
        """Note a request. Answers to those of a reconcile are not kept: no start sends it."""
        path = record.target.partition("?")[0]
        is_kept = not in_reconcile and not (record.method == "GET" and is_collection(path))
        self._open[record.exchange] = _Exchange(record, is_kept)

    def responded(self, record: Responded) -> None:
        """Note the head of a response."""
        if (exchange := self._open.get(record.exchange)) is not None:
            exchange.responded = record

    def received(self, record: Received) -> None:
        """Note bytes of a response."""
        exchange = self._open.get(record.exchange)
        if exchange is None:
            return
        if exchange.is_kept:
            exchange.parts.append(record)
            exchange.size += len(record.data)
            if exchange.size > _MAX_BYTES:  # a log that is followed has no end
                exchange.is_kept = False
                exchange.parts.clear()
        elif record.data:
            exchange.is_at_boundary = record.data.endswith(b"\n")
        if record.is_end:
            self.ended(record.exchange, is_complete=True)

    def ended(self, number: int, *, is_complete: bool = False) -> None:
        """Note the end of an exchange.

        Args:
            number: of the exchange.
            is_complete: the whole response has arrived.
        """
        exchange = self._open.pop(number, None)
        if exchange is None or not (is_complete and exchange.is_kept and exchange.is_answered):
            return
        began = exchange.began
        # The body of a review is its question; those of other writes differ from time to time.
        key = (began.method, began.target, began.body if began.method == "POST" else b"")
        before = self._answers.pop(key, None)
        self._size += exchange.size - (before.size if before is not None else 0)
        self._answers[key] = exchange
        while len(self._answers) > _MAX_ANSWERS or self._size > _MAX_BYTES:
            _, oldest = self._answers.popitem(last=False)
            self._size -= oldest.size

    def call_began(self, number: int) -> None:
        """Note a call of a system outside of Kubernetes, or a review that a webhook answers."""
        self._others.add(number)

    def call_ended(self, number: int) -> None:
        """Note its end."""
        self._others.discard(number)

    @property
    def servers(self) -> set[str]:
        """The servers with open exchanges: an operator of several clusters has more than one."""
        return {exchange.began.server for exchange in self._open.values()}

    @property
    def is_quiet(self) -> bool:
        """Whether only watches are open, and none is in the middle of an event."""
        return not self._others and all(
            exchange.responded is not None and is_watch(exchange.began) and exchange.is_at_boundary
            for exchange in self._open.values()
        )

    def records(self) -> Iterator[Record]:
        """Yield the records of the answers, in the order of their ends, and of the open exchanges."""
        for exchange in (*self._answers.values(), *self._open.values()):
            yield from exchange.records()

    def __repr__(self) -> str:
        return f"<OpenExchanges: {len(self._open)} open, {len(self._answers)} answers>"


def is_watch(request: ExchangeBegan) -> bool:
    """Whether a request is a watch."""
    return request.method == "GET" and "watch=" in request.target.partition("?")[2]


def is_collection(path: str) -> bool:
    """Whether a path names all objects of a resource.

    >>> is_collection("/api/v1/namespaces/shop/configmaps"), is_collection("/apis/apps/v1/deployments")
    (True, True)
    >>> is_collection("/api/v1/namespaces/shop"), is_collection("/apis/apps/v1"), is_collection("/version")
    (False, False, False)
    """
    parts = path.strip("/").split("/")
    start = parts.index("apis") + 3 if "apis" in parts else parts.index("api") + 2 if "api" in parts else len(parts)
    rest = parts[start:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    return len(rest) == 1


def collection_of(target: str) -> str:
    """Return what a list or a watch is about: its path with the selectors, without paging and resource versions.

    >>> collection_of("/api/v1/pods?watch=true&labelSelector=app%3Dweb&resourceVersion=7")
    '/api/v1/pods?labelSelector=app%3Dweb'
    """
    path, _, query = target.partition("?")
    selectors = [(name, value) for name, value in parse_qsl(query) if name in _SELECTORS]
    return f"{path}?{urlencode(sorted(selectors))}" if selectors else path
