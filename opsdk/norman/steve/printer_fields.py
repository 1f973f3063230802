"""``metadata.fields`` and ``metadata.state`` of an object. Pure.

Upstream: github.com/rancher/steve/pkg/resources/common/formatter.go; github.com/rancher/wrangler/pkg/summary
Deviates: fields hold the values of the columns, not the strings that ``kubectl get`` prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from opsdk.norman.collections.field_path import FieldPath
from opsdk.norman.mappers.state import summary_of
from opsdk.norman.steve.built_in_columns import CellOf, cell_function
from opsdk.norman.steve.cluster_schemas import SteveColumn, SteveSchema
from opsdk.recipes.summaries import Summary, SummaryState
from opsdk.structured_merge.value import JsonObject, JsonValue

STATE: FieldPath = ("metadata", "state", "simple")
"""A field of queries only: ``error``, ``in-progress``, or nothing for an object at rest. Counts have its values.

Upstream: github.com/rancher/steve/pkg/resources/counts/counts.go (simpleState)
"""

RESERVED = ("id", "type", "links", "actions")
"""Fields of the API. An object's own field with such a name gets the prefix ``_``."""

VIRTUAL = ("state", "fields", "relationships")
"""Fields of the metadata that only the API shows."""

_STATES = {
    SummaryState.CURRENT: "active",
    SummaryState.IN_PROGRESS: "in-progress",
    SummaryState.FAILED: "error",
    SummaryState.TERMINATING: "removing",
}

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]]+)
    | \[(?P<index>\d+)\]
    | \[['"](?P<quoted>[^'"]+)['"]\]
    | \[\?\(\s*@\.(?P<key>[A-Za-z0-9_]+)\s*==\s*['"](?P<value>[^'"]*)['"]\s*\)\]""",
    re.VERBOSE,
)


def value_at(tree: JsonObject, json_path: str) -> JsonValue:
    """Return the value of a column, or None.

    Fields, indices and filters of lists by one string are followed; another path has no value.

    >>> tree = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    >>> value_at(tree, '.status.conditions[?(@.type=="Ready")].status')
    'True'
    """
    value: JsonValue = tree
    position = 0
    while position < len(json_path):
        match = _STEP.match(json_path, position)
        if match is None:
            return None
        value = _step(value, match)
        position = match.end()
    return value


def _step(value: JsonValue, match: re.Match[str]) -> JsonValue:
    name = match["name"] or match["quoted"]
    if name is not None:
        return value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, list):
        return None
    if match["index"] is not None:
        return next(iter(value[int(match["index"]) :]), None)
    return next((item for item in value if isinstance(item, dict) and item.get(match["key"]) == match["value"]), None)


def decorator(schema: SteveSchema) -> Callable[[JsonObject], JsonObject]:
    """Return the function that adds the virtual fields to objects of a type. It does not change its argument."""
    cells = [_cell_of(schema, column) for column in schema.columns]
    kind = {"apiVersion": schema.gvk.api_version, "kind": schema.kind}

    def decorate(tree: JsonObject) -> JsonObject:
        tree = {**kind, **tree}  # the items of a list may lack both
        state = summary_of(tree, schema.gvk)
        state_fields = {
            "name": _state_name(tree, state),
            "error": state.error,
            "transitioning": state.transitioning,
            "message": state.message,
        }
        fields = [cell(tree) for cell in cells]
        return {**tree, "metadata": {**tree["metadata"], "state": state_fields, "fields": fields}}

    return decorate


def _cell_of(schema: SteveSchema, column: SteveColumn) -> CellOf:
    computed = None if schema.crd else cell_function(schema.group, schema.kind, column.name)
    return computed or partial(value_at, json_path=column.json_path)


def _state_name(tree: JsonObject, summary: Summary) -> str:
    """Return the state as Rancher's UI names it: the phase of an object at rest, else why it is not at rest."""
    status = tree.get("status")
    phase = status.get("phase") if isinstance(status, dict) else None
    if isinstance(phase, str) and phase and summary.state in (SummaryState.CURRENT, SummaryState.IN_PROGRESS):
        return phase.lower()
    return _STATES[summary.state]


def undecorate(tree: JsonObject) -> JsonObject:
    """Remove what `decorate` added, before an object goes to the cluster.

    >>> undecorate({"metadata": {"name": "a", "state": {}, "fields": []}})
    {'metadata': {'name': 'a'}}
    """
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict):
        return tree
    return {**tree, "metadata": {name: value for name, value in metadata.items() if name not in VIRTUAL}}
