"""What is written as YAML is read equal by every reader that Kubernetes users have."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.serializer.yaml_documents import parse_yaml, read_documents
from opsdk.apimachinery.serializer.yaml_writer import write_documents, write_yaml
from opsdk.apiserver.serializer.raw import RawExtension
from opsdk.errors import EncodeError
from tests.apimachinery import go_yaml

AMBIGUOUS = [
    *("y", "Y", "n", "N", "yes", "no", "on", "off", "Off", "true", "True", "False", "null", "Null", "~", ""),
    *("1", "-1", "+1", "1e3", "1E3", "25921e05", "1e+3", "1.", ".5", "-.5", "+.5", "1.5e3", "1_000", "1_000.5", "-_1"),
    *("0o17", "0O17", "-0o17", "017", "08", "0x1F", "0X1f", "-0x1F", "0b1", "0B1", "-0b1", "0b-11", "0b+1", "0o-7"),
    *("1:30", "-1:30", "1:30.5", "190:20:30", "1__0", "0_8", "1e999", "1_e3", "_1", "0x", "+", "-", ".", "...", "---"),
    *(".inf", "-.Inf", "+.INF", ".nan", ".NaN", ".5_0", "inf", "nan", "=", "<<", "!", "&a", "*a", "%a", "@a", "`a"),
    *("2001-01-01", "2001-1-1", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43.10 -5", "2001-01-01T00:00:00Z"),
    *(" a", "a ", " ", "a: b", "a:", ":a", ": a", "a #b", "#a", "- a", "-a", "--a", "? a", "?a", "[a]", "{a}", "a,b"),
    *("'a'", '"a"', "it's", "a\tb", "\ta", "a\nb", "a\nb\n", "a\n\n", "\na", "\n", " a\nb", "a \nb", "a\n b", "a\n "),
    *("a\rb", "a\r\nb", "a\x85b", "a\u2028b", "\ufeffa", "a\u00a0", "\u3000", "é", "\U0001f600", "a\x00b", "a\x7f"),
    *("k" * 200, "k" * 2000, "k " * 600 + "k", "\\", "a\\nb", "/", "1.2.3", "10.0.0.1", "100Mi", "5m", "a|b", "|", ">"),
    *("a\n---\nb", "a\n# b\n", "a\n\tb\n", "a\n\n\nb\n\n\n", "key: |\n  x\n", "{{ .Values.x }}", "${x}", "\u202e"),
]
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = (
    st.text(st.characters(codec="utf-8"), max_size=12)
    | st.text("0123456789+-._eExXoObB:", max_size=8)
    | st.text("ab \n\t:#-?,'\"|>%@&*!{}[]\\", max_size=12)
    | st.sampled_from(AMBIGUOUS)
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=15,
)


def readers(text: str) -> list[list[Any]]:
    """Return the documents as each reader has them."""
    return [read_documents(text.encode()), list(yaml.safe_load_all(text)), go_yaml.read_all(text)]


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_each_reader_reads_what_was_written(documents: list[Any]) -> None:
    """A stream of any JSON values is read equal by opsdk, by PyYAML with YAML 1.1, and by Go's rules."""
    for read in readers(write_documents(documents)):
        assert read == documents
        assert _alike(read, documents)


def _alike(read: Any, written: Any) -> bool:
    """Whether scalars have equal types: True equals 1. Whole floats are integers in JSON."""
    if isinstance(written, dict):
        return all(_alike(read[key], value) for key, value in written.items())
    if isinstance(written, list):
        return all(map(_alike, read, written))
    return type(read) is type(written) or {type(read), type(written)} == {int, float}


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_a_string_stays_a_string(text: str) -> None:
    """Strings that look like another type are quoted: as values, as keys, in lists, and as a document."""
    for value in (text, {text: text}, [text, [text]], {"a": [{text: [text]}]}, [{"a": text, "b": {"c": text}}]):
        for read in readers(write_documents([value, {"next": "document"}])):
            assert read == [value, {"next": "document"}]


def test_other_strings_are_plain() -> None:
    """Names, images, arguments, addresses, versions and quantities need no quotes."""
    plain = ["a", "nginx:1.25", "--flag=x", "-v", "10.0.0.1", "1.2.3", "100Mi", "a b", "/a/b", "a/b.c:d", "é", "*a"[1:]]
    assert write_yaml(plain) == "".join(f"- {text}\n" for text in plain)


def test_quotes_are_those_of_kubectl() -> None:
    """Another type gets double quotes, other text single ones; several lines are a block."""
    assert write_yaml({"a": "y", "n": "b: c", "s": "x\ny\n", "z": "a\tb"}) == (
        'a: "y"\n"n": \'b: c\'\ns: |\n  x\n  y\nz: "a\\tb"\n'
    )


@given(st.text(st.characters(), max_size=20))
def test_any_text_can_be_written(text: str) -> None:
    """A lone surrogate, which has no UTF-8, becomes a replacement character, as in Go."""
    expected = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    assert parse_yaml(write_yaml({"a": text}).encode()).tree == {"a": expected}


def test_lazily_encoded_parts_are_written() -> None:
    """JSON text, raw fields, times and structs are written as their JSON."""
    raw = RawExtension({"y": 1}, '{"y": 1}')
    text = write_yaml({"a": msgspec.Raw(b'{"n":[1,"2"]}'), "b": raw, "c": (1, 2)})
    assert text == 'a:\n  "n":\n  - 1\n  - "2"\nb:\n  "y": 1\nc:\n- 1\n- 2\n'


def test_what_has_no_json_is_refused() -> None:
    """The error has the type and says what can be written."""
    with pytest.raises(EncodeError, match="object"):
        write_yaml({"a": object()})


def test_keys_are_sorted_on_demand() -> None:
    """Sorted keys give equal bytes for equal objects; otherwise keys keep their order."""
    assert write_yaml({"b": 1, "a": 2}) == "a: 2\nb: 1\n"
    assert write_yaml({"b": 1, "a": 2}, sort_keys=False) == "b: 1\na: 2\n"
