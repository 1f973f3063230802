"""Names that wrangler and norman would make."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.plurals import guess_plural
from opsdk.recipes import safe_concat_name


@given(st.lists(st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,40}[a-z0-9])?", fullmatch=True), min_size=1, max_size=4))
def test_a_long_name_is_stable_and_short(parts: list[str]) -> None:
    """Norman name: a long concatenation is stable, at most 63 long, a valid label, and differs by its parts."""
    name = safe_concat_name(*parts)
    assert name == safe_concat_name(*parts)
    assert len(name) <= 63
    assert re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", name)
    if len("-".join(parts)) > 63:
        assert name != safe_concat_name(*parts[:-1], f"{parts[-1]}x")
    else:
        assert name == "-".join(parts)


@pytest.mark.parametrize(("cut", "length"), [("a", 57), ("9", 57), ("-", 56), (".", 56)])
def test_a_separator_before_the_hash_is_replaced(cut: str, length: int) -> None:
    """A separator at the cut is replaced by one more character of the hash, as in wrangler."""
    name = safe_concat_name("x" * 56 + cut + "y" * 20)
    assert len(name) == 63
    assert name[length] == "-"
    assert len(name) - length - 1 == {57: 5, 56: 6}[length]


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Site", "Sites"),
        ("Policy", "Policies"),
        ("Gateway", "Gateways"),
        ("Ingress", "Ingresses"),
        ("Prefix", "Prefixes"),
        ("Patch", "Patches"),
        ("Mesh", "Meshes"),
        ("Endpoints", "Endpoints"),
        ("y", "ys"),
        ("", ""),
    ],
)
def test_plurals_follow_english_endings(kind: str, plural: str) -> None:
    """Norman name, GuessPluralName: y->ies, s->ses and so on."""
    assert guess_plural(kind) == plural
