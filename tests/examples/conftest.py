"""Fixtures of the ported examples."""

from __future__ import annotations

import logging

import pytest

from tests.examples.logs import Lines


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """Return the lines that reconcilers logged since the last call."""
    caplog.set_level(logging.INFO, "opsdk.reconcile")

    def take() -> list[str]:
        records = [record for record in caplog.records if record.name.startswith("opsdk.reconcile.")]
        texts = [record.getMessage().split(" controller=")[0] for record in records]
        caplog.clear()
        return texts

    return take
