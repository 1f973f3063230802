"""The lines that operators log."""

from __future__ import annotations

from collections.abc import Callable

Lines = Callable[[], list[str]]
"""Returns the lines that reconcilers logged since the last call."""
