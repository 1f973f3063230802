"""The order of tasks: a replay has that of the recording, whatever brought the results of calls, and how late.

A result comes from a socket, from another task, or with a timer of the connection. A replay has none of them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio.virtual_loop import VirtualLoop
from opsdk.engine.replay.boundary import ReplayBoundary
from opsdk.engine.replay.loop import RecordingEnd, ReplayLoop
from opsdk.engine.replay.report import outcome_lines
from opsdk.engine.replay.run import ReplayOutcome, config_of
from opsdk.engine.replay.timeline import Timeline
from opsdk.recording.boundary import Boundary, ExternalCall
from opsdk.recording.recorder import ExchangeRecorder, describe_start
from opsdk.recording.records import OperatorEnded, Record, RecordingBegan
from opsdk.rest.config import RestConfig


@dataclass(frozen=True)
class Call:
    """A call of an external system, whose result comes after some iterations, then after a time."""

    hops: int
    seconds: float


@dataclass(frozen=True)
class Sleep:
    """A sleep of the operator."""

    seconds: float


@dataclass(frozen=True)
class Put:
    """An item for the queue of all workers."""


@dataclass(frozen=True)
class Get:
    """An item of the queue, at most for a time."""

    seconds: float


Step = Call | Sleep | Put | Get
Log = list[tuple[int, int, str]]
TIMES = st.sampled_from([0.0, 0.001, 0.002])
STEPS = st.one_of(
    st.builds(Call, st.integers(0, 3), TIMES), st.builds(Sleep, TIMES), st.builds(Put), st.builds(Get, TIMES)
)
PROGRAMS = st.lists(st.lists(STEPS, max_size=6), min_size=1, max_size=4)


async def work(program: list[list[Step]], boundary: Boundary, log: Log, iteration: Callable[[], int]) -> None:
    """Run a worker for each list of steps. `log` gets the iteration, the worker and the result of each step."""
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def result_of(step: Call) -> str:
        for _ in range(step.hops):
            await asyncio.sleep(0)
        if step.seconds:
            await asyncio.sleep(step.seconds)
        return "result"

    async def do(number: int, step: Step) -> str:
        match step:
            case Call():
                call = ExternalCall(name=f"worker {number}", method=result_of, arguments=(step,))
                return str(await boundary.call(call))
            case Sleep(seconds=seconds):
                await asyncio.sleep(seconds)
                return "slept"
            case Put():
                queue.put_nowait(number)
                return "put"
            case Get(seconds=seconds):
                try:
                    async with asyncio.timeout(seconds):
                        return f"got {await queue.get()}"
                except TimeoutError:
                    return "nothing"

    async def worker(number: int, steps: list[Step]) -> None:
        for step in steps:
            result = await do(number, step)
            log.append((iteration(), number, result))

    await asyncio.gather(*(worker(number, steps) for number, steps in enumerate(program)))


def recorded(program: list[list[Step]]) -> tuple[list[Record], Log]:
    """Return the records of a program, and what its workers saw."""
    records: list[Record] = []
    log: Log = []
    loop = VirtualLoop()

    async def main() -> None:
        began = RecordingBegan(
            opsdk="", python="", operator="", wall=loop.wall_origin, seed=0, is_virtual=True, iteration=loop.iteration
        )
        records.append(began)
        recorder = ExchangeRecorder(records.append, loop, seed=0)
        loop.on_time.append(recorder.observe_time)
        await work(program, recorder, log, lambda: loop.iteration)
        records.append(OperatorEnded(loop.iteration))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    return records, log


def replayed(
    records: list[Record], program: Callable[[Boundary, ReplayLoop], Coroutine[Any, Any, None]]
) -> ReplayBoundary:
    """Run a program again. Returns the boundary, with the differences."""
    timeline = Timeline(records)
    loop = ReplayLoop(timeline)
    boundary = ReplayBoundary(timeline, loop)

    async def main() -> None:
        await loop.wait_until(timeline.began.iteration)
        await program(boundary, loop)

    main_task = loop.create_task(main())
    main_task.add_done_callback(lambda _: loop.stop())
    try:
        loop.run_forever()
    except RecordingEnd:
        pass
    finally:
        loop.leave_recording()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.gather(main_task, return_exceptions=True))
        loop.close()
    return boundary


@given(PROGRAMS)
@pytest.mark.slow
def test_a_replay_has_the_order_of_the_recording(program: list[list[Step]]) -> None:
    """Each step in its iteration, with its result: the order at a queue, and of timers that end at one time."""
    records, log = recorded(program)
    again: Log = []
    replayed(records, lambda boundary, loop: work(program, boundary, again, lambda: loop.iteration))
    assert again == log


# The other workers are there so that the recording has the times of the replay.
OTHERS: list[list[Step]] = [[Sleep(0.001), Sleep(0.001), Sleep(0.001), Sleep(0.001)]]
MOVED: dict[str, tuple[list[list[Step]], list[list[Step]], str, str]] = {
    "timer": (
        [[Sleep(0.001), Call(0, 0.0)]],
        [[Sleep(0.002), Call(0, 0.0)]],
        "the timer of 0.001000 s",
        "the timer of 0.002000 s",
    ),
    "callback": (
        [[Get(1.0), Call(0, 0.0)], [Sleep(0.001), Put()]],
        [[Get(1.0), Call(0, 0.0)], [Sleep(0.003), Put()]],
        "another task, after the timer of 0.001000 s",
        "another task, after the timer of 0.003000 s",
    ),
    "result": (
        [[Call(0, 0.001), Call(0, 0.0)]],
        [[Call(0, 0.001), Sleep(0.001), Call(0, 0.0)]],
        "the result of worker 0",
        "the timer of 0.002000 s",
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_the_report_names_what_moved(name: str) -> None:
    """Of a request at another time: iteration, time, task, and the timer or the result that woke it, on both sides."""
    program, other_program, woken_by, woken_again_by = MOVED[name]
    records, _ = recorded(program + OTHERS)
    boundary = replayed(
        records, lambda boundary, loop: work(other_program + OTHERS, boundary, [], lambda: loop.iteration)
    )
    [difference] = [each for each in boundary.divergences if "another time" in each.what]
    before, after = difference.details
    assert re.fullmatch(rf"recorded in iteration \d+ at 0\.00\d+ s by Task-\d+, woken by {woken_by}", before)
    assert re.fullmatch(rf"replayed in iteration \d+ at 0\.00\d+ s by Task-\d+, woken by {woken_again_by}", after)
    lines = [*outcome_lines(ReplayOutcome(divergences=boundary.divergences), ())]
    assert f"    {before}" in lines
    assert f"    {after}" in lines


def test_a_replay_has_the_limits_of_the_recorded_client() -> None:
    """They decide when a request is sent, and when it is given up."""
    config = RestConfig(host="http://localhost:1", namespace="shop", qps=2.5, burst=3, timeout=None)
    loop = VirtualLoop()
    began = describe_start(config, loop, operator="shop", seed=1)
    loop.close()
    assert config_of(began) == config
