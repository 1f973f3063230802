"""YAML bodies cost what their bytes cost, have a budget of values, and are read beside the loop."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from opsdk.apimachinery.serializer import yaml_documents
from opsdk.apimachinery.serializer.documents import MAX_DEPTH, SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.apimachinery.serializer.yaml_events import PythonParser
from opsdk.base.limits import LIMITS
from tests.security.processor_time import cpu_seconds

SHAPES = {
    "flow list": ("[", "0,", "]"),
    "flow mappings": ("[", "{a: b},", "]"),
    "block list": ("", "- a\n", ""),
    "mapping": ("", "k%d: v\n", ""),
    "explicit keys": ("", "? a\n: b\n", ""),
    "anchors": ("", "- &a%d x\n", ""),
    "aliases": ("- &x y\n", "- *x\n", ""),
    "merges": ("a: &x {y: z}\n", "k%d: {<<: *x}\n", ""),
    "documents": ("", "---\n", ""),
    "escapes": ('a: "', "\\u00e9", '"'),
    "an unclosed list": ("", "[", ""),
    "simple keys": ("", "a: ", ""),
    "tags": ("[", "!!int 1,", "]"),
    "comments": ("", "#\n", ""),
    "a folded text": ("a: >\n", " x\n", ""),
}


def document(shape: str, size: int) -> bytes:
    """Return a document of about `size` bytes."""
    begin, unit, end = SHAPES[shape]
    count = size // len(unit)
    return (begin + ("".join(unit % n for n in range(count)) if "%d" in unit else unit * count) + end).encode()


def parse(raw: bytes) -> None:
    """Parse a document, also one that is refused."""
    with suppress(SyntaxProblemError):
        parse_yaml(raw)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_document_takes_linear_time(shape: str) -> None:
    """Eight times the bytes cost about eight times as much, and 64 KB cost far less than a second."""
    small, large = (
        min(cpu_seconds(partial(parse, document(shape, size))) for _ in range(3)) for size in (8 << 10, 64 << 10)
    )
    assert large < max(30 * small, 0.02)
    assert large < 0.5


@pytest.mark.slow
def test_values_are_limited() -> None:
    """Beyond the budget a document is refused, with aliases or without."""
    with pytest.raises(SyntaxProblemError, match="excessive"):
        parse_yaml(b"[" + b"0," * (LIMITS.document_values + 1) + b"]")
    with pytest.raises(SyntaxProblemError, match="excessive"):
        parse_yaml(b"- &a [" + b"0," * 1000 + b"]\n" + b"- *a\n" * (LIMITS.document_values // 1000 + 1))


def test_aliases_do_not_deepen() -> None:
    """A chain of aliases is as deep as the value that it stands for."""
    chain = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, MAX_DEPTH + 10))])
    with pytest.raises(SyntaxProblemError, match="exceeded max depth"):
        parse_yaml(chain.encode())


@pytest.mark.parametrize("text", ["&a [*a]", "a: &a {b: *a}", "&a {? *a : b}"])
def test_a_value_that_contains_itself_is_refused(text: str) -> None:
    """An alias inside its own anchor is refused with goyaml's message."""
    with pytest.raises(SyntaxProblemError, match="value contains itself"):
        parse_yaml(text.encode())


@pytest.mark.parametrize("text", ["!!bool x", "!!int x", "!!float x", "!!null x", "!!int ''", "!!bool ''"])
def test_a_scalar_that_does_not_fit_its_tag_is_refused(text: str) -> None:
    """With goyaml's message, not with an exception of Python."""
    with pytest.raises(SyntaxProblemError, match="cannot decode !!"):
        parse_yaml(text.encode())


def test_pyyaml_without_libyaml_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, duplicate keys and merges."""
    raw = b"a: &a {x: 1, x: 2}\nb: {<<: *a, y: [1.5, ~, yes, 'q', !!str 5]}\n"
    expected = parse_yaml(raw)
    monkeypatch.setattr(yaml_documents, "EventParser", PythonParser)
    assert parse_yaml(raw) == expected
    with pytest.raises(SyntaxProblemError, match="did not find expected"):
        parse_yaml(b"a: [b\n")
