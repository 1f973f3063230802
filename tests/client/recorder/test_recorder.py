"""The recorder: never in the way, and as complete as the server lets it be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from client_fakes import FakeExecutor, site

from opsdk.aio.fence import FENCE, check_fence
from opsdk.api.core.v1 import Node
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.client.operations import Create, PatchObject
from opsdk.client.recorder.recorder import EventRecorder
from opsdk.errors import (
    AlreadyExistsError,
    ConnectError,
    ForbiddenError,
    LeaderElectionLostError,
    NoMatchError,
    NotFoundError,
    OpsdkError,
    TooManyRequestsError,
)


class Server:
    """Takes events, after failing as it is told."""

    def __init__(self, *failures: Exception | None, seconds: float = 0.0) -> None:
        self.failures = list(failures)
        self.down: Exception | None = None
        self.seconds = seconds
        self.events: dict[str, Event] = {}
        self.tries: list[float] = []
        self.at_work = self.peak = 0

    async def execute(self, operation: Any) -> Any:
        self.at_work += 1
        self.peak = max(self.peak, self.at_work)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_work -= 1
        self.tries.append(asyncio.get_running_loop().time())
        failure = self.failures.pop(0) if self.failures else self.down
        if failure is not None:
            raise failure
        event = operation.obj
        if isinstance(operation, Create):
            if event.metadata.name in self.events:
                raise AlreadyExistsError(event.metadata.name)
            self.events[event.metadata.name] = event
        elif isinstance(operation, PatchObject):
            if event.metadata.name not in self.events:
                raise NotFoundError(event.metadata.name)
            self.events[event.metadata.name] = event
        return event

    def recorder(self) -> EventRecorder:
        """A recorder that writes to it."""
        executor: Any = FakeExecutor()
        executor.execute = self.execute
        return EventRecorder(Client(executor), "site-operator")


def tell(recorder: EventRecorder, reason: str = "Created", **options: Any) -> None:
    """Something happened to a site."""
    recorder.event(site(), "Normal", reason, "a note", **options)


async def test_an_event_says_what_happened() -> None:
    """Every field, as the server wants it."""
    server = Server()
    recorder = server.recorder()
    recorder.open()
    pod = Unstructured("v1", "Pod", ObjectMeta(name="p", namespace="ns", uid="u"))
    recorder.event(site(uid="s"), "Warning", "Broken", "the words", action="Repairing", related=pod)
    await recorder.aclose()
    (event,) = server.events.values()
    assert (event.type, event.reason, event.action, event.note) == ("Warning", "Broken", "Repairing", "the words")
    assert (event.regarding.kind, event.regarding.name, event.regarding.uid) == ("Site", "a", "s")
    assert event.related.name == "p"
    assert (event.metadata.namespace, event.reporting_controller) == ("ns", "site-operator")
    assert event.reporting_instance.startswith("site-operator-")
    assert len(event.reporting_instance) <= 128
    assert recorder.dropped == 0


@pytest.mark.behaviour(135)
async def test_cluster_scoped_objects_report_to_default() -> None:
    """Events of cluster-scoped objects are in default; a missing action is the reason."""
    server = Server()
    recorder = server.recorder()
    recorder.open()
    recorder.event(Node(metadata=ObjectMeta(name="n")), "Normal", "Seen", "x")
    await recorder.aclose()
    (event,) = server.events.values()
    assert (event.metadata.namespace, event.action) == ("default", "Seen")


@pytest.mark.behaviour(135)
async def test_repetitions_are_a_series_with_a_count() -> None:
    """Repetitions are one event whose count is written at intervals and at the end."""
    server = Server()
    recorder = server.recorder()
    recorder.open()
    for _ in range(100):
        tell(recorder)
        await asyncio.sleep(30)
    (event,) = server.events.values()
    assert event.series is not None
    assert 80 <= event.series.count <= 100
    assert len(server.tries) <= 12
    tell(recorder)
    await recorder.aclose()
    (event,) = server.events.values()
    assert event.series.count == 101


async def test_events_before_the_start_are_kept() -> None:
    """An event before the start is written when the recorder opens."""
    server = Server()
    recorder = server.recorder()
    tell(recorder)
    recorder.open()
    recorder.open()
    await asyncio.sleep(1)
    assert len(server.events) == 1
    await recorder.aclose()


@pytest.mark.behaviour(135)
async def test_after_the_end_events_are_dropped_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """No error, no task, one log line; opening again does nothing."""
    server = Server()
    recorder = server.recorder()
    recorder.open()
    await recorder.aclose()
    await recorder.aclose()
    tell(recorder)
    recorder.open()
    await asyncio.sleep(1)
    assert server.events == {}
    assert recorder.dropped == 1
    assert [record.getMessage() for record in caplog.records] == [
        "dropped an Event of site-operator (1 so far): the recorder is closed"
    ]


async def test_an_outage_is_waited_out() -> None:
    """A retryable error is retried with growing waits, or after the server's Retry-After."""
    server = Server(ConnectError("down"), NoMatchError("not yet"), TooManyRequestsError("slow", retry_after=60), None)
    recorder = server.recorder()
    recorder.open()
    tell(recorder)
    await asyncio.sleep(200)
    assert len(server.events) == 1
    assert server.tries[3] - server.tries[2] >= 60
    await recorder.aclose()


async def test_tries_come_to_an_end() -> None:
    """After a dozen tries an event is dropped and counted, and the next one is sent."""
    server = Server()
    server.down = ConnectError("down")
    recorder = server.recorder()
    recorder.open()
    tell(recorder)
    await asyncio.sleep(500)
    assert recorder.dropped == 1
    server.down = None
    tell(recorder, "Other")
    await asyncio.sleep(1)
    assert len(server.events) == 1
    await recorder.aclose()


@pytest.mark.parametrize("error", [ForbiddenError("no"), NotFoundError("namespace"), OpsdkError("a bug")])
async def test_permanent_errors_drop_the_event(error: OpsdkError) -> None:
    """An event with a permanent error is tried once, dropped and counted."""
    server = Server(error)
    recorder = server.recorder()
    recorder.open()
    tell(recorder)
    await asyncio.sleep(100)
    assert (len(server.tries), recorder.dropped) == (1, 1)
    await recorder.aclose()


async def test_a_bug_in_writing_stops_one_event_only(caplog: pytest.LogCaptureFixture) -> None:
    """An unforeseen exception is logged and counted; the recorder goes on."""
    server = Server(ZeroDivisionError())
    recorder = server.recorder()
    recorder.open()
    tell(recorder)
    await asyncio.sleep(1)
    for n in range(20):
        tell(recorder, f"R{n}")
    await asyncio.sleep(1)
    assert len(server.events) == 20
    assert recorder.dropped == 1
    assert "failed unexpectedly" in caplog.text
    await recorder.aclose()


async def test_an_answer_that_was_lost_is_no_second_event() -> None:
    """The retry finds the event there: all is well."""
    server = Server()
    recorder = server.recorder()
    recorder.open()
    stored = server.execute

    async def lose_the_first(operation: Any) -> Any:
        result = await stored(operation)
        if len(server.tries) == 1:
            raise ConnectError("lost")
        return result

    server.execute = lose_the_first  # type: ignore[method-assign]
    tell(recorder)
    await asyncio.sleep(10)
    assert (len(server.events), recorder.dropped) == (1, 0)
    await recorder.aclose()


async def test_a_series_whose_event_has_expired_becomes_a_new_one() -> None:
    """The server keeps events for an hour or so."""
    server = Server()
    recorder = server.recorder()
    recorder.open()
    tell(recorder)
    await asyncio.sleep(1)
    server.events.clear()
    tell(recorder)
    await asyncio.sleep(1)
    assert len(server.events) == 1
    await recorder.aclose()


@pytest.mark.behaviour(135)
async def test_the_queue_is_bounded() -> None:
    """While the server is away a thousand events wait, others are dropped and counted; recording never blocks."""
    server = Server(seconds=10**6)
    recorder = server.recorder()
    recorder.open()
    for n in range(1500):
        recorder.event(site(name=f"a{n}"), "Normal", "Created", "a note")
    assert recorder.dropped == 500
    assert asyncio.get_running_loop().time() == 0
    await recorder.aclose(shutdown_timeout=3)
    assert asyncio.get_running_loop().time() == pytest.approx(3)
    assert recorder.dropped == 1500


async def test_pending_events_are_written_within_the_grace() -> None:
    """A recorder that closes writes its pending events within the grace period."""
    server = Server(seconds=1.0)
    recorder = server.recorder()
    recorder.open()
    tell(recorder)
    await asyncio.sleep(0.5)
    await recorder.aclose()
    assert len(server.events) == 1
    assert recorder.dropped == 0


async def test_recording_never_raises() -> None:
    """An object without a kind, a note that is not a text: dropped and counted."""
    server = Server()
    recorder = server.recorder()
    recorder.event(Unstructured(), "Normal", "X", "note")
    wrong: Any = 5
    recorder.event(site(), "Normal", "X", wrong)
    assert recorder.dropped == 2
    recorder.open()
    recorder.event(site(), "Normal", "X", "lone \ud800 surrogate")
    recorder.event(site(), "Normal", "Long", "é" * 2000)
    await recorder.aclose()
    notes = sorted(len(e.note.encode()) for e in server.events.values())
    assert notes[-1] <= 1024
    assert len(notes) == 2


async def test_events_of_one_object_stay_in_order_and_several_are_written_at_once() -> None:
    """A series is never written before its event, and a slow server is used by several writers."""
    server = Server(seconds=1.0)
    recorder = server.recorder()
    recorder.open()
    for n in range(40):
        for _ in range(2):
            recorder.event(site(name=f"a{n % 2}"), "Normal", f"R{n}", "a note")
    await asyncio.sleep(60)
    assert len(server.events) == 40
    assert recorder.dropped == 0
    assert all(e.series is not None and e.series.count == 2 for e in server.events.values())
    assert 1 < server.peak <= 8
    await recorder.aclose()


@pytest.mark.behaviour(115)
@pytest.mark.parametrize("step", range(0, 30, 3))
async def test_cancelling_the_end_leaves_nothing(step: int) -> None:
    """`aclose` cancelled at any moment: no task is left, and what was not written is counted."""
    server = Server(seconds=0.01)
    recorder = server.recorder()
    recorder.open()
    for n in range(20):
        tell(recorder, f"R{n}")
    task = asyncio.create_task(recorder.aclose())
    for _ in range(step):
        await asyncio.sleep(0.002)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(server.events) + recorder.dropped in (0, 20)
    await recorder.aclose()


class Gate:
    """A fence that the test closes."""

    open = True

    def check(self, action: str) -> None:
        if not self.open:
            raise LeaderElectionLostError(action)


class FencedServer(Server):
    """Checks the fence as the transport does."""

    async def execute(self, operation: Any) -> Any:
        check_fence("an event")
        return await super().execute(operation)


async def test_the_fence_of_the_task_that_recorded_decides() -> None:
    """The Event waits for the server; meanwhile the leadership ends, so the Event is dropped. Others are written."""
    server, gate = FencedServer(ConnectError("down")), Gate()
    recorder = server.recorder()
    recorder.open()
    token = FENCE.set(gate)
    tell(recorder, "Fenced")
    FENCE.reset(token)
    await asyncio.sleep(0.01)
    gate.open = False
    tell(recorder, "Unfenced")
    await asyncio.sleep(60)
    assert [event.reason for event in server.events.values()] == ["Unfenced"]
    assert recorder.dropped == 1
    await recorder.aclose()


async def test_the_counts_of_fenced_series_are_fenced() -> None:
    """The end of the recorder writes no counts of a former leader."""
    server, gate = FencedServer(), Gate()
    recorder = server.recorder()
    recorder.open()
    FENCE.set(gate)
    for _ in range(5):
        tell(recorder)
        await asyncio.sleep(1)
    gate.open = False
    before = len(server.tries)
    await recorder.aclose()
    assert len(server.tries) == before


async def test_a_dry_run_writes_nothing() -> None:
    """A dry-run recorder writes neither events nor series."""
    server = Server()
    recorder = server.recorder()
    recorder.dry_run = True
    recorder.open()
    for _ in range(5):
        tell(recorder)
    await asyncio.sleep(1000)
    await recorder.aclose()
    assert not server.tries
