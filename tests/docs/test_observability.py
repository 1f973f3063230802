"""What docs/observability.md shows is what runs."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from opsdk.structured_merge.value import JsonObject

PAGE = (Path(__file__).resolve().parents[2] / "docs/observability.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
async def test_the_examples_pass_as_they_stand(number: int) -> None:
    """Each block is a program of its own."""
    if "opentelemetry" in BLOCKS[number]:
        pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: pip install opsdk[dev]")
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    scope: JsonObject = {}
    try:
        exec(BLOCKS[number], scope)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.getLogger("opsdk.requests").setLevel(logging.NOTSET)
        logging.setLogRecordFactory(factory)
