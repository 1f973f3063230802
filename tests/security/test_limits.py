"""The page on security names every limit, and its default."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import asdict

from opsdk.base.limits import KIB, LIMITS, MIB

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
_UNITS = {"": 1, "s": 1, "KiB": KIB, "MiB": MIB}


def _number(text: str) -> float:
    """Return the number of a cell such as ``1 MiB + 4 KiB``."""
    terms = re.findall(r"([\d,]+) ?(KiB|MiB|s)?", text)
    return sum(float(number.replace(",", "")) * _UNITS[unit] for number, unit in terms)


def test_the_page_has_every_limit_with_its_default() -> None:
    """In the order of the class."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)

    assert [(name, _number(cell)) for name, cell in rows] == list(asdict(LIMITS).items())
