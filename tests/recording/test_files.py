"""Files of a recording: every cut is readable, and what is damaged is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.recording.files import (
    FileEncoder,
    RecordedFile,
    RecordingError,
    files_to_remove,
    read_records,
)
from opsdk.recording.records import (
    ExchangeBegan,
    Failed,
    Iterations,
    Received,
    Record,
    RecordingBegan,
    Responded,
    Skipped,
)

BEGAN = RecordingBegan(opsdk="1.0", python="3.11.7", operator="site", wall=1, seed=1)
NUMBERS = st.integers(min_value=0, max_value=1000)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        ExchangeBegan,
        iteration=NUMBERS,
        exchange=NUMBERS,
        server=st.just("localhost:80"),
        method=st.sampled_from(["GET", "POST"]),
        target=st.text(max_size=20),
        body=st.binary(max_size=200),
    ),
    st.builds(Responded, iteration=NUMBERS, exchange=NUMBERS, status=st.just(200), headers=st.just({"a": "b"})),
    st.builds(Received, iteration=NUMBERS, exchange=NUMBERS, data=st.binary(max_size=300)),
    st.builds(
        Failed, iteration=NUMBERS, exchange=NUMBERS, error=st.just("ConnectionLostError"), message=st.text(max_size=9)
    ),
    st.builds(Iterations, first=NUMBERS, micros=st.binary(max_size=20)),
    st.builds(Skipped, iteration=NUMBERS, count=NUMBERS),
)


def encoded(records: list[Record], *, flushed: int | None = None) -> bytes:
    """Return an ended file, flushed after some records."""
    encoder = FileEncoder()
    data = encoder.begin()
    for number, record in enumerate(records):
        data += encoder.encode(record)
        if number + 1 == flushed:
            data += encoder.flush()
    return data + encoder.end()


@given(st.lists(RECORDS, max_size=8))
def test_a_file_has_the_records_that_were_written(records: list[Record]) -> None:
    """In order, and it says that it is complete."""
    content = read_records(encoded([BEGAN, *records]))
    assert content.records == (BEGAN, *records)
    assert content.is_complete
    assert not content.problem


@given(st.lists(RECORDS, min_size=1, max_size=5))
def test_every_cut_has_the_first_records(records: list[Record]) -> None:
    """And it says that it is not complete. No cut is an error."""
    data = encoded([BEGAN, *records], flushed=1)
    magic = len(FileEncoder().begin())
    for cut in range(magic, len(data)):
        content = read_records(data[:cut])
        assert content.records == (BEGAN, *records)[: len(content.records)]
        assert not content.is_complete


def test_what_was_flushed_is_readable() -> None:
    """While the file is still written."""
    encoder = FileEncoder()
    data = encoder.begin() + encoder.encode(BEGAN) + encoder.flush()
    assert read_records(data).records == (BEGAN,)
    data += encoder.encode(Skipped(iteration=1, count=2)) + encoder.flush()
    assert read_records(data).records == (BEGAN, Skipped(iteration=1, count=2))


@given(st.data())
def test_damage_is_said(data: st.DataObject) -> None:
    """One changed byte: the records before it are read, or all; nothing else is raised."""
    records: list[Record] = [BEGAN, *(Received(iteration=n, exchange=n, data=bytes([n] * 50)) for n in range(20))]
    file = bytearray(encoded(records, flushed=10))
    place = data.draw(st.integers(min_value=len(FileEncoder().begin()), max_value=len(file) - 1))
    file[place] ^= data.draw(st.integers(min_value=1, max_value=255))
    content = read_records(bytes(file))
    # A bit of padding between blocks changes nothing.
    assert content.problem or not content.is_complete or content.records == tuple(records)


@pytest.mark.parametrize("data", [b"", b"opsdk", b"PK\x03\x04" * 20])
def test_other_files_are_refused(data: bytes) -> None:
    """The message says what to give."""
    with pytest.raises(RecordingError, match="no recording of opsdk"):
        read_records(data)


def test_another_format_names_the_version_that_reads_it() -> None:
    """A replay with that version works."""
    with pytest.raises(RecordingError, match=r"replay it with opsdk 9\.0"):
        read_records(b"opsdk-recording 99 9.0\n" + b"?")


@given(
    st.lists(st.tuples(st.integers(1, 100), st.floats(0, 100)), max_size=12),
    st.integers(0, 500),
    st.floats(0, 100),
)
def test_the_oldest_files_go_until_the_rest_fits(parts: list[tuple[int, float]], most: int, age: float) -> None:
    """The file that is written stays, whatever its size."""
    times = sorted(time for _, time in parts)
    files = [RecordedFile(str(n), size, time) for n, ((size, _), time) in enumerate(zip(parts, times, strict=True))]
    removed = files_to_remove(files, now=100.0, max_bytes=most, max_seconds=age)
    rest = files[len(removed) :]
    assert list(removed) == files[: len(removed)]
    assert bool(rest) == bool(files)
    assert len(rest) <= 1 or sum(each.size for each in rest) <= most
    assert all(100.0 - each.ended_at <= age for each in rest[:-1])
