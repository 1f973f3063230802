"""Printer columns of custom resources.

Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from envtest.data.columns import AGE, NAME
from envtest.extensions.jsonpath import find, valid
from envtest.groups.common.printing import seconds_of, since
from opsdk.aio.large_work import check_time, is_spent
from opsdk.apiserver.resources import Printer, TableColumn
from opsdk.structured_merge.go_format import go_json
from opsdk.structured_merge.value import JsonObject, JsonValue

_AGE: JsonObject = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": AGE.description,
}


SCALE: tuple[JsonObject, ...] = (
    {
        "name": "Desired",
        "type": "integer",
        "jsonPath": ".spec.replicas",
        "description": "Number of desired replicas",
    },
    {
        "name": "Available",
        "type": "integer",
        "jsonPath": ".status.replicas",
        "description": "Number of actual replicas",
    },
    _AGE,
)
"""The columns of the scale subresource."""


_COLUMNS_AT_ONCE: Final = 8
"""Columns between two checks of the time. A path that visits many values checks it too."""
_ROW_CHARACTERS: Final = 4 * 1024 * 1024
"""Characters of a row, more than an object has: each column may print the whole object."""


class ColumnPrinter(Printer):
    """Prints the name and the CRD's columns; without columns, the name and the age."""

    columns: Sequence[TableColumn] = (NAME,)
    evaluates_paths = True

    def __init__(self, columns: Sequence[JsonObject]) -> None:
        # As upstream, an invalid path hides its column and all columns after it.
        self._definitions = list(takewhile(lambda column: valid(column["jsonPath"]), columns or [_AGE]))
        self.columns = [
            NAME,
            *(
                TableColumn(
                    name=c["name"],
                    type=c.get("type", "string"),
                    format=c.get("format", ""),
                    description=c.get("description")
                    or f"Custom resource definition column (in JSONPath format): {c['jsonPath']}",
                    priority=c.get("priority", 0),
                )
                for c in self._definitions
            ),
        ]

    def cells(self, obj: JsonObject, now: float) -> list[JsonValue]:
        """See `Printer`. Cells after the budget of time, or after `_ROW_CHARACTERS`, are empty."""
        cells: list[JsonValue] = [obj["metadata"].get("name", "")]
        characters = 0
        for start in range(0, len(self._definitions), _COLUMNS_AT_ONCE):
            if start:
                check_time()
                characters += sum(len(cell) for cell in cells[-_COLUMNS_AT_ONCE:] if isinstance(cell, str))
                if is_spent() or characters > _ROW_CHARACTERS:
                    return cells + [None] * (len(self.columns) - len(cells))
            cells += [self._cell(c, obj, now) for c in self._definitions[start : start + _COLUMNS_AT_ONCE]]
        return cells

    @staticmethod
    def _cell(column: JsonObject, obj: JsonObject, now: float) -> JsonValue:
        values = find(obj, column["jsonPath"])
        return cell(column.get("type", "string"), values[0], now) if values else None


def cell(kind: str, value: JsonValue, now: float) -> JsonValue:
    """Return a value as a cell of the column's type; None if the type does not match."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match kind:
        case "integer":
            return int(value) if number else None
        case "number":
            return value if number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            if value is None:
                return None
            if not isinstance(value, str) or seconds_of(value) is None:
                return "<invalid>"
            return since(value, now)
        case _:
            return text(value)


def text(value: JsonValue) -> str:
    """Return a value as text: strings as they are, other values as JSON, a null as ``<no value>``."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    return go_json(value)
