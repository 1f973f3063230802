"""Laws of `opsdk.rest.frames`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import DecodeError
from opsdk.rest.frames import FrameSplitter, parse_frame


def _split(pieces: list[bytes]) -> tuple[list[bytes], bytes]:
    splitter = FrameSplitter()
    frames = [frame for piece in pieces for frame in splitter.feed(piece)]
    return frames, splitter.rest()


def test_every_cut_gives_the_same_frames() -> None:
    """A stream cut in two at any byte gives the frames of the whole."""
    stream = b'{"type":"ADDED"}\n\n{"type":"MODIFIED"}\r\n{"tail'
    whole = _split([stream])
    assert whole == ([b'{"type":"ADDED"}', b'{"type":"MODIFIED"}'], b'{"tail')
    for cut in range(len(stream) + 1):
        assert _split([stream[:cut], stream[cut:]]) == whole


@given(st.lists(st.binary()))
def test_frames_do_not_depend_on_chunk_boundaries(pieces: list[bytes]) -> None:
    """How the network cuts the bytes never matters."""
    assert _split(pieces) == _split([b"".join(pieces)])


def test_frames_have_no_length_limit() -> None:
    """An object of three megabytes in many pieces is one frame."""
    big = b"x" * 3_000_000
    pieces = [big[cut : cut + 65536] for cut in range(0, len(big), 65536)]
    assert _split([*pieces, b"\n"]) == ([big], b"")


def test_parse_leaves_the_object_encoded() -> None:
    """The object of a frame is the very bytes of the wire."""
    frame = parse_frame(b'{"object": {"a": 1, "b":[ 2]}, "type":"ADDED","x":0}')
    assert frame.type == "ADDED"
    assert bytes(frame.object) == b'{"a": 1, "b":[ 2]}'


@pytest.mark.parametrize(
    "garbage", [b"<html>", b"{}", b'{"type":1,"object":{}}', b'{"type":"ADDED"', b'{"type":"\xff"', b""]
)
def test_the_error_quotes_the_start_of_an_invalid_frame(garbage: bytes) -> None:
    """Bytes that are not a watch event are a decode error which quotes their start."""
    with pytest.raises(DecodeError) as caught:
        parse_frame(garbage + b" " * 500)
    assert repr(garbage)[2:-1] in str(caught.value)
    assert len(str(caught.value)) < 400
