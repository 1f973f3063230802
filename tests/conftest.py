"""For all tests: no test fails because the machine was busy, and none waits for another one's rubbish."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

# Each run draws new examples, so 60 of them find in a week what 100 find; `thorough` is for a changed core.
settings.register_profile("unhurried", deadline=None, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("unhurried")

# Seconds. A test of 90 s on an idle machine took more than the 300 s of pyproject.toml beside three others.
SLOW_TIMEOUT = 900


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """``-n auto``: a process more than cores, because a fifth of the time tests wait for other processes.

    Slow tests wait more than half of the time, so with them it is one more.
    """
    return (os.cpu_count() or 1) + (1 if config.option.markexpr == "not slow" else 2)


class CollectNeededFiles:
    """Reads before it imports: of 1,600 files, 240 have a doctest and 120 a slow test.

    A conftest only decides for the files below it, so this is a plugin.
    """

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Leave out files without the word when only slow tests are wanted."""
        is_slow_run = config.option.markexpr == "slow" and collection_path.suffix == ".py"
        return True if is_slow_run and b"slow" not in collection_path.read_bytes() else None

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Look for doctests only in files with a prompt."""
        collectors = yield
        if (
            any(isinstance(collector, DoctestModule) for collector in collectors)
            and b">>>" not in file_path.read_bytes()
        ):
            return [collector for collector in collectors if not isinstance(collector, DoctestModule)]
        return collectors

    @pytest.hookimpl(trylast=True)
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Give a slow test more time.

        Refuse one whose file does not have the word, because the slow run would not find it.
        """
        if item.get_closest_marker("slow") is None:
            return
        if b"slow" not in item.path.read_bytes():
            raise pytest.UsageError(f"{item.nodeid} is slow: name the mark in its file")
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT))


def pytest_configure(config: pytest.Config) -> None:
    """Register the rules of collection for all folders."""
    config.pluginmanager.register(CollectNeededFiles())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection, which takes an eighth of the time and frees little."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take modules and collected tests out of garbage collection: a quarter of the CPU time went there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
