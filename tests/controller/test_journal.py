"""The journal: the newest reconciles, with objects while there is room."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.base.cause import ReconcileCause
from opsdk.client.activity import ObjectRead, RequestSent, current_activity
from opsdk.controller.controller import Controller
from opsdk.controller.journal import Journal, ReconcileRecord
from opsdk.errors import UsageError
from opsdk.event.request import Request

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def record(number: int, size: int = 0, *, name: str = "a", controller: str = "c") -> ReconcileRecord:
    """Return a record that read one object of `size` bytes."""
    return ReconcileRecord(
        controller=controller,
        kind="v1, Kind=Thing",
        namespace="ns",
        name=name,
        reconcile_id=str(number),
        started_at=AT,
        seconds=0.01,
        reads=(ObjectRead("v1, Kind=Thing", "ns/a", "1", cached=True, data=b"x" * size),),
    )


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(0, 10), st.integers(0, 100))
def test_the_newest_records_stay_and_their_objects_fit(sizes: list[int], size: int, max_bytes: int) -> None:
    """The last `size` records in order; objects only of the newest ones, and as many as fit."""
    journal = Journal(size=size, max_bytes=max_bytes)
    for number, length in enumerate(sizes):
        journal.add(record(number, length))
    records = list(journal.find())
    assert [r.reconcile_id for r in records] == [str(n) for n in range(len(sizes))][-size:] if size else not records
    lengths = [None if r.reads[0].data is None else len(r.reads[0].data) for r in records]
    whole = [length for length in lengths if length is not None]
    assert sum(whole) <= max_bytes
    assert lengths[len(lengths) - len(whole) :] == whole
    if len(whole) < len(records):
        assert sum(whole) + sizes[-len(whole) - 1] > max_bytes


def test_find_combines_its_arguments() -> None:
    """Every argument that is given must match."""
    journal = Journal()
    journal.add(record(1, name="a", controller="x"))
    journal.add(record(2, name="b", controller="x"))
    journal.add(record(3, name="b", controller="y"))
    assert [r.reconcile_id for r in journal.find(name="b", controller="y")] == ["3"]
    assert [r.reconcile_id for r in journal.find(namespace="")] == []
    assert [r.reconcile_id for r in journal.find(reconcile_id="2")] == ["2"]


def test_str_of_a_record_lists_causes_reads_and_requests() -> None:
    """Result, causes, reads and requests, one line each."""
    full = ReconcileRecord(
        controller="site",
        kind="",
        namespace="ns",
        name="a",
        reconcile_id="1",
        started_at=AT,
        seconds=0.0123,
        attempt=1,
        causes=(ReconcileCause("Pod", "update", "ns/p", "7"),),
        reads=(ObjectRead("v1, Kind=Pod", "ns/p", "", cached=False),),
        requests=(RequestSent("update", "v1, Kind=Pod", "ns/p", "status", 409, 0.1, reason="drift"),),
        more_reads=2,
        result="error",
        detail="retry in 5 s",
    )
    assert str(full).splitlines() == [
        "2026-01-02T03:04:05.000+00:00 site ns/a: error: retry in 5 s (12.3 ms, attempt 2)",
        "  cause    Pod update ns/p at 7",
        "  read     v1, Kind=Pod ns/p (does not exist) (from the server)",
        "  read     2 more objects",
        "  request  update v1, Kind=Pod ns/p/status: 409 because drift",
    ]
    with pytest.raises(UsageError, match="at least 0"):
        Journal(size=-1)


@pytest.mark.parametrize(("journal", "recorded"), [(None, False), (Journal(size=0), False), (Journal(size=1), True)])
async def test_nothing_is_recorded_without_a_journal(journal: Journal | None, recorded: bool) -> None:
    """Reads and requests cost nothing where no journal keeps them. `reconcile_once` always returns them."""
    recordings: list[bool] = []

    async def reconcile(request: Request) -> None:
        recordings.append(current_activity() is not None)

    request = Request("default", "a")
    controller = Controller("c", reconcile, journal=journal)
    task = asyncio.create_task(controller.start())
    controller.queue.add(request)
    while not recordings:
        await asyncio.sleep(0.1)
    await controller.reconcile_once(request)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert recordings == [recorded, True]
