"""What the API server answers while an operator starts for a checkpoint of its recording. Pure."""

from __future__ import annotations

from collections import deque

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.watch import INITIAL_EVENTS_END
from opsdk.engine.replay.timeline import BEFORE_CHECKPOINT, Checkpoint, RecordedCollection, RecordedExchange
from opsdk.recording.open_exchanges import collection_of, is_collection, is_watch
from opsdk.recording.records import ExchangeBegan, Outcome, Received, Responded

__all__ = ["StartAnswers"]

_METADATA = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")


class StartAnswers:
    """Answers the requests of a start: lists and watches from the caches of a checkpoint, others as they were answered.

    Args:
        checkpoint: that the start has to lead to.
        base_path: of the API server.
    """

    def __init__(self, checkpoint: Checkpoint, base_path: str) -> None:
        self._base_path = base_path
        self._collections = {
            (each.informer.collection, each.informer.metadata_only): each for each in checkpoint.collections
        }
        self._watches: dict[str, deque[RecordedExchange]] = {}
        self._answers: dict[tuple[str, str, bytes], RecordedExchange] = {}
        self._stored: dict[str, RecordedExchange] = {}
        for exchange in checkpoint.exchanges:
            self._add(exchange)

    def _add(self, exchange: RecordedExchange) -> None:
        request = exchange.request
        assert isinstance(request, ExchangeBegan)
        if is_watch(request):
            self._watches.setdefault(self._collection(request), deque()).append(exchange)
            return
        path = request.target.partition("?")[0]
        self._answers[request.method, request.target, request.body] = exchange
        self._answers[request.method, request.target, b""] = exchange
        if is_collection(path):  # of a create
            path = f"{path}/{_name_of(exchange)}"
        self._stored[path] = exchange

    def answer(self, request: ExchangeBegan, accept: str) -> RecordedExchange | None:
        """Return the exchange of a request, which has the answer; None if there is none.

        Args:
            request: of the start.
            accept: its header of this name.
        """
        path = request.target.partition("?")[0]
        if request.method == "GET" and is_collection(path):
            return self._answer_collection(request, metadata_only=_METADATA.kind in accept)
        # Of an object, the last state that was read or written counts, also for a write: it changes nothing.
        exchange = (
            self._stored.get(path)
            or self._answers.get((request.method, request.target, request.body))
            or self._answers.get((request.method, request.target, b""))
        )
        return _again(exchange) if exchange is not None else None

    def _answer_collection(self, request: ExchangeBegan, *, metadata_only: bool) -> RecordedExchange | None:
        collection = self._collection(request)
        cached = self._collections.get((collection, metadata_only))
        if cached is None:
            return None
        if not is_watch(request):
            return _exchange(request, _list_of(cached))
        watches = self._watches.get(collection)
        if not watches:
            return None
        watch = watches.popleft()
        outcomes = [_at_once(watch.outcomes.popleft()[1])]
        if "sendInitialEvents" in request.target:
            # Behind the head of the response.
            outcomes.append((0, Received(BEFORE_CHECKPOINT, watch.number, _events_of(cached))))
        watch.outcomes.extendleft(reversed(outcomes))
        return watch

    def _collection(self, request: ExchangeBegan) -> str:
        return collection_of(request.target.removeprefix(self._base_path))


def _name_of(exchange: RecordedExchange) -> str:
    try:
        return str(msgspec.json.decode(_body_of(exchange))["metadata"]["name"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""


def _body_of(exchange: RecordedExchange) -> bytes:
    return b"".join(outcome.data for _, outcome in exchange.outcomes if isinstance(outcome, Received))


def _again(exchange: RecordedExchange) -> RecordedExchange:
    """Return a copy of an exchange: a start may send a request again."""
    outcomes = [_at_once(outcome) for _, outcome in exchange.outcomes]
    return RecordedExchange(exchange.request, exchange.number, deque(outcomes))


def _at_once(outcome: Outcome) -> tuple[int, Outcome]:
    """Return an outcome that nothing waits for."""
    return 0, replace(outcome, iteration=BEFORE_CHECKPOINT)


def _exchange(request: ExchangeBegan, body: bytes) -> RecordedExchange:
    number = request.exchange
    head = Responded(0, number, 200, {"content-type": "application/json"})
    parts: list[Outcome] = [head, Received(0, number, body), Received(0, number, b"", is_end=True)]
    return RecordedExchange(request, number, deque(map(_at_once, parts)))


def _list_of(cached: RecordedCollection) -> bytes:
    gvk = _kind_of(cached)
    head = {
        "kind": f"{gvk.kind}List",
        "apiVersion": gvk.api_version,
        "metadata": {"resourceVersion": cached.informer.resource_version},
    }
    return msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(cached.items) + b"]}"


def _events_of(cached: RecordedCollection) -> bytes:
    """Return the events with which a streaming list begins."""
    gvk = _kind_of(cached)
    bookmark = {
        "kind": gvk.kind,
        "apiVersion": gvk.api_version,
        "metadata": {
            "resourceVersion": cached.informer.resource_version,
            "annotations": {INITIAL_EVENTS_END: "true"},
        },
    }
    lines = [b'{"type":"ADDED","object":' + item + b"}\n" for item in cached.items]
    return b"".join(lines) + b'{"type":"BOOKMARK","object":' + msgspec.json.encode(bookmark) + b"}\n"


def _kind_of(cached: RecordedCollection) -> GroupVersionKind:
    return _METADATA if cached.informer.metadata_only else GroupVersionKind(*cached.informer.gvk)
