"""Syntax errors of YAML, with go-yaml's messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [b\n", "line 1: did not find expected ',' or ']'"),
        ("a: [", "line 1: did not find expected node content"),
        ("a: {b\n", "line 1: did not find expected ',' or '}'"),
        ("x: 1\na: [b\n", "line 1: did not find expected ',' or ']'"),
        ("\tx: 1", "found character that cannot start any token"),
        ("a: 1\nb: @\n", "line 2: found character that cannot start any token"),
        ("a: b: c", "mapping values are not allowed in this context"),
        ("x: 1\na: b: c\n", "line 2: mapping values are not allowed in this context"),
        ("a: 1\n  b: 2\n", "line 2: mapping values are not allowed in this context"),
        ("a: 1\n- b\n", "line 1: did not find expected key"),
        ("- a\nb: 1\n", "line 1: did not find expected '-' indicator"),
        ("a: *b", "unknown anchor 'b' referenced"),
        ("%YAML 9.9\n---\na: 1", "found incompatible YAML document"),
        ("a: \x00", "control characters are not allowed"),
        ("a: 'b", "found unexpected end of stream"),
    ],
)
def test_words_and_lines(text: str, words: str) -> None:
    """YAML errors have go-yaml's messages and line numbers."""
    with pytest.raises(SyntaxProblemError) as caught:
        parse_yaml(text.encode())
    assert str(caught.value) == f"yaml: {words}"


@given(st.text(alphabet="ab:- \n[]{},&*!|>'\"%@`#?\t0", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Invalid YAML has go-yaml's messages, not those of Python's parser."""
    try:
        parse_yaml(text.encode())
    except SyntaxProblemError as problem:
        message = str(problem)
    else:
        message = "yaml: "
    assert message.startswith(("yaml: ", "unsupported map key of type: "))
    assert "but found" not in message
    assert "<unicode string>" not in message
