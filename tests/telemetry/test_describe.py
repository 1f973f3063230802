"""Errors in one line, and whether their traceback is logged."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import (
    ApiError,
    ConflictError,
    ConnectError,
    DecodeError,
    RequestInfo,
    TerminalError,
    UsageError,
)
from opsdk.telemetry.describe import describe

GET = RequestInfo(verb="get", resource="pods", namespace="default", name="web")


@pytest.mark.parametrize(
    ("error", "text", "with_traceback"),
    [
        (ConflictError("changed", request=GET), "get pods default/web: 409 Conflict: changed", False),
        (ConnectError("refused"), "refused", False),
        (TerminalError("spec.image is wrong"), "spec.image is wrong", False),
        (TerminalError(), "TerminalError", False),
        (UsageError("no name"), "no name", True),
        (DecodeError("bad"), "bad", False),
        (ValueError("a\n  b"), "ValueError: a b", True),
        (KeyError("a"), "KeyError: 'a'", True),
        (TimeoutError(), "TimeoutError", True),
        (asyncio.CancelledError(), "CancelledError", True),
    ],
)
def test_one_line_and_a_traceback_for_mistakes(error: BaseException, text: str, *, with_traceback: bool) -> None:
    """API errors have no traceback; mistakes of the author's code and foreign exceptions have one."""
    assert describe(error) == (text, with_traceback)


def test_a_group_is_described_by_its_parts() -> None:
    """A group is described by its parts, has a traceback if one part needs it, and is cut if long."""
    conflict = ConflictError("changed")
    assert describe(ExceptionGroup("g", [conflict, ExceptionGroup("h", [conflict])])) == ("changed; changed", False)
    assert describe(ExceptionGroup("g", [conflict, ValueError("v")])) == ("changed; ValueError: v", True)
    assert describe(ExceptionGroup("g", [conflict] * 9))[0].endswith("changed; 4 more errors")


@pytest.mark.parametrize("count", [1, 100])
def test_a_long_text_is_shortened(count: int) -> None:
    """Each retry logs the text: it is at most 4,096 characters, alone and in a group."""
    error = ExceptionGroup("all", [ValueError("x" * 1_000_000) for _ in range(count)])
    text, _ = describe(error)
    assert text.startswith("ValueError: xxx")
    assert text.endswith("...")
    assert len(text) == 4096


def test_notes_are_part_of_the_text() -> None:
    """`add_note` adds what only the caller knows."""
    error = ApiError("no", code=418)
    error.add_note("while the tea was made")
    assert describe(error)[0] == "no [while the tea was made]"


def test_an_error_without_text_is_named_by_its_class() -> None:
    """An exception class whose ``__str__`` raises does not break the log."""

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert describe(BrokenError()) == ("BrokenError: its text cannot be shown: RuntimeError", True)


@given(st.text())
def test_the_text_is_one_line(message: str) -> None:
    """The description of an error is one line, with spaces for line breaks."""
    assert len(describe(ApiError(message))[0].splitlines()) <= 1
    assert len(describe(ValueError(message))[0].splitlines()) == 1
