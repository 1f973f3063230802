"""Laws of `opsdk.http.client.parser`."""

from __future__ import annotations

import http.client
import io

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.http.client.parser import ResponseParser, ResponseState

TOKENS = st.text(alphabet="abcXYZ019-_.!#$%&'*+^`|~", min_size=1, max_size=12)
VALUES = st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=20)
# These frame the message: a random value would be another message.
FRAMING = {"content-length", "transfer-encoding", "connection", "upgrade"}


def parsed(*pieces: bytes) -> ResponseParser:
    """Return the parser after the pieces of a response to GET."""
    parser = ResponseParser()
    parser.begin("GET")
    for piece in pieces:
        parser.feed(piece)
    return parser


@given(st.lists(st.tuples(TOKENS, VALUES).filter(lambda field: field[0].lower() not in FRAMING), max_size=8))
def test_headers_are_those_that_the_standard_library_reads(fields: list[tuple[str, str]]) -> None:
    """Names, values and repeated headers are as `http.client` reads them."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in [*fields, ("Content-Length", "2")])
    expected: dict[str, list[str]] = {}
    for name, value in http.client.parse_headers(io.BytesIO(f"{lines}\r\n".encode("latin-1"))).items():
        expected.setdefault(name.lower(), []).append(value.strip(" \t"))

    parser = parsed(f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode("latin-1"), b"{}")

    assert parser.headers == {name: ", ".join(values) for name, values in expected.items()}
    assert parser.take() == b"{}"


def test_every_cut_of_a_response_is_the_same_response() -> None:
    """An interim response and all headers are read at every cut."""
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </style>\r\n\r\n"
    whole = (
        interim + b"HTTP/1.1 201 Created\r\nAudit-Id: 1\r\nX:\t a b \t\r\naudit-id: 2\r\nContent-Length: 3\r\n\r\nabc"
    )
    cuts = [[whole[:i], whole[i:]] for i in range(len(whole) + 1)] + [[whole[i : i + 1] for i in range(len(whole))]]
    for pieces in cuts:
        parser = parsed(*filter(None, pieces))
        assert (parser.status, parser.state, parser.reusable) == (201, ResponseState.DONE, True)
        assert parser.headers == {"audit-id": "1, 2", "x": "a b", "content-length": "3"}
        assert parser.take() == b"abc"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", id="an empty line before it"),
        pytest.param(b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", id="two empty lines before it"),
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", id="lines without CR"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: b\nContent-Length: 0\r\n\r\n", id="one line without CR"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", id="a folded line"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 0\r\n\r\n", id="a space before the colon"),
    ],
)
def test_another_form_of_a_head_is_an_error(head: bytes) -> None:
    """Headers are never read from bytes that another parser would read differently."""
    with pytest.raises(httptools.HttpParserError):
        parsed(head)


def test_bytes_after_the_response_end_the_connection() -> None:
    """A second response to one request is an error, also in the same bytes."""
    parser = parsed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    with pytest.raises(httptools.HttpParserError):
        parser.feed(b"H")
    assert not parser.reusable
    with pytest.raises(httptools.HttpParserError):
        parsed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n")
