"""Plain scalars in flow collections are read as goyaml's scanner reads them, which libyaml does not.

Upstream: sigs.k8s.io/yaml/goyaml.v2/scannerc.go (yaml_parser_scan_plain_scalar)
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsdk.apimachinery.serializer import yaml_documents
from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml, read_documents, read_located_documents
from opsdk.apimachinery.serializer.yaml_events import EventParser, PythonParser
from tests.apimachinery.go_yaml import resolve

# What goyaml returns for one document, by its rules: a colon ends a plain scalar before a blank only.
TABLE: dict[str, Any] = {
    "[1.2.3.4, 001:db8::]": ["1.2.3.4", "001:db8::"],
    "[fe80::/10, a::, b]": ["fe80::/10", "a::", "b"],
    "[a:]": ["a:"],
    "[a:, b]": ["a:", "b"],
    "{a: b::}": {"a": "b::"},
    "{a: b::, c: d}": {"a": "b::", "c": "d"},
    "{a:}": {"a:": None},
    "{a::, b: c}": {"a::": None, "b": "c"},
    "{a:,b: c}": {"a:": None, "b": "c"},
    "[a::b]": ["a::b"],
    "[http://x:80/, y]": ["http://x:80/", True],
    "[a: b]": [{"a": "b"}],
    "[a:: b]": [{"a:": "b"}],
    "[a::\n b]": [{"a:": "b"}],
    '["a":b]': [{"a": "b"}],
    '["a?b", "c:"]': ["a?b", "c:"],
    "[?a]": [{"a": None}],
    "a?b: [c]": {"a?b": ["c"]},
    "a: [b:]\nc: {d: 1:}": {"a": ["b:"], "c": {"d": "1:"}},
}
REFUSED = {
    "[::1]": "did not find expected node content",
    '["a"::]': "did not find expected node content",
    "[a?b]": "did not find expected ',' or ']'",
    "{x: [a::b?]}": "did not find expected ',' or ']'",
    "a: b::": "mapping values are not allowed in this context",
}


@pytest.mark.parametrize("parser", [EventParser, PythonParser])
@pytest.mark.parametrize("text", TABLE)
def test_a_colon_ends_a_plain_scalar_before_a_blank_only(
    text: str, parser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body and a file have goyaml's values, with libyaml and without it."""
    monkeypatch.setattr(yaml_documents, "EventParser", parser)
    assert parse_yaml(text.encode()).tree == TABLE[text]
    assert read_documents(f"{text}\n---\nlast: [x:]\n".encode()) == [TABLE[text], {"last": ["x:"]}]


@pytest.mark.parametrize("text", REFUSED)
def test_what_goyaml_refuses_is_refused(text: str) -> None:
    """The error has goyaml's words, also where libyaml reads a value."""
    with pytest.raises(SyntaxProblemError, match=REFUSED[text].replace("]", r"\]")):
        parse_yaml(text.encode())


SCALARS = st.text("ab01:./_", min_size=1, max_size=8).filter(lambda text: text[0] != ":")


@given(st.lists(SCALARS, max_size=5), st.booleans())
def test_a_scalar_without_blanks_is_one_value(texts: list[str], is_mapping: bool) -> None:
    """In a sequence and in a mapping, a plain scalar without blanks has the value of Go's resolver."""
    values = [resolve(text) for text in texts]
    if is_mapping:
        raw = "{" + ", ".join(f"k{index}: {text}" for index, text in enumerate(texts)) + "}"
        assert parse_yaml(raw.encode()).tree == {f"k{index}": value for index, value in enumerate(values)}
    else:
        assert parse_yaml(f"[{', '.join(texts)}]".encode()).tree == values


@given(st.text("a:?,[]{} \n", max_size=12))
def test_libyaml_never_decides(text: str) -> None:
    """Whatever the text, the result is that of the scanner with goyaml's rule."""

    def read() -> object:
        try:
            return read_documents(text.encode())
        except SyntaxProblemError:
            return "error"

    short = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_documents, "EventParser", PythonParser)
        assert read() == short


FILLS = st.sampled_from(
    ["# fill\n", "fill: 'x y'\n", "fill: |\n  x: [y?]\n", 'fill: "\\u00e4\n  x"\n', "fill: {a: [b, c]}\n"]
)


@settings(max_examples=30)
@given(st.text("a:?,[]{} \n", max_size=12), FILLS, st.sampled_from([0, 64 << 10]))
def test_the_size_of_a_body_never_decides(text: str, fill: str, size: int) -> None:
    """A value is read alike in a small body and in one of more than 64 KiB, before it and behind it."""

    def read(body: str) -> object:
        try:
            tree = parse_yaml(body.encode()).tree
        except SyntaxProblemError:
            return "error"
        assert isinstance(tree, dict)
        return tree.get("value")

    value = f"value: [{text}]\n".replace("\n", "\n  ") + "\n"
    padding = fill * (size // len(fill) + 1)
    assert read(value) == read(value + padding) == read(padding + value)


def test_lines_are_those_of_the_second_reading() -> None:
    """The lines of fields are right after a document was read again."""
    (document,), lines = read_located_documents(b"a:\n  b: [x:]\n  c: 1\n")
    assert lines.line_of(document.tree, "a.c") == 3
