"""What a client's process prints, and what the orchestrator makes of it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from benchmarks import process
from benchmarks.clients.loop import ControlLoop, Follower
from benchmarks.protocol import Options, Sample, SkippedError, run_client


async def works(options: Options) -> Sample:
    """A workload with a result."""
    return Sample(wall=1, cpu=0.5, count=options["count"])


def skips(_: Options) -> Sample:
    """A workload that the client lacks."""
    raise SkippedError("has no such feature")


async def breaks(_: Options) -> Sample:
    """A workload that fails."""
    raise ValueError("no server")


def messages(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str) -> list[Options]:
    """What the client prints for a workload."""
    monkeypatch.setattr(sys, "argv", ["client", name, '{"count": 3}'])
    run_client({"works": works, "skips": skips, "breaks": breaks})
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_end_is_one_message(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample, a reason or an error: one line of JSON, and nothing else on standard output."""
    [result] = messages(capsys, monkeypatch, "works")
    assert Sample(**result["result"]) == Sample(wall=1, cpu=0.5, count=3)
    assert messages(capsys, monkeypatch, "skips") == [{"skipped": "has no such feature"}]
    assert messages(capsys, monkeypatch, "breaks") == [{"failed": "ValueError: no server"}]
    assert messages(capsys, monkeypatch, "unknown") == [{"skipped": "not offered by this client"}]


async def test_a_missing_environment_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the peers' environment their rows say so, and the run goes on."""
    monkeypatch.setattr(process, "PEERS_PYTHON", process.ROOT / ".venv-missing" / "bin" / "python")
    outcome = await process.run_process("kopf", "sync", {}, time_limit=1)
    assert outcome.sample is None
    assert "make bench creates it" in outcome.skipped


@pytest.mark.realtime
async def test_a_process_that_dies_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that cannot start has no sample; its last error line is the reason."""
    monkeypatch.setattr(process, "PEERS_PYTHON", Path(sys.executable))
    outcome = await process.run_process("no_such_client", "sync", {}, time_limit=60)
    assert outcome.failed.startswith("exit status 1:")
    assert "no_such_client" in outcome.errors


async def test_a_queue_holds_each_name_once() -> None:
    """Names that are queued twice before a worker is free are reconciled once, with the newest state."""
    reconciled: list[str] = []
    done = asyncio.Event()

    async def reconcile(obj: str) -> None:
        reconciled.append(obj)
        done.set()

    loop: ControlLoop[str] = ControlLoop(reconcile, workers=1)

    async def feed() -> None:
        for state in ("old", "new"):
            loop.keep("a", state)
            loop.enqueue("a")
        await asyncio.Event().wait()

    await loop.run(feed(), done)
    assert reconciled == ["new"]


async def test_an_error_of_the_feed_ends_the_run() -> None:
    """A watch that fails is not a run without events."""

    async def feed() -> None:
        raise ConnectionError("watch ended")

    async def reconcile(_: str) -> None:
        return

    with pytest.raises(ConnectionError, match="watch ended"):
        await ControlLoop(reconcile, workers=2).run(feed(), asyncio.Event())


def test_a_follower_ends_once_when_each_object_has_its_last_value() -> None:
    """Repeated and skipped values do not end it early or twice."""
    ends: list[int] = []
    follower = Follower({"changed": 2, "final": 3, "stamps": True}, lambda: ends.append(1))
    for name, value in (("a", 1), ("a", 2), ("a", 3), ("a", 3), ("b", 1)):
        follower.see(name, value)
    assert ends == []
    follower.see("b", 3)
    follower.see("b", 3)
    assert ends == [1]
    assert set(follower.stamps) == {"a/2", "a/3", "b/3"}


@pytest.mark.realtime
async def test_a_program_of_another_language_is_a_client(tmp_path: Path) -> None:
    """A path instead of a name starts that program, with the workload and the options as its arguments."""
    program = tmp_path / "controller-runtime"
    message = json.dumps({"result": {"wall": 2.0, "cpu": 1.0, "count": 4}})
    program.write_text(f"#!/bin/sh\n[ \"$1\" = sync ] && echo '{message}'\n")
    program.chmod(0o755)
    outcome = await process.run_process(str(program), "sync", {}, time_limit=60)
    assert outcome.sample == Sample(wall=2.0, cpu=1.0, count=4)
    assert (await process.run_process(str(tmp_path / "none"), "sync", {}, time_limit=60)).skipped.startswith("no ")
