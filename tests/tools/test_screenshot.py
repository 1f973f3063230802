"""The image of ``opsdk top`` in the documentation."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tools.screenshot.__main__ import screenshot

IMAGE = Path(__file__).resolve().parents[2] / "docs" / "images" / "top.svg"


def words(svg: str) -> list[str]:
    """The words of an image, in order."""
    return html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))).split()


@pytest.mark.realtime
async def test_the_image_shows_what_the_console_shows() -> None:
    """The image in the documentation has the words of the console today: else run ``make screenshots``."""
    assert words(IMAGE.read_text(encoding="utf-8")) == words(await screenshot())
