"""The writer's thread: files in order, a ring within its size, and a full disk that ends only the recording."""

from __future__ import annotations

import errno
import json
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from opsdk.engine.replay.timeline import Timeline
from opsdk.errors import UsageError
from opsdk.recording.files import RecordingError
from opsdk.recording.known_values import ValueLimitError
from opsdk.recording.options import RecordingMode, RecordingOptions
from opsdk.recording.reading import load_recording
from opsdk.recording.records import ExchangeBegan, Iterations, Received, Record, RecordingBegan, Skipped
from opsdk.recording.redaction import Redactor
from opsdk.recording.storage import file_names
from opsdk.recording.writer import RecordingWriter

BEGAN = RecordingBegan(opsdk="1.0", python="3.11.7", operator="a/b", wall=1, seed=1)
NOISE = random.Random(1)


def received(number: int, size: int) -> Received:
    """Return a record that does not compress."""
    return Received(number, number, NOISE.randbytes(size))


def write(folder: Path, count: int, *, size: int = 100_000, max_bytes: int = 1 << 20) -> RecordingWriter:
    """Write records, each of them after the one before is in the file."""
    writer = RecordingWriter(RecordingOptions(directory=folder, max_bytes=max_bytes), BEGAN)
    writer.start()
    for number in range(count):
        writer.add(received(number, size))
        writer.write_queue()
    writer.close()
    return writer


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """In order, over several files; the first record once."""
    writer = write(tmp_path, 5, max_bytes=8 << 20)
    recording = load_recording(tmp_path)
    assert recording.records[0] == BEGAN
    assert [record.exchange for record in recording.records[1:]] == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    assert not recording.problems
    assert writer.status().size == sum(file.stat().st_size for file in file_names(tmp_path))


def test_the_ring_keeps_the_newest_files(tmp_path: Path) -> None:
    """Within its size. A replay that needs the beginning says that it is gone."""
    write(tmp_path, 40)
    files = file_names(tmp_path)
    assert len(files) >= 3
    assert sum(file.stat().st_size for file in files) <= (1 << 20) + 200_000
    with pytest.raises(RecordingError, match="no file that is left has the start of the process"):
        load_recording(tmp_path)


def test_the_next_process_counts_the_files_of_the_one_before(tmp_path: Path) -> None:
    """A crash loop does not fill the disk."""
    for _ in range(4):
        write(tmp_path, 9)
        for file in file_names(tmp_path):
            file.rename(file.with_name(f"0{file.name}"))  # as of another process
    assert sum(file.stat().st_size for file in file_names(tmp_path)) <= (1 << 20) + 200_000


@pytest.mark.slow
def test_a_queue_that_is_full_says_what_it_skipped(tmp_path: Path) -> None:
    """A disk that is too slow costs records, and no memory."""
    writer = RecordingWriter(RecordingOptions(directory=tmp_path, max_bytes=1 << 30), BEGAN)
    for number in range(70):  # 1 MiB each; nothing is written yet
        writer.add(received(number, 1 << 20))
    writer.start()
    writer.write_queue()
    writer.add(received(70, 1))
    writer.close()
    records = load_recording(tmp_path).records
    assert records[-2] == Skipped(70, 70 - (len(records) - 3))
    assert writer.status().skipped == 70 - (len(records) - 3)


def test_iterations_come_before_what_happened_in_them(tmp_path: Path) -> None:
    """So a file that is cut off has the time of each of its records."""
    writer = RecordingWriter(RecordingOptions(directory=tmp_path), BEGAN)
    writer.start()
    for micros in (5, 300, 70_000):
        writer.add_iteration(micros)
    writer.add(received(3, 1))
    writer.close()
    records = load_recording(tmp_path).records
    assert records[1] == Iterations(1, bytes([5, 0x80 | 44, 2, 0x80 | 112, 0x80 | 34, 4]))
    assert isinstance(records[2], Received)


_FULL_DISK = """
import resource, sys
from pathlib import Path
from opsdk.recording.known_values import ValueLimitError
from opsdk.recording.options import RecordingMode, RecordingOptions
from opsdk.recording.records import Received, RecordingBegan
from opsdk.recording.writer import RecordingWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
began = RecordingBegan(opsdk="1", python="3", operator="a", wall=1, seed=1)
writer = RecordingWriter(RecordingOptions(directory=sys.argv[1]), began)
writer.start()
import random
writer.add(Received(1, 0, random.Random(1).randbytes(100_000)))
writer.close()
writer.add(Received(2, 0, b"more"))
print(bool(writer.problem), len(writer._queue))
"""


@pytest.mark.slow
def test_a_full_disk_ends_only_the_recording(tmp_path: Path) -> None:
    """The process goes on, logs one line, and keeps no records. What was written can be read."""
    program = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert program.stdout.split() == ["True", "0"]
    assert program.stderr.count("the recording ends, and the operator goes on") == 1
    assert load_recording(tmp_path).problems


def test_a_disk_that_is_full_at_the_start_stops_no_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong directory does: it is a mistake of the deployment."""

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        writer = RecordingWriter(RecordingOptions(directory=tmp_path), BEGAN)
        writer.start()
    writer.add(received(1, 10))
    writer.close()
    assert "No space left on device" in writer.problem
    assert writer.status().problem == writer.problem
    assert "the recording ends, and the operator goes on" in caplog.text
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        RecordingWriter(RecordingOptions(directory=tmp_path / "file" / "below"), BEGAN).start()


@pytest.mark.parametrize(("options", "message"), [({"max_bytes": 10}, "max_bytes"), ({"max_age": 0}, "max_age")])
def test_options_that_cannot_work(options: dict[str, int], message: str) -> None:
    """The error names the option, and what to pass."""
    with pytest.raises(UsageError, match=rf"{message} of a recording is \d+: pass"):
        RecordingOptions(**options)  # type: ignore[arg-type]


def test_a_recording_ends_when_secrets_cannot_be_hidden_any_more(tmp_path: Path) -> None:
    """What follows would be in clear. The file and the status say why, and what was recorded before stays."""
    redactions = 0

    class Exhausted(Redactor):
        def redact(self, records: Iterable[Record]) -> list[Record]:
            nonlocal redactions
            redactions += 1
            if redactions > 1:
                raise ValueLimitError("too many Secrets")
            return list(records)

    writer = RecordingWriter(RecordingOptions(directory=tmp_path), BEGAN, redactor=Exhausted(b"key"))
    writer.start()
    writer.add(received(1, 10))
    writer.write_queue()
    writer.add(received(2, 10))
    writer.add(received(3, 10))
    with pytest.raises(ValueLimitError):
        writer.write_queue()
    writer.close()
    recording = load_recording(tmp_path)
    assert recording.records[-1] == Skipped(2, 2, "too many Secrets")
    assert "2 records are missing: too many Secrets" in Timeline(recording.records).problem
    assert len(recording.records) == 3


PASSWORD = "correct-horse-battery"
SECRET = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "db"}, "stringData": {"p": PASSWORD}}


def request(number: int, path: str, body: object) -> ExchangeBegan:
    """Return a request with a body."""
    content = json.dumps(body).encode()
    target = f"/api/v1/namespaces/default/{path}"
    return ExchangeBegan(number, number, "localhost:443", "POST", target, "application/json", content)


@pytest.mark.parametrize("mode", [RecordingMode.ALWAYS, RecordingMode.ON_REQUEST])
def test_copies_before_the_secret_are_hidden_when_their_file_ends(tmp_path: Path, mode: RecordingMode) -> None:
    """A copy that was written before its Secret was seen is not in the files; other records are as they were."""
    options = RecordingOptions(directory=tmp_path, mode=mode, max_bytes=8 << 20)
    writer = RecordingWriter(options, BEGAN, redactor=Redactor(b"key"))
    writer.start()
    noise = [received(number, 150_000) for number in range(2, 6)]
    writer.add(request(1, "configmaps", {"kind": "ConfigMap", "data": {"url": f"db://{PASSWORD}@db"}}))
    for record in noise:
        writer.add(record)
        writer.write_queue()
    times = [file.stat().st_mtime_ns for file in file_names(tmp_path)]
    writer.add(request(9, "secrets", SECRET))
    writer.write_queue()
    writer.request_save("test")
    writer.close()
    recording = load_recording(tmp_path)
    assert not recording.problems
    assert PASSWORD not in repr(recording.records)
    assert "db://digest:" in repr(recording.records[1])
    assert [record for record in recording.records if record in noise] == noise
    assert writer.status().size == sum(file.stat().st_size for file in file_names(tmp_path))
    assert not list(tmp_path.glob("*rewriting"))
    assert len(times) == (mode is RecordingMode.ALWAYS)


def test_a_copy_in_the_file_before_is_hidden(tmp_path: Path) -> None:
    """The file that ended before the Secret was seen is searched too, and keeps its place in the order."""
    options = RecordingOptions(directory=tmp_path, max_bytes=1 << 20)
    writer = RecordingWriter(options, BEGAN, redactor=Redactor(b"key"))
    writer.start()
    writer.add(request(1, "configmaps", {"kind": "ConfigMap", "data": {"p": PASSWORD}}))
    number = 1
    while len(file_names(tmp_path)) < 2:
        number += 1
        writer.add(received(number, 100_000))
        writer.write_queue()
    before = file_names(tmp_path)
    writer.add(request(number + 1, "secrets", SECRET))
    writer.write_queue()
    writer.close()
    assert file_names(tmp_path) == before
    assert PASSWORD not in repr(load_recording(tmp_path).records)
