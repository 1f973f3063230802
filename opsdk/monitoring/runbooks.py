"""A runbook for each alert, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opsdk.monitoring.alert import Alert, Feature
from opsdk.monitoring.declaration import MonitoredOperator
from opsdk.monitoring.rules import alerts_of

# More controllers than these are counted, not spans.
_MAX_NAMED = 20


def runbooks(operator: MonitoredOperator) -> Mapping[str, str]:
    """Return the text of each page by its file name."""
    return {f"{alert.name}.md": "\n".join([*_page(operator, alert), ""]) for alert in alerts_of(operator)}


def _page(operator: MonitoredOperator, alert: Alert) -> Iterator[str]:
    yield from (f"# {alert.name}", "", f"{alert.summary} Severity: {alert.severity.value}.", "")
    yield from ("## Meaning", "", alert.meaning, "")
    if alert.feature is Feature.CONTROLLERS:
        yield from (_controllers(operator.controllers), "")
    hold = (
        f"The alert fires when this has a value for {alert.hold} seconds:"
        if alert.hold
        else "The alert fires when this has a value:"
    )
    yield from (hold, "", "```promql", operator.query(alert.query), "```", "")
    yield from _list("See more", alert.look)
    yield ""
    yield from _list("Usual causes", alert.causes)
    yield ""
    yield from _list("What to do", alert.actions)


def _list(title: str, items: Sequence[str]) -> Iterator[str]:
    yield from (f"## {title}", "")
    yield from (f"- {item}" for item in items)


def _controllers(controllers: Mapping[str, str]) -> str:
    """Name the controllers, in code spans that no name can end."""
    spans = [_span(f"{name} ({kind})" if kind else name) for name, kind in sorted(controllers.items())]
    more = f" and {len(spans) - _MAX_NAMED} more" if len(spans) > _MAX_NAMED else ""
    return f"The controllers of this operator: {', '.join(spans[:_MAX_NAMED])}{more}."


def _span(text: str) -> str:
    line = "".join(c if c.isprintable() and c != "`" else " " for c in text).strip()
    return f"`{line or ' '}`"
