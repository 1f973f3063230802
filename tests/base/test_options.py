"""Options say which keywords there are."""

from __future__ import annotations

import pytest

from opsdk import ControllerOptions
from opsdk.errors import UsageError


def test_a_wrong_keyword_lists_the_right_ones() -> None:
    """The message has the line of the call, the class, and its keywords; msgspec's has none of them."""
    with pytest.raises(
        UsageError, match=r"test_options\.py:16: ControllerOptions does not take timeout: it takes .*max_wait"
    ):
        ControllerOptions(timeout=3)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="ControllerOptions takes keywords only: "):
        ControllerOptions(3)  # type: ignore[call-arg]
