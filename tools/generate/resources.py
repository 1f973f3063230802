"""``resources.txt``: the served resources and subresources, from the aggregated discovery documents. Pure.

A JSON object for each, in the order of the documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from opsdk.structured_merge.value import JsonObject

_OTHERWISE = ("subresources", "responseKind", "scope")
"""Keys of a resource that its row has in another form."""

Row = JsonObject


def render_resources(discovery: Mapping[str, Any]) -> str:
    """A line for each resource and subresource."""
    return "".join(f"{json.dumps(row)}\n" for row in resource_rows(discovery))


def resource_rows(discovery: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of both documents: ``api`` is the core group, ``apis`` are the named groups."""
    for part in ("api", "apis"):
        for group in discovery[part]["items"]:
            for version in group["versions"]:
                home = {"group": group["metadata"].get("name", ""), "version": version["version"]}
                for resource in version["resources"]:
                    yield from ({**home, **row} for row in _rows_of(resource))


def _rows_of(resource: Mapping[str, Any]) -> Iterator[Row]:
    namespaced = resource["scope"] == "Namespaced"
    row = {key: value for key, value in resource.items() if key not in _OTHERWISE}
    yield {**row, "kind": resource["responseKind"]["kind"], "namespaced": namespaced}
    for subresource in resource.get("subresources", ()):
        yield {**_subresource_row(resource, subresource), "namespaced": namespaced}


def _subresource_row(resource: Mapping[str, Any], subresource: Mapping[str, Any]) -> Row:
    """A subresource; its kind can be of another group, as Scale is."""
    kind = subresource["responseKind"]
    row = {
        "resource": resource["resource"],
        "subresource": subresource["subresource"],
        "kind": kind["kind"],
        "verbs": subresource["verbs"],
    }
    if kind["version"]:
        row |= {"kindGroup": kind["group"], "kindVersion": kind["version"]}
    return row
