"""JSON and YAML bodies."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.serializer import documents
from opsdk.apimachinery.serializer.documents import MAX_DEPTH, ParsedDocument, SyntaxProblemError, parse_json
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.apiserver.endpoints.negotiation import YAML, AcceptedMediaType
from opsdk.apiserver.endpoints.response import encode
from opsdk.base.limits import Limits

KEYS = st.text("abcxyz", min_size=1, max_size=3)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8"))
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


@given(TREES)
def test_json_is_read_as_it_was_written(tree: object) -> None:
    """JSON survives a round trip without warnings."""
    assert parse_json(json.dumps(tree).encode()) == ParsedDocument(tree)


class Pairs(list[tuple[str, object]]):
    """An object whose keys may be repeated."""


OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.lists(st.tuples(KEYS, inner), max_size=4).map(Pairs),
    max_leaves=20,
)


def written(tree: object) -> str:
    """Write compact JSON with the keys as they are."""
    if isinstance(tree, Pairs):
        return f"{{{','.join(f'{json.dumps(key)}:{written(value)}' for key, value in tree)}}}"
    if isinstance(tree, list):
        return f"[{','.join(map(written, tree))}]"
    return json.dumps(tree, ensure_ascii=False)


@given(st.lists(st.tuples(KEYS, OBJECTS), max_size=4).map(Pairs))
def test_compact_objects_are_read_as_spaced_ones(tree: Pairs) -> None:
    """The fast path for compact bodies has the same values, warnings and errors as the slow one."""

    def read(raw: bytes) -> object:
        try:
            parsed = parse_json(raw)
        except SyntaxProblemError as error:
            return type(error)
        return parsed.complaints, json.dumps(parsed.tree)

    raw = written(tree).encode()
    assert read(raw) == read(b" " + raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"uid":"4f7b1c8e-1234-4e56-8123-9f0e1e234567","n":1e22,"m":5e-324}',
        b'{"a":[' + b",".join([b"{}"] * (MAX_DEPTH + 1)) + b"]}",
        b'{"a":"' + b"[" * (MAX_DEPTH + 1) + b'"}',
        b'{"n":12345678901234567890}',
        b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH,
    ],
)
def test_compact_objects_need_no_second_form(raw: bytes) -> None:
    """Uids with exponents, many brackets, brackets in strings, long integers and the greatest depth are read alike."""
    assert json.dumps(parse_json(raw).tree) == json.dumps(parse_json(b" " + raw).tree)


@given(TREES)
def test_yaml_is_read_as_it_was_written(tree: object) -> None:
    """YAML that the server writes is read back equal."""
    assert parse_yaml(encode({"tree": tree}, AcceptedMediaType(YAML))).tree == {"tree": tree}


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """Any body parses or raises the parser's own error."""
    for parse in (parse_json, parse_yaml):
        with suppress(SyntaxProblemError):
            parse(raw)


def test_repeated_keys_are_reported_with_their_paths() -> None:
    """Each repeated key is reported once, in document order; its last value wins."""
    raw = b'{"m": {"n": 1, "n": 2}, "l": [{"k": 1, "k": 2, "k": 3}], "m": {"n": 4}}'
    parsed = parse_json(raw)
    assert parsed.tree == {"m": {"n": 4}, "l": [{"k": 3}]}
    assert parsed.strict == (
        'duplicate field "m.n"',
        'duplicate field "l[0].k"',
        'duplicate field "m"',
    )


def test_repeated_keys_of_yaml_are_reported_with_their_lines() -> None:
    """Each repeated key of YAML is one warning; strict decoding reports all in one error."""
    parsed = parse_yaml(b"a: 1\nb:\n  c: 2\n  c: 3\na: 4\n")
    assert parsed.tree == {"a": 4, "b": {"c": 3}}
    assert set(parsed.complaints) == {'line 5: key "a" already set in map', 'line 4: key "c" already set in map'}
    assert parsed.strict[0].startswith("yaml: unmarshal errors:\n  line ")


@pytest.mark.parametrize(
    ("raw", "tree"),
    [
        (b'"\\ud800"', "\ufffd"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\xff"', "\ufffd"),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", float(2**63)),
        (b"123456789012345678901234567890", 1.2345678901234568e29),
    ],
)
def test_lone_surrogates_and_huge_integers_are_replaced(raw: bytes, tree: object) -> None:
    """Lone surrogates and invalid bytes are replaced, and integers above 64 bits become floats."""
    parsed = parse_json(raw).tree
    assert parsed == tree
    assert type(parsed) is type(tree)


@pytest.mark.parametrize("raw", [b"NaN", b"-Infinity", b'{"a": Infinity}', b"1e999", b"\xef\xbb\xbf{}"])
def test_what_is_no_json(raw: bytes) -> None:
    """Python's extensions of JSON are rejected."""
    with pytest.raises(SyntaxProblemError):
        parse_json(raw)


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)])
def test_depth_is_bounded(deep: bytes) -> None:
    """Documents that are nested too deeply are rejected early."""
    for parse in (parse_json, parse_yaml):
        with pytest.raises(SyntaxProblemError):
            parse(deep)


def test_brackets_in_strings_are_no_depth() -> None:
    """Brackets inside strings do not count as nesting depth."""
    raw = json.dumps({"a": "[{" * 1000, 'b"\\': "]" * 500}).encode()
    assert parse_json(raw).tree["a"] == "[{" * 1000


def test_aliases_do_not_multiply() -> None:
    """YAML aliases that expand to too many values are rejected."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(SyntaxProblemError, match="excessive aliasing"):
        parse_yaml("\n".join(lines).encode())


def test_merge_keys_do_not_multiply() -> None:
    """A chain of YAML merges that doubles the mapping with each link is rejected."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
    with pytest.raises(SyntaxProblemError, match="excessive aliasing"):
        parse_yaml("\n".join(lines).encode())


def test_merge_keys_merge() -> None:
    """The first merged value of a key wins, and a key of the mapping itself wins over all."""
    parsed = parse_yaml(b"a: &a {x: 1, v: 1}\nb: &b {v: 2, z: 2}\nc: {<<: [*a, *b], x: 3}\n")
    assert parsed.tree["c"] == {"x": 3, "v": 1, "z": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", float(2**63)),
        ("0xffffffffffffffff", float(2**64 - 1)),
        ("0x10000000000000000", "0x10000000000000000"),
        ("1" + "0" * 30, 1e30),
        ("0x" + "f" * 100_000, "0x" + "f" * 100_000),
    ],
)
def test_large_yaml_numbers_resolve_as_in_go(text: str, value: float | str) -> None:
    """A large YAML number becomes int64, a float or text, as in Go."""
    number = parse_yaml(f"a: {text}".encode()).tree["a"]
    assert number == value


def test_the_first_document_counts() -> None:
    """The first non-empty document is used; timestamps stay strings, and keys become strings."""
    parsed = parse_yaml(b"---\n---\n1: 2001-01-01\nyes: {1.5: x}\n---\nb: 2\n")
    assert parsed.tree == {"1": "2001-01-01", "true": {"1.5": "x"}}
    assert not parsed.complaints


@pytest.mark.parametrize("raw", [b"{[1]: x}", b"? {a: b}\n: x\n", b"~: x", b"&a [*a]"])
def test_what_json_cannot_hold(raw: bytes) -> None:
    """YAML with keys that are not strings, or that contains itself, is an error."""
    with pytest.raises(SyntaxProblemError):
        parse_yaml(raw)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("n", False),
        ("Off", False),
        ("yEs", "yEs"),
        ("0x10", 16),
        ("0o10", 8),
        ("010", 8),
        ("-0b11", -3),
        ("1_000", 1000),
        ("1e3", 1000),
        ("1.50", 1.5),
        ("08", 8),
        ("12:30:45", "12:30:45"),
        ("2001-01-01", "2001-01-01"),
        ("!!binary aGk=", "hi"),
        ("!foo x", "x"),
        ("!foo 1", 1),
        ("!foo [1, {a: b}]", [1, {"a": "b"}]),
        ("~", None),
        ("'y'", "y"),
    ],
)
def test_plain_scalars(text: str, value: Any) -> None:
    """Plain scalars follow YAML 1.1 as go-yaml does; timestamps are strings."""
    parsed = parse_yaml(f"a: {text}\n".encode()).tree["a"]
    assert (type(parsed), parsed) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: .inf", "json: unsupported value: +Inf"),
        ("a: .nan", "json: unsupported value: NaN"),
        ("{~: x}", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "x"'),
        ("? [a]\n: b", 'yaml: invalid map key: []interface {}{"a"}'),
        ("a: !!binary '*'", "yaml: !!binary value contains invalid base64 data"),
        ('{"a":"\\ud800"}', "yaml: found invalid Unicode character escape code"),
        (b"a: \xff", "yaml: invalid leading UTF-8 octet"),
        (b"a: \xc3x", "yaml: invalid trailing UTF-8 octet"),
        (b"a: \xc3", "yaml: incomplete UTF-8 octet sequence"),
    ],
)
def test_what_has_no_json(text: str | bytes, why: str) -> None:
    """YAML that says what JSON cannot say is refused."""
    with pytest.raises(SyntaxProblemError) as caught:
        parse_yaml(text if isinstance(text, bytes) else text.encode())
    assert str(caught.value) == why


def test_other_encodings() -> None:
    """A byte order mark selects UTF-16."""
    assert parse_yaml("a: é".encode("utf-16")).tree == {"a": "é"}


@given(st.lists(st.sampled_from(['"', "\\", ",", ":", "[", "{", "x"]), max_size=40).map("".join), st.integers(1, 6))
def test_values_are_counted_in_pieces_as_in_the_whole(text: str, piece: int) -> None:
    """Wherever a document is cut, strings and escapes go on in the next piece."""

    def is_refused(size: int, limit: int) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(documents, "_PIECE", size)
            patch.setattr(documents, "LIMITS", Limits(document_values=limit))
            try:
                documents.parse_json(text.encode())
            except SyntaxProblemError as error:
                return "keys and values" in str(error)
        return False

    for limit in (1, 2, 5):
        assert is_refused(piece, limit) == is_refused(1000, limit)


@given(st.text(st.sampled_from("a\ud83d\ude00\U0001f600é"), max_size=12), st.integers(1, 4))
def test_lone_surrogates_become_replacement_characters(text: str, piece: int) -> None:
    """Each one becomes one, also where a long string is read in pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_PIECE", piece)
        read: Any = parse_json(json.dumps({"a": text}).encode()).tree
    pairs = json.loads(json.dumps(text))
    assert read == {"a": "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in pairs)}
