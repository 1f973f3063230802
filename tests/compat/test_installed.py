"""Says why there is nothing to see here where the clients are missing."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def test_clients_are_installed() -> None:
    """The clients live in an environment of their own."""
    if find_spec("kubernetes") is None:
        pytest.skip("other Python clients are not installed here: run make compat")
