"""The lines of a log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import ResponseLimitError
from opsdk.pods.lines import LineSplitter


def split(pieces: list[bytes], limit: int) -> tuple[list[bytes], bool]:
    """The lines of pieces, and whether one of them was too long."""
    splitter = LineSplitter(limit)
    lines: list[bytes] = []
    try:
        for piece in pieces:
            lines.extend(splitter.feed(piece))
        lines.extend(splitter.finish())
    except ResponseLimitError:
        return lines, True
    return lines, False


@given(st.lists(st.text("ab\n", max_size=6).map(str.encode)), st.integers(1, 8))
def test_lines_do_not_depend_on_the_cuts(pieces: list[bytes], limit: int) -> None:
    """Any cut of the same bytes has the same lines, and the same error after the same lines."""
    whole = b"".join(pieces)
    expected = whole.removesuffix(b"\n").split(b"\n") if whole else []
    lines, is_cut = split(pieces, limit)
    assert (lines, is_cut) == split([whole], limit)
    assert is_cut is any(len(line) > limit for line in expected)
    assert lines == expected[: len(lines)]
    assert is_cut or lines == expected


def test_a_line_without_end_is_bounded() -> None:
    """The error names the option, and the splitter keeps no more than one line."""
    splitter = LineSplitter(100)
    for _ in range(3):
        assert not list(splitter.feed(b"x" * 30))
    with pytest.raises(ResponseLimitError, match="more than 100 bytes: pass a larger max_line_bytes"):
        list(splitter.feed(b"x" * 30))
