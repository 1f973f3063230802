"""The time of the running event loop, virtual or not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from opsdk.aio.clock import monotonic, utc_now


async def test_both_times_are_virtual_in_a_virtual_loop() -> None:
    """A sleep of an hour moves `monotonic` and `utc_now` by an hour."""
    began, began_at = monotonic(), utc_now()
    await asyncio.sleep(3600)
    assert monotonic() - began == 3600
    assert utc_now() - began_at == timedelta(hours=1)


def test_the_wall_time_needs_no_loop() -> None:
    """Without a running loop `utc_now` is the system's time, and `monotonic` an error."""
    assert abs(utc_now() - datetime.now(UTC)) < timedelta(minutes=1)
    with pytest.raises(RuntimeError, match="no running event loop"):
        monotonic()
