"""The debug page and the metrics of a recorded operator."""

from __future__ import annotations

import json
import time

import pytest

from opsdk.builder.recorded_run import add_recording_report
from opsdk.http.server.request import HttpRequest, Query
from opsdk.manager.manager import Manager
from opsdk.recording.status import RecordingStatus


async def page_of(manager: Manager) -> dict[str, object]:
    """Return the debug page of the recording."""

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    request = HttpRequest(
        method="GET", path="/debug/recording", query=Query(""), headers={"host": "127.0.0.1"}, receive=receive
    )
    response = await manager.debug.handle(request)
    assert response is not None
    page: dict[str, object] = json.loads(response.body)
    return page


def metrics_of(manager: Manager) -> list[str]:
    """Return the metrics of recordings."""
    return [line for line in manager.metrics.expose().decode().splitlines() if line.startswith("opsdk_recording")]


async def test_a_recording_is_reported() -> None:
    """Directory, size, age and skipped records, and why it has ended."""
    manager = Manager()
    status = RecordingStatus(directory="/var/recordings", since=time.time() - 90, size=4096, skipped=2)
    add_recording_report(manager, lambda: status, save=print)
    page = await page_of(manager)
    assert {name: page[name] for name in ("directory", "size", "skipped", "problem")} == {
        "directory": "/var/recordings", "size": 4096, "skipped": 2, "problem": "",
    }  # fmt: skip
    assert isinstance(page["seconds"], float)
    assert page["seconds"] >= 90
    assert metrics_of(manager) == [
        "opsdk_recording_active 1.0",
        "opsdk_recording_bytes 4096.0",
        "opsdk_recording_skipped_records_total 2.0",
    ]
    status = RecordingStatus(directory="/var/recordings", since=0.0, problem="No space left on device")
    assert (await page_of(manager))["problem"] == "No space left on device"
    assert "opsdk_recording_active 0.0" in metrics_of(manager)


async def test_an_operator_without_a_recording_has_no_such_metrics() -> None:
    """So the alert of its monitoring never fires."""
    assert metrics_of(Manager()) == []


@pytest.mark.parametrize(
    ("body", "code", "reasons"), [(b"{}", 202, ["POST /debug/recording"]), (b'{"a":"b"}', 400, [])]
)
async def test_a_request_saves_what_is_in_memory(body: bytes, code: int, reasons: list[str]) -> None:
    """The answer says where. There are no arguments."""
    manager, saved = Manager(), list[str]()
    status = RecordingStatus(directory="/var/recordings", since=0.0)
    add_recording_report(manager, lambda: status, save=saved.append)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body}

    headers = {"host": "127.0.0.1", "content-type": "application/json"}
    request = HttpRequest("POST", "/debug/recording", Query(""), headers, receive)
    request.client = "127.0.0.1"
    response = await manager.debug.handle(request)
    assert response is not None
    assert (response.status, saved) == (code, reasons)
    assert (b"/var/recordings" in response.body) == (code == 202)
