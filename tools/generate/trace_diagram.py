"""Draws spans of several operators as an SVG: one lane for each operator, and an arrow for each link.

The picture has no times and no ids, so that equal runs give equal files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import msgspec

from tools.generate.traced_operators import OPERATORS, record_spans

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

PATH = "docs/assets/trace-through-objects.svg"

_LANE, _LABEL, _COLUMN, _GAP = 104, 92, 236, 44
_BOX_HEIGHT, _TOP = 60, 22
# Lines and text without fills, in colors that are readable on a light and on a dark page.
_STYLE = (
    "text{font:13px sans-serif;fill:#607d8b}.lane{font-weight:bold}.small{font-size:11px}"
    "rect{fill:none;stroke-width:1.5}.reconcile{stroke:#3f51b5}.write{stroke:#ef6c00}"
    ".link{fill:none;stroke:#ef6c00;stroke-width:1.5;marker-end:url(#arrow)}.rule{stroke:#607d8b;stroke-width:.3}"
)


class TracedReconcile(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of one reconcile.

    Attributes:
        operator: the name of the operator.
        name: of the span.
        target: the reconciled object.
        span_ids: of the writes that carry their context, by the name of the span and of the object.
        links: the span ids of the writes that caused it.
    """

    operator: str
    name: str
    target: str
    span_ids: Mapping[int, str]
    links: Sequence[int]


def reconciles_of(spans: Sequence[ReadableSpan]) -> list[TracedReconcile]:
    """Return the reconciles of some spans with their writes, in the order of their operators."""
    writes: dict[int, dict[int, str]] = {}
    for span in spans:
        if span.parent is not None and "k8s.kind" in (span.attributes or {}):
            name = f"{span.name} {(span.attributes or {}).get('k8s.name', '')}"
            writes.setdefault(span.parent.span_id, {})[span.context.span_id] = name
    names = [make.__name__ for make in OPERATORS]
    found = [
        TracedReconcile(
            operator=str(span.resource.attributes["service.name"]),
            name=span.name,
            target=str((span.attributes or {})["name"]),
            span_ids=writes.get(span.context.span_id, {}),
            links=[link.context.span_id for link in span.links],
        )
        for span in spans
        if span.name.startswith("reconcile ")
    ]
    return sorted(found, key=lambda reconcile: (names.index(reconcile.operator), _depth(reconcile, found)))


def _depth(reconcile: TracedReconcile, all_reconciles: Sequence[TracedReconcile]) -> int:
    """Return the number of writes before a reconcile."""
    causes = [cause for cause in all_reconciles if cause.span_ids.keys() & set(reconcile.links)]
    return max((_depth(cause, all_reconciles) + 1 for cause in causes), default=0)


def render_trace(reconciles: Sequence[TracedReconcile]) -> str:
    """Return the SVG. The column of a reconcile is the number of writes before it."""
    lanes = list(dict.fromkeys(reconcile.operator for reconcile in reconciles))
    places = {
        index: (_LABEL + _depth(one, reconciles) * (_COLUMN + _GAP), _TOP + lanes.index(one.operator) * _LANE)
        for index, one in enumerate(reconciles)
    }
    width = max(x for x, _ in places.values()) + _COLUMN + 12
    height = _TOP + len(lanes) * _LANE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Reconciles of three operators, linked by their writes</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
        '<path d="M0 0 8 4 0 8z" fill="#ef6c00"/></marker></defs>',
        *_lanes(lanes, width),
    ]
    for index, one in enumerate(reconciles):
        lines += _reconcile(one, *places[index])
    lines += _links(reconciles, places)
    return "\n".join([*lines, "</svg>", ""])


def _lanes(names: Sequence[str], width: int) -> Iterator[str]:
    for number, name in enumerate(names):
        y = _TOP + number * _LANE
        yield f'<text class="lane" x="8" y="{y + _BOX_HEIGHT // 2 + 4}">{escape(name)}</text>'
        if number:
            rule = y - (_LANE - _BOX_HEIGHT) // 2
            yield f'<path class="rule" d="M0 {rule}H{width}"/>'


def _reconcile(reconcile: TracedReconcile, x: int, y: int) -> Iterator[str]:
    yield f'<rect class="reconcile" x="{x}" y="{y}" width="{_COLUMN}" height="{_BOX_HEIGHT}" rx="4"/>'
    yield f'<text x="{x + 8}" y="{y + 19}">{escape(reconcile.name)} {escape(reconcile.target)}</text>'
    if not reconcile.span_ids:
        yield f'<text class="small" x="{x + 8}" y="{y + 44}">writes nothing</text>'
    for name in reconcile.span_ids.values():
        yield f'<rect class="write" x="{x + 8}" y="{y + 29}" width="{_COLUMN - 16}" height="24" rx="3"/>'
        yield f'<text class="small" x="{x + 16}" y="{y + 45}">{escape(name)}</text>'


def _links(reconciles: Sequence[TracedReconcile], places: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    for index, one in enumerate(reconciles):
        for cause_index, cause in enumerate(reconciles):
            if cause.span_ids.keys() & set(one.links):
                (from_x, from_y), (x, y) = places[cause_index], places[index]
                begin, end = (from_x + _COLUMN - 8, from_y + 41), (x, y + _BOX_HEIGHT // 2)
                middle = end[0] - _GAP // 2
                yield (
                    f'<path class="link" d="M{begin[0]} {begin[1]}C{middle} {begin[1]} {middle} {end[1]} '
                    f'{end[0]} {end[1]}"/>'
                )


def render_trace_diagram() -> Mapping[str, str]:
    """Return the picture of a run by its path."""
    return {PATH: render_trace(reconciles_of(record_spans()))}
