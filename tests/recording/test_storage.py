"""Recordings in memory: bounded, written on request or after an unexpected error, and replayed from a checkpoint."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from opsdk.errors import UsageError
from opsdk.recording.options import RecordingMode, RecordingOptions
from opsdk.recording.reading import load_recording
from opsdk.recording.records import CheckpointBegan, CheckpointEnded, Received, RecordingBegan
from opsdk.recording.storage import file_names
from opsdk.recording.writer import RecordingWriter

BEGAN = RecordingBegan(opsdk="1.0", python="3.11.7", operator="a/b", wall=1, seed=1)
NOISE = random.Random(1)
MIB = 1 << 20


def new_writer(folder: Path) -> RecordingWriter:
    """Return a writer that has started, with a ring of one MiB in memory."""
    options = RecordingOptions(directory=folder, mode=RecordingMode.ON_REQUEST, max_memory=MIB)
    writer = RecordingWriter(options, BEGAN)
    writer.start()
    return writer


def checkpoint(iteration: int) -> list[CheckpointBegan | CheckpointEnded]:
    """Return a checkpoint of an operator without caches and controllers."""
    state = (3, (), None)
    return [
        CheckpointBegan(
            iteration=iteration,
            time=float(iteration),
            wall=1,
            sleeps=(),
            lease_times=b"",
            leads_since=0.0,
            thread_calls=0,
            sliced=0,
            random=state,
            process_random=state,
        ),
        CheckpointEnded(iteration),
    ]


def fill(writer: RecordingWriter, first: int, count: int) -> None:
    """Write records that do not compress, and checkpoints where the writer wants them."""
    for number in range(first, first + count):
        writer.add(Received(number, number, NOISE.randbytes(50_000)))
        writer.write_queue()
        if writer.wants_checkpoint:
            writer.add_checkpoint(checkpoint(number))


def test_nothing_is_written_without_a_request(tmp_path: Path) -> None:
    """The memory is bounded: the oldest files go, and the newest record is there."""
    writer = new_writer(tmp_path)
    fill(writer, 0, 100)
    assert not file_names(tmp_path)
    assert writer.status().size <= MIB + 200_000
    writer.request_save("test")
    writer.close()
    recording = load_recording(tmp_path)
    assert isinstance(recording.records[1], CheckpointBegan)
    newest = recording.records[-1]
    assert isinstance(newest, Received)
    assert newest.exchange == 99
    assert not recording.problems


def test_each_request_writes_a_recording(tmp_path: Path) -> None:
    """The operator goes on. Without a request, its end writes nothing more."""
    writer = new_writer(tmp_path)
    fill(writer, 0, 30)
    writer.save()
    before = load_recording(tmp_path)
    fill(writer, 30, 30)
    writer.close()
    assert load_recording(tmp_path) == before
    newest = before.records[-1]
    assert isinstance(newest, Received)
    assert newest.exchange == 29


def test_a_directory_that_cannot_be_written_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so, and the operator goes on, with its recording."""
    writer = new_writer(tmp_path)
    fill(writer, 0, 3)
    tmp_path.rmdir()
    writer.save()
    assert "the recording cannot be saved" in caplog.text
    assert not writer.problem
    tmp_path.mkdir()
    writer.save()
    assert load_recording(tmp_path).records
    writer.close()


def test_a_small_memory_is_refused() -> None:
    """A ring needs room for a checkpoint."""
    with pytest.raises(UsageError, match="max_memory of a recording is 1000: pass at least 1048576"):
        RecordingOptions(mode=RecordingMode.ON_PANIC, max_memory=1000)
