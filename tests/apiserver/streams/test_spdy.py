"""SPDY/3.1 frames: round trips for any fragmentation, and invalid frames."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.streams import spdy
from opsdk.apiserver.streams.spdy import Data, Event, GoAway, Ping, RstStream, SpdyReader, SpdyWriter, SynStream
from opsdk.errors import BadRequestError

NUMBERS = st.integers(1, 2**31 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
HEADERS = st.dictionaries(TEXTS.map(str.lower), TEXTS, max_size=4)
EVENTS = st.one_of(
    st.builds(SynStream, stream=NUMBERS, headers=HEADERS, ends=st.booleans()),
    st.builds(Data, stream=NUMBERS, data=st.binary(max_size=50), ends=st.booleans()),
    st.builds(RstStream, stream=NUMBERS),
    st.builds(Ping, number=NUMBERS),
)


def written(events: list[Event]) -> bytes:
    """Return the bytes that a client sends."""
    writer = SpdyWriter()

    def frame(event: Event) -> bytes:
        match event:
            case SynStream():
                return writer.open(event.stream, event.headers, ends=event.ends)
            case Data():
                return spdy.carry(event.stream, event.data, ends=event.ends)
            case RstStream():
                return spdy.refuse(event.stream)
            case Ping():
                return spdy.pong(event.number)
            case GoAway():
                return spdy.leave(0)

    return b"".join(map(frame, events))


@given(st.lists(EVENTS, max_size=6), st.data())
def test_frames_are_read_as_they_were_written_however_they_are_cut(events: list[Event], data: st.DataObject) -> None:
    """Bytes come in pieces of any size."""
    raw = written(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    reader, result = SpdyReader(), list[Event]()
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        result += reader.feed(raw[start:end])
    assert result == events


@given(st.binary(max_size=300))
def test_anything_is_read_or_refused(raw: bytes) -> None:
    """Any bytes are read or raise BadRequestError."""
    try:
        list(SpdyReader().feed(raw))
    except BadRequestError:
        return


@given(st.lists(EVENTS, min_size=1, max_size=4), st.data())
def test_corrupted_frames_are_read_or_refused(events: list[Event], data: st.DataObject) -> None:
    """Frames with one changed byte are read or raise BadRequestError."""
    raw = bytearray(written(events))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    test_anything_is_read_or_refused.hypothesis.inner_test(bytes(raw))  # type: ignore[attr-defined]


def test_long_data_is_split_into_frames() -> None:
    """Long data is split into frames that clients accept, and only the last one ends the stream."""
    data = bytes(range(256)) * 400
    events = list(SpdyReader().feed(spdy.carry(5, data, ends=True)))
    assert all(isinstance(event, Data) for event in events)
    assert b"".join(event.data for event in events if isinstance(event, Data)) == data
    assert [event.ends for event in events if isinstance(event, Data)] == [False, False, False, True]


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\x02\x00\x01\x00\x00\x00\x00",  # another version
        b"\x00\x00\x00\x01\x00\xff\xff\xff",  # 16 MiB at once
        b"\x80\x03\x00\x01\x00\x00\x00\x03abc",  # a stream without a number
        b"\x80\x03\x00\x01\x00\x00\x00\x0c" + b"\0" * 12,  # headers that were never compressed
    ],
)
def test_an_invalid_frame_is_refused(raw: bytes) -> None:
    """An invalid frame raises BadRequestError, because the next frame cannot be found."""
    with pytest.raises(BadRequestError):
        list(SpdyReader().feed(raw))


def test_headers_that_unpack_to_too_much_are_refused() -> None:
    """A small frame cannot take much memory."""
    with pytest.raises(BadRequestError, match="too long"):
        list(SpdyReader().feed(SpdyWriter().open(1, {"a": "x" * 1_000_000})))


def test_control_frames_that_say_nothing_here_are_left_out() -> None:
    """Settings and windows."""
    assert list(SpdyReader().feed(b"\x80\x03\x00\x04\x00\x00\x00\x04\0\0\0\0" + spdy.pong(7))) == [Ping(number=7)]


def test_compressed_headers_that_end_are_refused() -> None:
    """Bytes after the end would be kept without limit."""
    compressor = zlib.compressobj(zdict=spdy.DICTIONARY)
    block = compressor.compress(b"\0\0\0\0") + compressor.flush()
    body = b"\0\0\0\1" + b"\0" * 6 + block + b"x" * 1000
    with pytest.raises(BadRequestError, match="end"):
        list(SpdyReader().feed(b"\x80\x03\x00\x01" + len(body).to_bytes(4) + body))


@given(st.binary(max_size=400), st.data())
def test_any_bytes_have_the_same_events_however_they_are_cut(tail: bytes, data: st.DataObject) -> None:
    """Invalid bytes too: the events before the error are the same, and so is the error."""
    raw = SpdyWriter().open(1, {"a": "b"}) + spdy.carry(1, b"data") + tail

    def events(*pieces: bytes) -> list[object]:
        reader, read = SpdyReader(), list[object]()
        try:
            for piece in pieces:
                for event in reader.feed(piece):
                    read.append(event)
        except BadRequestError as error:
            read.append(str(error))
        return read

    cut = data.draw(st.integers(0, len(raw)))
    assert events(raw[:cut], raw[cut:]) == events(raw)
