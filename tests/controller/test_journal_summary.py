"""The slowest keys and the last errors of a journal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from opsdk.controller.journal import ReconcileRecord
from opsdk.controller.journal_summary import last_errors, slowest_keys

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def reconciled(
    number: int, name: str, result: str, seconds: float = 1.0, *, reconcile_id: str = "id"
) -> ReconcileRecord:
    """The record of a reconcile that began after a number of seconds."""
    return ReconcileRecord(
        controller="site",
        kind="v1, Kind=ConfigMap",
        namespace="default",
        name=name,
        reconcile_id=reconcile_id,
        started_at=BEGIN + timedelta(seconds=number),
        seconds=seconds,
        result=result,
        detail="x" * 5000 if result == "error" else "",
    )


RECORDS = st.lists(
    st.tuples(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), st.sampled_from(["success", "error", "requeue"])),
    max_size=60,
).map(lambda pairs: [reconciled(number, name, result) for number, (name, result) in enumerate(pairs)])


@given(RECORDS)
def test_errors_are_those_of_the_keys_that_failed_last(records: list[ReconcileRecord]) -> None:
    """Each key has one row with its last error, newest first; a later reconcile without an error is a recovery."""
    rows = last_errors(records, BEGIN + timedelta(seconds=100))
    last = {record.name: record for record in records if record.result == "error"}
    expected = sorted(last.values(), key=lambda record: record.started_at, reverse=True)[:20]
    assert [row["name"] for row in rows] == [record.name for record in expected]
    for row, record in zip(rows, expected, strict=True):
        newest = [other for other in records if other.name == record.name][-1]
        assert row["recovered"] is (newest.result != "error")
        assert row["errors"] == sum(other.name == record.name and other.result == "error" for other in records)
        assert row["seconds_ago"] == 99 - (record.started_at - BEGIN).total_seconds()
        assert len(str(row["detail"])) == 1000


@given(RECORDS)
def test_the_slowest_keys_come_first(records: list[ReconcileRecord]) -> None:
    """The rows are the keys with the most seconds, and their counts are those of the journal."""
    rows = slowest_keys(records)
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds, reverse=True)
    assert len(rows) == min(len({record.name for record in records}), 20)
    for row in rows:
        own = [record for record in records if record.name == row["name"]]
        assert (row["reconciles"], row["seconds"], row["last_result"]) == (len(own), len(own), own[-1].result)


def test_daemons_are_no_reconciles() -> None:
    """The journal's rows of daemons, which have no id, are neither errors nor slow keys."""
    rows = [reconciled(0, "a", "error", reconcile_id="")]
    assert last_errors(rows, BEGIN) == slowest_keys(rows) == []
