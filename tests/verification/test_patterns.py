"""Laws of strings that match a pattern."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cel.regex import compile_regex
from opsdk.verification.workload.patterns import MAX_STRING, matching_strings

COMMON = (
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE])?$",
    "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$",
    r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$",
    r"^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$",
    "^[a-f0-9]{8}-([a-f0-9]{4}-){3}[a-f0-9]{12}$",
    r"^([0-9]{1,3}\.){3}[0-9]{1,3}(/([0-9]|[1-2][0-9]|3[0-2]))?$",
    r"^https?://[^\s/$.?#].[^\s]*$",
    "^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$",
    r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    r"^\s*$|^[[:alpha:]_]\w{0,31}$",
    r"\.svc(\.cluster\.local)?\z",
    "^(?P<name>[a-z]+)@(?i:[A-Z]+)$",
    r"^\p{L}+\x2d\x{41}$",
    "^a{2}b{2,}c{2,3}d{$",
)


@pytest.mark.parametrize("pattern", COMMON)
def test_common_patterns_are_matched(pattern: str) -> None:
    """Each pattern that definitions often use has matching strings, which the server's library confirms."""
    compiled = compile_regex(pattern)
    texts = list(matching_strings(pattern))
    assert sum(bool(compiled.search(text)) for text in texts) >= min(len(texts), 2) > 0


@pytest.mark.parametrize(
    ("pattern", "length"), [("^[a-z]+$", 63), ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 253), ("x*", 4000)]
)
def test_lengths_are_reached(pattern: str, length: int) -> None:
    """A string of the wanted length is among the proposals."""
    assert length in {len(text) for text in matching_strings(pattern, [length])}


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 1000,
        "((((x{999}){999}){999}){999})",
        "[",
        "a{",
        "\\",
        "(?=x)",
        "(?<",
        "(?P<a",
        "\\p{",
        "\\x{z}",
        "[z-a]",
        "x{9999}",
    ],
)
def test_hostile_patterns_end(pattern: str) -> None:
    """Deep, huge and broken patterns have few proposals or none."""
    assert all(len(text) <= MAX_STRING + 1 for text in matching_strings(pattern, [10**9]))


@given(st.text(alphabet=r"ab0^$.|()[]{}*+?\-,:dwspPxLn<>i2", max_size=25))
def test_any_text_is_a_pattern(pattern: str) -> None:
    """No text makes the parser fail."""
    assert all(len(text) <= MAX_STRING + 1 for text in matching_strings(pattern))


@given(st.from_regex(r"(\[[a-z0-9]{1,3}\][*+?]?|[a-z]|\(a\|bc\)[*+]?|\\d|\.){1,6}", fullmatch=True))
def test_simple_patterns_are_matched(pattern: str) -> None:
    """Each proposal for a pattern of the supported part matches all of it."""
    compiled = compile_regex(f"^(?:{pattern})$")
    texts = list(matching_strings(pattern))
    assert texts
    assert all(compiled.search(text) for text in texts)
