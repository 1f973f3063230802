"""Syntax errors of JSON, with the messages of Go's scanner."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.serializer.json_errors import first_fault, quote_byte

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 1]))
def test_valid_json_has_no_fault(value: object, indent: int | None) -> None:
    """Valid JSON has no fault."""
    assert first_fault(json.dumps(value, indent=indent).encode()) is None
    assert first_fault(json.dumps(value, ensure_ascii=False).encode()) is None


@given(VALUES.filter(lambda v: not isinstance(v, (int, float)) or isinstance(v, bool)), st.data())
def test_every_cut_is_an_unexpected_end(value: object, data: st.DataObject) -> None:
    """A document that stops early ends unexpectedly, wherever it stops; only numbers may be whole before their end."""
    raw = json.dumps(value).encode()
    cut = data.draw(st.integers(0, len(raw) - 1))
    assert first_fault(raw[:cut]) == "unexpected end of JSON input"


@given(st.binary(max_size=40))
def test_the_scanner_agrees_with_a_strict_parser(raw: bytes) -> None:
    """The scanner finds a fault exactly if a strict parser rejects the text."""

    def constant(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(raw.decode("utf-8", "replace"), parse_constant=constant)
        good = not raw.startswith(b"\xef\xbb\xbf")
    except ValueError:
        good = False
    assert (first_fault(raw) is None) == good


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "unexpected end of JSON input"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"{x", "invalid character 'x' looking for beginning of object key string"),
        (b'{"a" 1', "invalid character '1' after object key"),
        (b'{"a":1 "b"', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"1 2", "invalid character '2' after top-level value"),
        (b"01", "invalid character '1' after top-level value"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1e+x", "invalid character 'x' in exponent of numeric literal"),
        (b"nope", "invalid character 'o' in literal null (expecting 'u')"),
        (b"\xff", "invalid character '\\xff' looking for beginning of value"),
        (b"'a'", r"invalid character '\'' looking for beginning of value"),
        (b"[" * 10_001, "exceeded max depth"),
        (b"[" * 9_000 + b"]" * 9_000, None),
    ],
)
def test_the_words(raw: bytes, text: str | None) -> None:
    """Each syntax error has the message of Go's scanner; depth costs no stack."""
    assert first_fault(raw) == text


def test_every_byte_can_be_shown() -> None:
    """Every byte has exactly one escape in messages."""
    assert len({quote_byte(byte) for byte in range(256)}) == 256
