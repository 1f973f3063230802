"""The state of a run at rest: what reconciles say about it."""

from __future__ import annotations

from datetime import UTC, datetime

from opsdk.client.activity import ObjectRead
from opsdk.controller.journal import ReconcileRecord
from opsdk.verification.rest_state import StateRecorder

SITE = "demo.opsdk.dev/v1, Kind=Site"


def record(result: str, detail: str = "", reads: tuple[ObjectRead, ...] = ()) -> ReconcileRecord:
    """A reconcile of one site."""
    return ReconcileRecord(
        controller="site",
        kind=SITE,
        namespace="default",
        name="a",
        reconcile_id="1",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=0.1,
        result=result,
        detail=detail,
        reads=reads,
    )


def test_the_last_reconcile_tells_whether_an_object_fails() -> None:
    """Without the delay of the next try, which differs each time; records of daemons are no reconciles."""
    failed = record("error", "retry in 41 s: ValueError('no')")
    recorder = StateRecorder()
    assert recorder.at_rest([failed, record("daemon monitor started")]).failing == {"default/a": "ValueError('no')"}
    assert recorder.at_rest([failed, record("success")]).failing == {}


def test_objects_that_were_read_in_vain_are_missing() -> None:
    """Except the reconciled object itself, which may be gone."""
    reads = (
        ObjectRead("v1, Kind=Secret", "default/login", "", cached=True),
        ObjectRead("v1, Kind=ConfigMap", "default/b", "7", cached=True),
        ObjectRead(SITE, "default/a", "", cached=True),
    )
    assert StateRecorder().at_rest([record("success", reads=reads)]).missing == {"Secret default/login"}
