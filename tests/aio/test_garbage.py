"""Settings of Python's garbage collector."""

import gc

import pytest

from opsdk.aio.garbage import rare_collections


def test_rare_collections_end_with_their_block() -> None:
    """The collector runs rarely inside the block, and as before after it; nothing is frozen."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        assert gc.get_threshold() == (5_000, 5, 2_000)
    with rare_collections(oldest=20):
        assert gc.get_threshold() == (5_000, 5, 20)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == frozen


def test_rare_collections_end_after_an_error() -> None:
    """The collector runs as before after an error."""
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="inside"), rare_collections():
        raise ValueError("inside")
    assert gc.get_threshold() == before
