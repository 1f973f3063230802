"""The dashboard of an operator, for Grafana.

Upstream: github.com/grafana/grafana/docs/sources/dashboards/build-dashboards/view-dashboard-json-model (v10)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from opsdk.monitoring.declaration import MonitoredOperator
from opsdk.monitoring.panels import ROWS, Panel, service_level_row
from opsdk.monitoring.rules import has_feature
from opsdk.structured_merge.value import JsonObject

_COLUMNS: Final = 24
_WIDTH: Final = 8
_HEIGHT: Final = 8
# Grafana's schema of dashboards, of version 10.
_SCHEMA_VERSION: Final = 39


def dashboard(operator: MonitoredOperator) -> JsonObject:
    """Return the JSON model of the dashboard. Equal operators have equal dashboards, with the same uid."""
    identity = f"{operator.name}\0{operator.selector}".encode("utf-8", "surrogatepass")
    variables = [_datasource()]
    if operator.controllers:
        variables.append(_controllers(operator))
    return {
        "uid": hashlib.sha256(identity).hexdigest()[:12],
        "title": f"{_shown(operator.name)} (opsdk)",
        "tags": ["opsdk"],
        "schemaVersion": _SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": variables},
        "panels": list(_panels(operator)),
    }


def _shown(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _datasource() -> JsonObject:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _controllers(operator: MonitoredOperator) -> JsonObject:
    return {
        "name": "controller",
        "label": "Controller",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values(controller_runtime_max_concurrent_reconciles{{{operator.selector}}}, controller)",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def panels_of(operator: MonitoredOperator) -> Sequence[tuple[str, Sequence[Panel]]]:
    """Return the rows of the dashboard, each with its panels: those of the operator's features."""
    rows = (service_level_row(operator.objective), *ROWS)
    return [(row.title, row.panels) for row in rows if has_feature(operator, row.feature)]


def _panels(operator: MonitoredOperator) -> Iterator[JsonObject]:
    number, top = 0, 0
    for title, panels in panels_of(operator):
        number += 1
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        for position, panel in enumerate(panels):
            number += 1
            line, column = divmod(position, _COLUMNS // _WIDTH)
            place = {"x": column * _WIDTH, "y": top + line * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            yield _panel(operator, number, panel, place)
        top += _HEIGHT * -(-len(panels) // (_COLUMNS // _WIDTH))


def _panel(operator: MonitoredOperator, number: int, panel: Panel, place: JsonObject) -> JsonObject:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "gridPos": place,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": operator.query(query), "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }
