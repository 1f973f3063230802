"""Runs an operator again from a recording."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from opsdk.aio.garbage import rare_collections
from opsdk.aio.randomness import RANDOM
from opsdk.builder.operator import Operator
from opsdk.engine.connections import refuse_connections
from opsdk.engine.determinism import seeded_entropy
from opsdk.engine.replay.backend import Divergence, ReplayBoundary
from opsdk.engine.replay.loop import RecordingEnd, ReplayLoop
from opsdk.engine.replay.timeline import Timeline
from opsdk.recording.boundary import BOUNDARY
from opsdk.recording.records import ExchangeBegan
from opsdk.rest.config import Config

__all__ = ["ReplayOutcome", "replay_operator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """What a replay did.

    Attributes:
        operator: at the end, with its journal.
        requests: number of requests in the recording, until the end of the replay.
        identical: number of requests that the replay sent in the same iteration, byte for byte.
        divergences: requests that differ, in order.
        unsent: requests of the recording that the replay did not send.
        failure: why the operator ended by itself; empty if it did not.
        seconds: of virtual time.
        problem: why the recording ends early; empty if it does not.
    """

    operator: Operator
    requests: int
    identical: int
    divergences: Sequence[Divergence]
    unsent: Sequence[ExchangeBegan]
    failure: str
    seconds: float
    problem: str

    @property
    def is_identical(self) -> bool:
        """Whether the replay sent each request of the recording, and no other one."""
        return not self.divergences and not self.unsent


def replay_operator(
    timeline: Timeline, factory: Callable[[], Operator], *, prepare: Callable[[Operator], None] = lambda _: None
) -> ReplayOutcome:
    """Run an operator again. Must not be called from a running event loop.

    Args:
        timeline: of the recording.
        factory: creates the operator.
        prepare: called with the operator before its start.
    """
    began = timeline.began
    loop = ReplayLoop(timeline)
    if timeline.end is not None:
        loop.end_at(timeline.end)
    boundary = ReplayBoundary(timeline, loop)
    run = _Run(timeline, factory, prepare, boundary, loop)
    with (
        rare_collections(),
        seeded_entropy(began.seed),
        _environment(began.environment),
        refuse_connections(()),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        with suppress(RecordingEnd):
            runner.run(run.run())
        seconds = loop.time()
        end = timeline.end if timeline.end is not None else timeline.last_iteration
        outcome = ReplayOutcome(
            operator=run.operator,
            requests=sum(each.request.iteration <= end for each in timeline.exchanges),
            identical=boundary.identical,
            divergences=tuple(boundary.divergences),
            unsent=tuple(each for each in boundary.unsent() if each.iteration <= end),
            failure=run.failure,
            seconds=seconds,
            problem=timeline.problem,
        )
        # The operator's tasks are cancelled now, and end in virtual time.
        loop.leave_recording()
    return outcome


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment during the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Run:
    def __init__(
        self,
        timeline: Timeline,
        factory: Callable[[], Operator],
        prepare: Callable[[Operator], None],
        boundary: ReplayBoundary,
        loop: ReplayLoop,
    ) -> None:
        self._timeline, self._factory, self._prepare = timeline, factory, prepare
        self._boundary, self._loop = boundary, loop
        self.operator: Operator
        self.failure = ""

    async def run(self) -> None:
        began = self._timeline.began
        await self._loop.wait_until(began.iteration)
        BOUNDARY.set(self._boundary)
        RANDOM.set(random.Random(began.seed))  # noqa: S311 - repeatable on purpose
        self.operator = self._factory()
        self._prepare(self.operator)
        try:
            manager = self.operator.prepare(Config(host=began.host, namespace=began.namespace))
            if self._timeline.stop is not None:
                self._loop.call_in(self._timeline.stop, manager.stop)
            await self.operator.start_prepared()
        except Exception as error:  # noqa: BLE001 - what the operator may raise, too
            self.failure = f"{type(error).__name__}: {error}"
