"""retry_on_conflict calls again after conflicts only, as often as it may."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from opsdk.errors import ConflictError, NotFoundError, UsageError
from opsdk.recipes import retry_on_conflict
from opsdk.recipes.retry import DEFAULT_BACKOFF


@pytest.mark.parametrize("failures", range(6))
async def test_conflicts_are_retried_at_most_four_times(failures: int) -> None:
    """The fifth call's conflict is raised; an earlier success is returned."""
    calls = 0

    async def change() -> str:
        nonlocal calls
        calls += 1
        if calls <= failures:
            raise ConflictError("changed")
        return "done"

    if failures < 5:
        assert await retry_on_conflict(change) == "done"
        assert calls == failures + 1
    else:
        with pytest.raises(ConflictError):
            await retry_on_conflict(change)
        assert calls == 5


async def test_other_errors_are_raised_at_once_and_delays_grow() -> None:
    """Only conflicts are retried, with growing delays; other errors are raised at once."""
    times: list[float] = []

    async def missing() -> None:
        raise NotFoundError("gone")

    async def conflict() -> None:
        times.append(asyncio.get_running_loop().time())
        raise ConflictError("changed")

    with pytest.raises(NotFoundError):
        await retry_on_conflict(missing)
    with pytest.raises(ConflictError):
        await retry_on_conflict(conflict, attempts=4, backoff=DEFAULT_BACKOFF)
    gaps = [round(b - a, 2) for a, b in itertools.pairwise(times)]
    assert gaps == pytest.approx([0.01, 0.05, 0.25], rel=0.2)
    with pytest.raises(UsageError, match="at least 1"):
        await retry_on_conflict(conflict, attempts=0)
