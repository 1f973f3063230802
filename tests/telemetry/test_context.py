"""What log lines are about."""

from __future__ import annotations

import asyncio
import logging

from opsdk.telemetry.context import ContextFilter, current, log_context


async def test_fields_nest_and_follow_tasks() -> None:
    """Inner fields win and are gone after the block; tasks started inside have them, those outside do not."""

    async def ask() -> dict[str, str]:
        await asyncio.sleep(1)
        return dict(current())

    outside = asyncio.create_task(ask())
    with log_context(controller="c", name="a"):
        with log_context(name="b"):
            inside = asyncio.create_task(ask())
        assert current() == {"controller": "c", "name": "a"}
    assert current() == {}
    assert await inside == {"controller": "c", "name": "b"}
    assert await outside == {}


def test_the_filter_puts_fields_on_records() -> None:
    """As a mapping for machines and as text for people; no record is dropped."""
    record = logging.LogRecord("x", logging.INFO, "f", 1, "m", (), None)
    with log_context(controller="c"):
        assert ContextFilter().filter(record)
    assert record.__dict__["opsdk"] == {"controller": "c"}
    assert record.__dict__["context"] == " controller=c"
