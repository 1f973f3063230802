"""Settings of Python's garbage collector."""

import gc

import pytest

from opsdk.aio.garbage import rare_collections


def test_rare_collections_end_with_their_block() -> None:
    """The collector runs rarely inside the block, and as before after it, also after an error."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with pytest.raises(ValueError, match="inside"), rare_collections():
        assert gc.get_threshold() > before
        raise ValueError("inside")
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == frozen
