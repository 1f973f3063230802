"""The state of an operator that waits: what a replay needs to begin there instead of at the start of the process.

Where the operator has no work, all that it knows is in its caches and in its queues. So a checkpoint needs a moment
without a reconcile, without a request except watches, and without an own write that a watch has not shown.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, Protocol

import msgspec

from opsdk.apimachinery.object import PartialObjectMetadata
from opsdk.cache.informer import Informer
from opsdk.cache.list_watch import RestListerWatcher
from opsdk.cache.reflector import ReflectorState
from opsdk.cluster.cluster import Cluster
from opsdk.controller.controller import Controller, ControllerState
from opsdk.event.request import Request
from opsdk.manager.leader_election.leader_elector import ELECTION_SLEEP, LeaderElector
from opsdk.manager.manager import Manager
from opsdk.queue.core import SavedItem
from opsdk.recording.open_exchanges import collection_of
from opsdk.recording.recorder import ExchangeRecorder
from opsdk.recording.records import (
    CachedCollection,
    CachedObjects,
    CheckpointBegan,
    CheckpointEnded,
    EventSeriesRecord,
    HeldRequest,
    QueuedRequest,
    Record,
    RecordedCause,
    RecordedController,
    RepeatedRequest,
)

__all__ = ["take_checkpoint"]

_BATCH: Final = 200
"""Objects of one record."""


class RecordedOperator(Protocol):
    """What a checkpoint has of an operator."""

    @property
    def manager(self) -> Manager:
        """Its manager."""
        ...

    @property
    def cluster(self) -> Cluster:
        """Its cluster."""
        ...

    @property
    def controllers(self) -> Mapping[str, Controller]:
        """Its controllers."""
        ...


def take_checkpoint(operator: RecordedOperator, recorder: ExchangeRecorder) -> Iterable[Record] | None:
    """Return the state of an operator; None if it works, or has state that a replay could not give it.

    Call it between two iterations of the event loop, when nothing is ready. The objects of the caches are decompressed
    while the caller iterates: do that once, in any thread.

    Args:
        operator: that runs.
        recorder: of its exchanges.
    """
    if not recorder.exchanges.is_quiet or len(recorder.exchanges.servers) > 1:
        return None
    informers = [informer for cache in operator.cluster.caches() for informer in cache.informers()]
    if not all(map(_is_current, informers)):
        return None
    election, sleeps = operator.manager.leadership.election, recorder.sleeps.ends()
    if election is not None and not any(name.startswith(ELECTION_SLEEP) for name, _ in sleeps):
        return None  # a request about the lease is about to be sent
    events = operator.cluster.recorder.save() if operator.cluster.has_recorder else []
    queues = [_queue_of(controller, recorder.loop.time()) for controller in operator.controllers.values()]
    queued = [queue for queue in queues if queue is not None]
    if events is None or len(queued) != len(queues):
        return None
    # Not that of the selected namespaces: its cache starts it.
    of_reads = [informer for kind in operator.cluster.cache.kinds() for informer in kind.informers.values()]
    return chain(
        [_begin(operator, recorder, tuple(sleeps))],
        *[_objects_of(informer, by_reads=informer in of_reads) for informer in informers],
        *queued,
        [EventSeriesRecord(each.event, each.last.isoformat(), each.sent) for each in events],
        list(recorder.exchanges.records()),
        [CheckpointEnded(recorder.loop.iteration)],
    )


def _begin(
    operator: RecordedOperator, recorder: ExchangeRecorder, sleeps: tuple[tuple[str, float], ...]
) -> CheckpointBegan:
    loop, leadership = recorder.loop, operator.manager.leadership
    election = leadership.election
    times = election.rules.save_times() if isinstance(election, LeaderElector) else None
    return CheckpointBegan(
        iteration=loop.iteration,
        time=loop.time(),
        wall=loop.wall_origin,
        sleeps=sleeps,
        lease_times=msgspec.msgpack.encode(times) if times is not None else b"",
        leads_since=leadership.began_at,
        thread_calls=recorder.thread_calls(),
        sliced=recorder.sliced,
        random=recorder.random.getstate(),
        process_random=random.getstate(),
    )


def _is_current(informer: Informer) -> bool:
    """Whether an informer has shown everything that it knows, and a replay can list and watch as it does."""
    return (
        informer.has_synced
        and informer.reflector.state is ReflectorState.WATCHING
        and not len(informer.store.own)
        and isinstance(informer.source, RestListerWatcher)
    )


def _objects_of(informer: Informer, *, by_reads: bool) -> Iterator[Record]:
    source = informer.source
    assert isinstance(source, RestListerWatcher)
    gvk, collection = source.kind.gvk, collection_of(source.list_target)
    cached = CachedCollection(
        collection=collection,
        gvk=(gvk.group, gvk.version, gvk.kind),
        metadata_only=source.kind.representation is PartialObjectMetadata,
        by_reads=by_reads,
        resource_version=informer.reflector.resource_version,
        history=msgspec.msgpack.encode(informer.reflector.save_history()),
    )
    # The entries do not change. To decompress 50,000 of them here would block the event loop for half a second.
    entries = list(informer.store.entries(own_writes=False))

    def records() -> Iterator[Record]:
        yield cached
        for start in range(0, len(entries), _BATCH):
            yield CachedObjects(collection, tuple(entry.data for entry in entries[start : start + _BATCH]))

    return records()


def _queue_of(controller: Controller, now: float) -> Sequence[Record] | None:
    """Return a controller with its queue; None if it works, or has requests that are no keys of objects."""
    core, state = controller.queue.core, controller.state
    is_waiting = state is ControllerState.NEW or (state is ControllerState.RUNNING and not core.has_ready(now))
    items = core.save() if is_waiting and controller.sources.is_idle else None
    if items is None or not all(isinstance(saved.item, Request) for saved in items):
        return None
    recorded = RecordedController(controller.name, state.value, core.paused, controller.reconcile_ids.last)
    requests = (_request_of(controller, each) for each in items)
    return [recorded, *requests, *_held_by(controller), *_passes_of(controller)]


def _passes_of(controller: Controller) -> Iterator[RepeatedRequest]:
    for request, passes in controller.hot_loops.own_passes.items():
        if isinstance(request, Request):
            key = (request.namespace, request.name, request.cluster)
            yield RepeatedRequest(controller.name, key, msgspec.msgpack.encode(passes))


def _held_by(controller: Controller) -> Iterator[HeldRequest]:
    if controller.chain.gate is not None:
        for key, (pause, causes) in controller.chain.gate.book.held.items():
            encoded = msgspec.msgpack.encode(pause)
            yield HeldRequest(controller.name, key.namespace, key.name, encoded, causes.all())


def _request_of(controller: Controller, saved: SavedItem[Request]) -> QueuedRequest:
    return QueuedRequest(
        controller=controller.name,
        request=(saved.item.namespace, saved.item.name, saved.item.cluster),
        priority=saved.priority,
        ready_at=saved.ready_at,
        queued_at=saved.queued_at,
        failures=controller.queue.rate_limiter.num_requeues(saved.item),
        streak=controller.requeue.streaks.get(saved.item),
        causes=tuple(_causes_of(saved)),
    )


def _causes_of(saved: SavedItem[Request]) -> Iterable[RecordedCause]:
    yield from (RecordedCause(None, cause) for cause in saved.causes)
    yield from (RecordedCause(happens_at, cause) for happens_at, cause in saved.later)
