"""The characters that a regular expression allows."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.norman.importing.characters import allowed_characters

DNS = string.digits + string.ascii_lowercase


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "-" + DNS),
        (r"^v\d{1,3}(\.\d+)*?$", "." + string.digits + "v"),
        ("^(?:on|off)$", "fno"),
        (r"^[\w.]+$", "." + string.digits + string.ascii_uppercase + "_" + string.ascii_lowercase),
        ("^[a-]$", "-a"),
        ("^$", ""),
        # No limit is known.
        ("a", ""),
        ("^a", ""),
        (r"^a\$", ""),
        ("^a|b$", ""),
        ("^.*$", ""),
        ("^[^a]$", ""),
        (r"^\S+$", ""),
        (r"^[\s]$", ""),
        (r"^\x41$", ""),
        ("^[[:alpha:]]$", ""),
        ("^(?i)a$", ""),
        ("^(a$", ""),
        ("^*$", ""),
        ("", ""),
    ],
)
def test_characters_of_patterns(pattern: str, expected: str) -> None:
    """The result has every character of the pattern; a pattern that is not understood gives no limit."""
    assert allowed_characters(pattern) == "".join(sorted(expected))


PARTS = st.sampled_from(["a", "[b-d]", r"\.", "(e|f)", "(?:g[hi])?", "x*", r"\d+", "[-_]", "y{1,2}", "^", "|", "."])


@given(parts=st.lists(PARTS, max_size=5), data=st.data())
def test_no_match_has_another_character(parts: list[str], data: st.DataObject) -> None:
    """A text that the pattern matches consists of the allowed characters."""
    pattern = f"^{''.join(parts)}$"
    allowed = allowed_characters(pattern)
    if allowed:
        text = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True))
        assert set(text.removesuffix("\n")) <= set(allowed)
