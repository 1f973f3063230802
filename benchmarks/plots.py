"""Bar charts as SVG, without a library: one group of bars for each variant, one bar for each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

COLOURS = {
    "opsdk": "#3f51b5",
    "kubernetes_asyncio": "#ef6c00",
    "lightkube": "#00897b",
    "kopf": "#c2185b",
    "kr8s": "#7cb342",
    "kubesdk": "#8d6e63",
    "aiohttp": "#546e7a",
}
_BAR, _GAP, _LEFT, _WIDTH, _RIGHT = 16, 14, 250, 380, 80
_TEXT = "#607d8b"
"""Readable on light and dark pages."""


def bar_chart(title: str, groups: Mapping[str, Sequence[tuple[str, float]]], *, digits: int = 2) -> str:
    """Return an SVG with horizontal bars.

    Args:
        title: the metric with its unit.
        groups: client and figure by the name of the group.
        digits: digits after the point of the labels.

    >>> chart = bar_chart("ms", {"1 worker": [("opsdk", 1.5), ("kopf", 3.0)]})
    >>> chart.count("<rect"), "1.50" in chart
    (2, True)
    """
    largest = max((figure for bars in groups.values() for _, figure in bars), default=0.0) or 1.0
    lines, y = [_label(10, 20, title, weight="bold")], 36
    for name, bars in groups.items():
        lines.append(_label(10, y + 12, name))
        for client, figure in bars:
            width = max(1.0, _WIDTH * max(0.0, figure) / largest)
            colour = COLOURS.get(client, "#9e9e9e")
            lines.append(_label(_LEFT - 8, y + 12, client, anchor="end"))
            lines.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>')
            lines.append(_label(_LEFT + width + 6, y + 12, f"{figure:,.{digits}f}"))
            y += _BAR
        y += _GAP
    size = f'width="{_LEFT + _WIDTH + _RIGHT}" height="{y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    return "\n".join([head, *lines, "</svg>", ""])


def _label(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    style = f'font-size="12" text-anchor="{anchor}" font-weight="{weight}" fill="{_TEXT}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
