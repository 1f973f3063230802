"""Warning headers: limits and escaping."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.endpoints.warnings import warning_headers

TEXTS = st.lists(st.text(max_size=600), max_size=40)


def told(texts: list[str]) -> list[str]:
    """The texts of the headers."""
    return [value.removeprefix('299 - "')[:-1] for value in warning_headers(texts)]


@pytest.mark.parametrize("text", ["", "tab\there", "two\nlines", "ctl\x01", "del\x7f", "c1\x85", "cr\r"])
def test_what_no_header_can_carry_is_left_out(text: str) -> None:
    """A warning with control characters is dropped completely."""
    assert told(["before", text, "after"]) == ["before", "after"]


def test_quotes_and_backslashes_are_escaped_and_all_else_is_kept() -> None:
    """Quotes and backslashes are escaped; outer spaces and all scripts are kept."""
    assert told([' say "no" \\ ', "é ☃ 😀"]) == [' say \\"no\\" \\\\ ', "é ☃ 😀"]


def test_few_warnings_are_reported_whole() -> None:
    """A few warnings are not truncated, however long they are."""
    assert told(["x" * 4000, "short"]) == ["x" * 4000, "short"]


def test_too_much_is_cut_and_then_left_out() -> None:
    """Many warnings are cut to 256 characters each, and stop at 4,096 in total."""
    assert told(["x" * 5000, "short"]) == ["x" * 256, "short"]
    assert told([f"{number:04}" + "y" * 250 for number in range(30)])[-1].startswith("0016")


@given(TEXTS)
def test_headers_stay_small(texts: list[str]) -> None:
    """The headers have a bounded size, whatever webhooks and policies return."""
    errors = told(texts)
    assert sum(map(len, errors)) <= 2 * (4096 + 256)
    assert len(errors) <= len(texts)
