"""Brings an operator that has just started into the state of a checkpoint."""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import kind_for
from opsdk.apimachinery.object import PartialObjectMetadata, Unstructured
from opsdk.builder.operator import Operator
from opsdk.cache.list_watch import RestListerWatcher
from opsdk.cache.watch_history import SavedHistory
from opsdk.client.recorder.correlator import SavedEvent
from opsdk.controller.controller import Controller
from opsdk.controller.pausing import Pause
from opsdk.controller.retries import FailureStreak
from opsdk.controller.steps.hot_loops import OwnPasses
from opsdk.engine.replay.timeline import Checkpoint
from opsdk.event.request import Request
from opsdk.manager.leader_election.leader_election_record import SavedTimes
from opsdk.manager.leader_election.leader_elector import LeaderElector
from opsdk.queue.core import SavedItem
from opsdk.recording.open_exchanges import collection_of
from opsdk.recording.records import QueuedRequest

__all__ = ["hold_queues", "restore", "start_what_ran"]


def hold_queues(operator: Operator) -> None:
    """Let no reconcile begin until `restore`. The operator is prepared, and has not started."""
    for controller in operator.controllers.values():
        controller.queue.hold()


async def start_what_ran(operator: Operator, checkpoint: Checkpoint) -> None:
    """Start what the operator has started since its own start: informers of reads, and the recorder of Events."""
    if checkpoint.events:
        _ = operator.cluster.recorder  # its first use starts it
    cached = [each.informer for each in checkpoint.collections if each.informer.by_reads]
    for informer in sorted(cached, key=attrgetter("metadata_only")):
        form = PartialObjectMetadata if informer.metadata_only else Unstructured
        await operator.cluster.cache.informer_for(kind_for(GroupVersionKind(*informer.gvk), form))


def restore(operator: Operator, checkpoint: Checkpoint, now: float) -> str:
    """Bring an operator into the state of a checkpoint. Returns why that is not possible; empty if it is.

    Args:
        operator: has started.
        checkpoint: of its recording.
        now: the time of the event loop.
    """
    for recorded in checkpoint.controllers:
        controller = operator.controllers.get(recorded.controller)
        if controller is None:
            return f"the operator has no controller {recorded.controller}, which the recording has"
        if controller.state.value != recorded.state:
            return f"controller {recorded.controller} is {controller.state.value}, and was {recorded.state} then"
    _restore_informers(operator, checkpoint)
    _restore_election(operator, checkpoint)
    if checkpoint.events:
        operator.cluster.recorder.restore(
            SavedEvent(event=each.event, last=datetime.fromisoformat(each.last), sent=each.sent)
            for each in checkpoint.events
        )
    for controller in operator.controllers.values():
        _restore_controller(controller, checkpoint, now)
    return ""


def _restore_election(operator: Operator, checkpoint: Checkpoint) -> None:
    leadership = operator.manager.leadership
    leadership.began_at = checkpoint.began.leads_since
    if isinstance(leadership.election, LeaderElector) and (times := checkpoint.began.lease_times):
        leadership.election.rules.restore_times(msgspec.msgpack.decode(times, type=SavedTimes))


def _restore_controller(controller: Controller, checkpoint: Checkpoint, now: float) -> None:
    queued = [each for each in checkpoint.queued if each.controller == controller.name]
    for each in queued:
        _restore_failures(controller, each, now)
    for held in checkpoint.held:
        if controller.chain.gate is not None and held.controller == controller.name:
            pause = msgspec.msgpack.decode(held.pause, type=Pause)
            controller.chain.gate.book.hold(ObjectKey(held.namespace, held.name), pause, held.causes)
    for own in checkpoint.passes:
        if own.controller == controller.name:
            passes = msgspec.msgpack.decode(own.passes, type=OwnPasses)
            controller.hot_loops.own_passes[Request(*own.request)] = passes
    for recorded in checkpoint.controllers:
        if recorded.controller == controller.name:
            controller.queue.core.paused = recorded.paused
            controller.reconcile_ids.continue_after(recorded.last_id)
    controller.queue.restore(map(_saved, queued))


def _restore_informers(operator: Operator, checkpoint: Checkpoint) -> None:
    histories = {
        (each.informer.collection, each.informer.metadata_only): each.informer.history
        for each in checkpoint.collections
    }
    for cache in operator.cluster.caches():
        for informer in cache.informers():
            source = informer.source
            assert isinstance(source, RestListerWatcher)
            is_metadata = source.kind.representation is PartialObjectMetadata
            if history := histories.get((collection_of(source.list_target), is_metadata)):
                informer.reflector.restore_history(msgspec.msgpack.decode(history, type=SavedHistory))


def _restore_failures(controller: Controller, queued: QueuedRequest, now: float) -> None:
    request = Request(*queued.request)
    for _ in range(queued.failures):
        controller.queue.rate_limiter.when(request, now=now)
    if queued.streak is not None:
        controller.requeue.streaks.restore(request, FailureStreak(*queued.streak))


def _saved(queued: QueuedRequest) -> SavedItem[Request]:
    return SavedItem(
        item=Request(*queued.request),
        priority=queued.priority,
        ready_at=queued.ready_at,
        queued_at=queued.queued_at,
        causes=tuple(each.cause for each in queued.causes if each.happens_at is None),
        later=tuple((each.happens_at, each.cause) for each in queued.causes if each.happens_at is not None),
    )
