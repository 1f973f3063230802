"""For all tests: no test fails because the machine was busy, and none waits for another one's rubbish."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import settings

# Each run draws new examples, so 60 of them find in a week what 100 find; `thorough` is for a changed core.
settings.register_profile("unhurried", deadline=None, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("unhurried")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """``-n auto``: a process more than cores, because a fifth of the time tests wait for other processes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take modules and collected tests out of garbage collection: a quarter of the CPU time went there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
