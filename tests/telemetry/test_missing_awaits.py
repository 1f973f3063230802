"""Calls without ``await`` are errors in the log."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import pytest

from opsdk.telemetry.context import log_context
from opsdk.telemetry.missing_awaits import log_missing_awaits


@pytest.fixture(autouse=True)
def _warnings_as_before() -> Iterator[None]:
    """The hook of warnings is restored, and each warning is shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _show  # type: ignore[assignment] # it takes fewer arguments
        yield


def _show(message: Warning | str, *_: object) -> None:
    sys.stdout.write(f"shown: {message}\n")


async def _write() -> None:
    """Do nothing."""


def test_a_call_without_await_is_an_error(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """It has file and line, and the fields of the reconcile, once; other warnings are shown as before."""
    log_missing_awaits()
    log_missing_awaits()
    with log_context(controller="widget"):
        _write()  # type: ignore[unused-coroutine]
    warnings.warn("other", stacklevel=1)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert f"{__file__}:37: _write() was called without await and did not run: write await before it" in record.message
    assert capsys.readouterr().out == "shown: other\n"
