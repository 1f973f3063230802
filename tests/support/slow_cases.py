"""Parameters of a table of which ``make test`` or ``make test-slow`` runs a part, and a longer run the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

__all__ = ["mostly_deep", "mostly_slow"]


def mostly_slow(values: Iterable[object], *, every: int) -> list[ParameterSet]:
    """Return the values as parameters: each `every`-th is fast, from the first on, and the others are slow."""
    return _marked(values, every, pytest.mark.slow)


def mostly_deep(values: Iterable[object], *, every: int) -> list[ParameterSet]:
    """Return the values of a slow test as parameters: all but each `every`-th, from the first on, are deep."""
    return _marked(values, every, pytest.mark.deep)


def _marked(values: Iterable[object], every: int, mark: pytest.MarkDecorator) -> list[ParameterSet]:
    parameters = [value if isinstance(value, ParameterSet) else pytest.param(value) for value in values]
    return [
        each if number % every == 0 else each._replace(marks=[*each.marks, mark])
        for number, each in enumerate(parameters)
    ]
