"""The frames of a watch as the cache reads them."""

from __future__ import annotations

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from opsdk.cache.head import decode_head
from opsdk.cache.list_watch import parse_event
from opsdk.errors import DecodeError
from opsdk.rest.frames import parse_frame

FRAMES = (
    b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","labels":{"app":"b"}},"x":[1,"}"]}}',
    b'{"type":"MODIFIED","object":{"kind":"Pod"},"more":1}',
    b'{"type":"DELETED","object":{"kind":"Pod"},"type":"ADDED"}',
    b'{"type":"ADDED","object":{"metadata":{"labels":7}}}',
    b'{"type":"ADDED","object":null}',
    b'{ "type" : "ADDED", "object" : {} }',
    b'{"object":{"kind":"Pod"},"type":"ADDED"}',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}',
)


def read(frame: bytes) -> object:
    """What `parse_event` returns, or that it raises."""
    try:
        event = parse_event(frame)
    except DecodeError:
        return "error"
    if event.head is not None:
        assert event.head == decode_head(event.data)
    return event.type, msgspec.json.decode(event.data)


def read_generally(frame: bytes) -> object:
    """The same by a decoder of any JSON."""
    try:
        parsed = parse_frame(frame)
    except DecodeError:
        return "error"
    return parsed.type, msgspec.json.decode(parsed.object)


@given(frame=st.sampled_from(FRAMES), data=st.data())
def test_the_short_way_reads_what_the_general_one_reads(frame: bytes, data: st.DataObject) -> None:
    """A frame has the same type and object both ways, or is an error both ways, also after one changed byte."""
    position = data.draw(st.integers(0, len(frame)))
    changed = frame[:position] + data.draw(st.sampled_from([b"", b"}", b'"', b",", b" ", b"0"])) + frame[position + 1 :]
    for each in (frame, changed):
        assert read(each) == read_generally(each)


@given(st.sampled_from(("ADDED", "MODIFIED", "DELETED")), st.dictionaries(st.text(), st.text()))
@example("ADDED", {})
def test_the_head_comes_with_the_event(event_type: str, content: dict[str, str]) -> None:
    """The frame of an object, as Go writes it, is decoded once: its event has the head."""
    obj = msgspec.json.encode({"kind": "Pod", "metadata": {"name": "a"}, "content": content})
    event = parse_event(b'{"type":"%s","object":%s}' % (event_type.encode(), obj))
    assert (event.type, event.data) == (event_type, obj)
    assert event.head is not None
    assert event.head.metadata.name == "a"
