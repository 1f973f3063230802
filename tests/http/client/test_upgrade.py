"""Answers to requests that ask for another protocol: one answer, whatever pieces the network makes of it."""

from __future__ import annotations

import itertools

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.http.client.parser import ResponseState
from opsdk.http.client.upgrade import UpgradeParser

HEAD = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!"


def fed(data: bytes, cuts: list[int]) -> UpgradeParser:
    """A reader that got the bytes in pieces."""
    reader = UpgradeParser()
    reader.begin("GET")
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    for start, end in itertools.pairwise(edges):
        if start < end:
            reader.feed(data[start:end])
    return reader


@given(rest=st.binary(max_size=40), cuts=st.lists(st.integers(min_value=0), max_size=6))
def test_every_byte_after_the_101_head_is_body(rest: bytes, cuts: list[int]) -> None:
    """Every byte after a 101 head is body, even if it looks like HTTP, until the connection ends."""
    reader = fed(HEAD + rest + REFUSED, cuts)
    assert (reader.status, reader.headers["upgrade"], reader.state) == (101, "websocket", ResponseState.BODY)
    assert reader.take() == rest + REFUSED
    assert not reader.reusable
    reader.eof()
    assert reader.state is ResponseState.DONE


@given(cuts=st.lists(st.integers(min_value=0), max_size=6))
def test_other_responses_are_parsed_as_usual(cuts: list[int]) -> None:
    """A response other than 101 ends with its Content-Length."""
    reader = fed(REFUSED, cuts)
    assert (reader.status, reader.take(), reader.state) == (403, b"no!", ResponseState.DONE)
    with pytest.raises(httptools.HttpParserError):
        reader.feed(b"more")


def test_an_interim_response_comes_before_the_101_response() -> None:
    """A 100 response before the 101 response is skipped."""
    reader = fed(b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"x", [])
    assert (reader.status, reader.take()) == (101, b"x")
