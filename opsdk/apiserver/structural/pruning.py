"""Dropping what the schema does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opsdk.apiserver.structural.node import META_FIELDS, Node
from opsdk.tree.paths import FieldPath
from opsdk.tree.shape import OBJECT_META_SCHEMA

_METADATA: Final = Node(
    {
        **OBJECT_META_SCHEMA,
        "properties": {
            **OBJECT_META_SCHEMA["properties"],
            "managedFields": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        },
    }
)


class Pruner:
    """One run over one tree; `unknown` collects the paths of what was dropped."""

    def __init__(self) -> None:
        """Nothing dropped yet."""
        self.unknown: list[str] = []

    def prune(self, value: Any, node: Node | None, path: FieldPath, *, resource: bool) -> Any:
        """`value` without unknown fields; `resource` says that it is an object with metadata."""
        if isinstance(value, dict):
            return self._object(value, node, path, resource=resource or (node is not None and node.embedded))
        if isinstance(value, list):
            return self._list(value, node, path)
        return value

    def _list(self, value: list[Any], node: Node | None, path: FieldPath) -> list[Any]:
        items = node.items if node is not None else None
        if items is None and node is not None and node.preserve:
            return value
        return [self.prune(item, items, path.index(at), resource=False) for at, item in enumerate(value)]

    def _object(
        self, value: Mapping[str, Any], node: Node | None, path: FieldPath, *, resource: bool
    ) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, item in value.items():
            at = path.child(name)
            if resource and name in META_FIELDS:
                kept[name] = self.prune(item, _METADATA, at, resource=False) if name == "metadata" else item
            elif node is None:
                self.unknown.append(str(at))
            elif name in node.properties or node.additional is not None or node.open:
                kept[name] = self.prune(item, node.entry(name), at, resource=False)
            elif node.preserve:
                kept[name] = item
            else:
                self.unknown.append(str(at))
        return kept
