"""Prunes fields that the schema does not specify.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go (v1.36).
"""

from __future__ import annotations

from operator import is_
from typing import Final

from opsdk.apiserver.structural.node import META_FIELDS, SchemaNode
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.schema import OBJECT_META_SCHEMA
from opsdk.structured_merge.value import JsonObject, JsonValue

_METADATA: Final = SchemaNode(
    {
        **OBJECT_META_SCHEMA,
        "properties": {
            **OBJECT_META_SCHEMA["properties"],
            "managedFields": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        },
    }
)


_Place = tuple["_Place | None", str | int]
"""The path of a value as a linked list: parent, and name or index. Only paths of dropped fields are formatted."""


def _format_path(place: _Place | None) -> FieldPath:
    if place is None:
        return FieldPath()
    above, part = place
    return _format_path(above).index(part) if isinstance(part, int) else _format_path(above).child(part)


class Pruner:
    """Prunes one object; `unknown` collects the paths of dropped fields."""

    def __init__(self) -> None:
        """Create a pruner without dropped fields."""
        self.unknown: list[str] = []

    def prune(
        self,
        value: JsonValue,
        node: SchemaNode | None,
        place: _Place | None = None,
        *,
        resource: bool,
        preserve: bool = False,
    ) -> JsonValue:
        """Return `value` without unknown fields.

        Unchanged parts are shared, so the result is usually `value` itself.

        Args:
            value: any JSON value.
            node: its schema, or None.
            place: its path.
            resource: it is an object with metadata.
            preserve: it is an element of a list that keeps unknown fields. Fields that it declares do not.
        """
        preserve = preserve or (node is not None and node.preserve)
        if isinstance(value, dict):
            resource = resource or (node is not None and node.embedded)
            fields: JsonObject = {}
            for name, item in value.items():
                below = (place, name)
                if resource and name in META_FIELDS:
                    fields[name] = self.prune(item, _METADATA, below, resource=False) if name == "metadata" else item
                elif node is not None and (name in node.properties or node.additional is not None or node.open):
                    deep = isinstance(item, dict | list)
                    fields[name] = self.prune(item, node.entry(name), below, resource=False) if deep else item
                elif preserve:
                    fields[name] = item
                else:
                    self.unknown.append(str(_format_path(below)))
            return value if len(fields) == len(value) and all(map(is_, fields.values(), value.values())) else fields
        if isinstance(value, list):
            items = node.items if node is not None else None
            if items is None and preserve:
                return value
            pruned = [
                self.prune(item, items, (place, index), resource=False, preserve=preserve)
                for index, item in enumerate(value)
            ]
            return value if all(map(is_, pruned, value)) else pruned
        return value
