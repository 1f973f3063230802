"""No simulated controller may complain while these tests run."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Controllers survive their errors and log them: a test that caused one has found something."""
    with caplog.at_level(logging.WARNING, logger="envtest.controllers"):
        yield
    loud = [r.getMessage() for r in caplog.get_records("call") if r.name == "envtest.controllers"]
    assert not loud
