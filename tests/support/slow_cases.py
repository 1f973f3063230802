"""Parameters of a table of which ``make test`` runs a part, and ``make test-slow`` the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

__all__ = ["mostly_slow"]


def mostly_slow(values: Iterable[object], *, every: int) -> list[ParameterSet]:
    """Return the values as parameters: each `every`-th is fast, from the first on, and the others are slow."""
    parameters = [value if isinstance(value, ParameterSet) else pytest.param(value) for value in values]
    return [
        each if number % every == 0 else each._replace(marks=[*each.marks, pytest.mark.slow])
        for number, each in enumerate(parameters)
    ]
