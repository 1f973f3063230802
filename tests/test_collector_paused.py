"""Laws of `opsdk.loading.collector_paused`."""

from __future__ import annotations

import gc

import pytest

from opsdk.loading import collector_paused


@pytest.mark.parametrize("enabled", [True, False])
def test_a_pause_restores_what_was_before(enabled: bool) -> None:
    """Also inside another pause, and where the collector was off."""
    (gc.enable if enabled else gc.disable)()
    try:
        with collector_paused():
            with collector_paused():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_an_error_ends_a_pause() -> None:
    """A module that cannot be imported leaves the collector on."""

    def fail() -> None:
        with collector_paused():
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert gc.isenabled()
