"""Runs an operator again from a recording, to any place of it, and shows what it saw there."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Self

import msgspec

from opsdk.aio.blocking import THREAD_ORDER
from opsdk.aio.named_sleep import SLEEPS, NamedSleeps
from opsdk.aio.randomness import RANDOM, seeded
from opsdk.aio.slicer import SLICE_ENDS
from opsdk.aio.virtual_loop import DeadlockError
from opsdk.builder.operator import Operator
from opsdk.controller.journal import Journal, ReconcileRecord
from opsdk.engine.determinism import environment_variables
from opsdk.engine.replay.boundary import Divergence, ReplayBoundary, SentWrite
from opsdk.engine.replay.loop import RecordingEnd, ReplayLoop
from opsdk.engine.replay.restoring import hold_queues, restore, start_what_ran
from opsdk.engine.replay.threads import ReplayedThreads
from opsdk.engine.replay.timeline import Checkpoint, Timeline
from opsdk.engine.world.runner import closed_process
from opsdk.errors import OpsdkError, UsageError
from opsdk.recording.boundary import BOUNDARY
from opsdk.recording.files import RecordingError
from opsdk.recording.process import code_digest
from opsdk.recording.records import CallBegan, ExchangeBegan, RecordingBegan
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject

__all__ = ["OperatorReplay", "PlaceKind", "ReplayOutcome", "ReplayPlace"]


# Python prints warnings if there is no handler.
logging.getLogger("opsdk").addHandler(logging.NullHandler())


class PlaceKind(Enum):
    """Where a replay stops."""

    END = "end"
    """At the end of the recording."""
    TIME = "time"
    """At the first iteration of a time, in seconds of the event loop."""
    RECONCILE = "reconcile"
    """When so many reconciles have ended."""
    WRITE = "write"
    """When so many writes were sent, before their response."""


class ReplayPlace(msgspec.Struct, frozen=True):
    """A place in a recording.

    >>> ReplayPlace(PlaceKind.RECONCILE, 3).number
    3
    """

    kind: PlaceKind = PlaceKind.END
    number: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """What a replay has done so far.

    Attributes:
        requests: number of requests in the recording until here.
        identical: number of requests that the replay sent in the same iteration, byte for byte.
        divergences: requests that differ, in order.
        unsent: requests of the recording until here that the replay did not send.
        failure: why the operator ended by itself; empty if it did not.
        is_over: whether the recording has ended here.
        seconds: of the event loop.
    """

    requests: int = 0
    identical: int = 0
    divergences: Sequence[Divergence] = ()
    unsent: Sequence[ExchangeBegan | CallBegan] = ()
    failure: str = ""
    is_over: bool = False
    seconds: float = 0.0

    @property
    def is_identical(self) -> bool:
        """Whether the replay sent each request of the recording, and no other one."""
        return not self.divergences and not self.unsent


class OperatorReplay:
    """An operator that runs again from its recording; a context manager. Not in a running event loop.

    ::

        with OperatorReplay(Timeline(records), make_operator) as replay:
            replay.run(ReplayPlace(PlaceKind.RECONCILE, 3))
            print(replay.reconciles[-1])

    Args:
        timeline: of the recording. A replay uses it up.
        factory: creates the operator.
    """

    def __init__(self, timeline: Timeline, factory: Callable[[], Operator]) -> None:
        self.timeline = timeline
        self._factory = factory
        self._loop = ReplayLoop(timeline)
        self._boundary = ReplayBoundary(timeline, self._loop, on_write=self._on_write)
        self._threads = ReplayedThreads(timeline, self._loop)
        self._journal = _UnlimitedJournal(self._on_reconcile)
        self._stack = ExitStack()
        self._operator: Operator | None = None
        self._failure = self._start_problem = ""
        seed = timeline.began.seed
        self._random = seeded(seed)
        self._sleeps = NamedSleeps()
        self._slices = _RecordedSlices(timeline)
        self._target = ReplayPlace()
        self._main: asyncio.Task[None] | None = None
        self._is_over = False
        self._outcome = ReplayOutcome()

    def __enter__(self) -> Self:
        began = self.timeline.began
        # The loop is another one: it moves with the recording, not to the next timer.
        self._stack.enter_context(closed_process(began.seed, subject="the replay"))
        self._stack.enter_context(environment_variables(began.environment))
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._run(), name="replay")
        self._main.add_done_callback(self._on_end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end_tasks()
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()
            self._stack.close()

    def _end_tasks(self) -> None:
        """Cancel the operator, which ends in virtual time, with servers that do not answer."""
        self._loop.leave_recording()
        self._threads.release()
        self._journal.close()
        assert self._main is not None
        self._main.remove_done_callback(self._on_end)
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        with _without_logs(), suppress(DeadlockError):
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _on_end(self, _: asyncio.Task[None]) -> None:
        self._loop.stop()

    async def _run(self) -> None:
        began, checkpoint = self.timeline.began, self.timeline.checkpoint
        if checkpoint is None:
            await self._loop.wait_until(began.iteration)
        BOUNDARY.set(self._boundary)
        THREAD_ORDER.set(self._threads)
        RANDOM.set(self._random)
        SLEEPS.set(self._sleeps)
        SLICE_ENDS.set(self._slices)
        operator = self._operator = self._factory()
        operator.journal = self._journal
        operator.follows_definitions = False
        try:
            self._boundary.certificates = operator.options.webhook.certificates
            manager = operator.prepare(config_of(began))
            if self.timeline.stop is not None:
                self._loop.call_in(self.timeline.stop, manager.stop, place=self.timeline.stop_place)
            if checkpoint is not None:
                hold_queues(operator)
                self._loop.call_in(checkpoint.began.iteration, partial(self._restore, checkpoint))
                await start_what_ran(operator, checkpoint)
            await operator.start_prepared()
        except Exception as error:  # noqa: BLE001 - what the operator may raise, too
            self._failure = f"{type(error).__name__}: {error}"

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Bring the operator into the state of the checkpoint, in the iteration that ended with it."""
        try:
            self._random.setstate(checkpoint.began.random)
            random.setstate(checkpoint.began.process_random)
            self._sleeps.move(checkpoint.began.sleeps)
            self._threads.continue_after(checkpoint.began.thread_calls)
            self._slices.continue_after(checkpoint.began.sliced)
            problem = restore(self.operator, checkpoint, self._loop.time())
        except (msgspec.MsgspecError, OpsdkError, TypeError, ValueError) as error:
            problem = f"it is damaged: {error}"
        if problem:
            self._start_problem = "; ".join((problem, *self._boundary.unanswered))
            self._loop.stop()

    # -------------------------------------------------------------- places
    def run(self, target: ReplayPlace = ReplayPlace()) -> ReplayOutcome:  # noqa: B008 - frozen
        """Run to a place, or to the end of the recording if it has no such place. The replay never goes back.

        Raises what the factory of the operator raised, and `RecordingError` if the operator cannot be brought into the
        state of the recording's checkpoint.
        """
        self._target = target
        if not self._is_over and not self._is_reached():
            if target.kind is PlaceKind.TIME:
                self._loop.pause_at(self.timeline.iteration_at(target.number))
            try:
                self._loop.run_forever()
                self._is_over = True
            except RecordingEnd as end:
                self._is_over = not end.is_pause
            if self._start_problem:
                raise RecordingError(f"the replay cannot begin with the checkpoint: {self._start_problem}")
            self._raise_failure_of_factory()
        self._outcome = self._outcome_here()
        return self._outcome

    def _raise_failure_of_factory(self) -> None:
        # What the operator raises is in the outcome. Without an operator there is nothing to replay.
        if self._main is not None and self._main.done():
            self._main.result()

    @property
    def outcome(self) -> ReplayOutcome:
        """What the replay had done at the end of its last run."""
        return self._outcome

    def _outcome_here(self) -> ReplayOutcome:
        boundary, here = self._boundary, self._loop.iteration
        requests = [exchange.request for exchange in self.timeline.exchanges]
        if not self._is_over:
            requests = [request for request in requests if request.iteration <= here]
        unsent = {id(request) for request in boundary.unsent()}
        return ReplayOutcome(
            requests=len(requests),
            identical=boundary.identical,
            divergences=tuple(boundary.divergences),
            unsent=tuple(request for request in requests if id(request) in unsent),
            failure=self._failure,
            is_over=self._is_over,
            seconds=self._loop.time(),
        )

    @property
    def reconciles(self) -> Sequence[ReconcileRecord]:
        """The reconciles that have ended, in order."""
        return self._journal.records

    @property
    def writes(self) -> Sequence[SentWrite]:
        """The writes that were sent, in order, except those of leases, Events and reviews."""
        return self._boundary.writes

    @property
    def has_operator(self) -> bool:
        """Whether the replay has come to the start of the operator."""
        return self._operator is not None

    @property
    def operator(self) -> Operator:
        """The operator. Raises `UsageError` at a place before its start."""
        if self._operator is None:
            raise UsageError("the operator has not started there: name a later place")
        return self._operator

    @property
    def code(self) -> str:
        """The digest of the operator's code, see `RecordingBegan`."""
        return code_digest(self.operator.modules)

    @property
    def wall(self) -> datetime:
        """The UTC time at this place."""
        return self._loop.wall()

    @property
    def iteration(self) -> int:
        """The iteration of the event loop at this place."""
        return self._loop.iteration

    def objects(self) -> Iterator[JsonObject]:
        """Yield the objects in the caches of the operator at this place, as it sees them."""
        for kind in self.operator.cluster.cache.kinds():
            for entry in kind.entries():
                tree = msgspec.json.decode(entry.data)
                gvk = kind.gvk
                yield {"apiVersion": gvk.api_version, "kind": gvk.kind, **tree}

    def _is_reached(self) -> bool:
        match self._target.kind:
            case PlaceKind.RECONCILE:
                return len(self.reconciles) >= self._target.number
            case PlaceKind.WRITE:
                return len(self.writes) >= self._target.number
            case PlaceKind.TIME:
                return self._loop.time() >= self._target.number
            case PlaceKind.END:
                return False

    def _on_reconcile(self) -> None:
        if self._target.kind is PlaceKind.RECONCILE and self._is_reached():
            self._loop.pause_at(self._loop.iteration)

    def _on_write(self) -> None:
        if self._target.kind is PlaceKind.WRITE and self._is_reached():
            self._loop.pause_at(self._loop.iteration)

    def __repr__(self) -> str:
        return f"<OperatorReplay of {self.timeline.began.operator} at {self._loop.time():.6f} s>"


def config_of(began: RecordingBegan) -> RestConfig:
    """Return the configuration of a replay. What decides when requests are sent is that of the recording."""
    return RestConfig(
        host=began.host, namespace=began.namespace, qps=began.qps, burst=began.burst, timeout=began.timeout
    )


class _RecordedSlices:
    """The `SliceEnds` of a recording: slices end at the recorded objects; before a checkpoint, where they are full."""

    def __init__(self, timeline: Timeline) -> None:
        self._ends = timeline.slice_ends
        self._follows = timeline.checkpoint is None
        self._counted = Counter[str]()

    def ends(self, is_full: bool, once: str) -> bool:
        """See `SliceEnds`. A loop that ran once before the checkpoint has no ends after it."""
        number = self._counted[once]
        self._counted[once] += 1
        return (once, number) in self._ends if self._follows else is_full

    def continue_after(self, sliced: int) -> None:
        """Follow the recording from now on.

        Args:
            sliced: objects in slices before the checkpoint.
        """
        self._follows, self._counted = True, Counter({"": sliced})


class _UnlimitedJournal(Journal):
    """A journal that keeps each reconcile: a recording has an end."""

    def __init__(self, on_add: Callable[[], None]) -> None:
        super().__init__(size=1, max_bytes=0)
        self.records: list[ReconcileRecord] = []
        self._on_add = on_add
        self._is_closed = False

    def close(self) -> None:
        """Keep no more: the recording has been left."""
        self._is_closed = True

    def add(self, record: ReconcileRecord) -> None:
        """Keep a reconcile."""
        if not self._is_closed:
            self.records.append(record)
            self._on_add()


@contextmanager
def _without_logs() -> Iterator[None]:
    """Log nothing during the block: what is cancelled at the end of a replay did not happen."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
