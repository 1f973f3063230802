"""Validates lists of type ``set`` and ``map``: items are unique.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opsdk.apiserver.field_errors import FieldError, duplicate, invalid
from opsdk.apiserver.structural.node import SchemaNode
from opsdk.structured_merge.go_format import go_json
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonValue


def check_lists(value: JsonValue, node: SchemaNode | None, path: FieldPath) -> Iterator[FieldError]:
    """Yield one error for each duplicate element, at its second occurrence."""
    if node is None or not node.unique:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            field_path = path.child(name) if name in node.properties else path.key(name)
            yield from check_lists(item, node.entry(name), field_path)
    if isinstance(value, list):
        yield from _duplicates(value, node, path)
        for index, item in enumerate(value):
            yield from check_lists(item, node.items, path.index(index))


def _duplicates(items: list[JsonValue], node: SchemaNode, path: FieldPath) -> Iterator[FieldError]:
    """Yield the items of a set, or of a list of type map, that occur before."""
    if node.list_type not in ("set", "map"):
        return
    counts: dict[str, int] = {}
    for index, item in enumerate(items):
        if node.list_type == "map" and not isinstance(item, dict | None):
            yield invalid(path.index(index), item, "must be an object for an array of list-type map")
            return
        identity = item
        if node.list_type == "map":
            identity = {key: item[key] for key in node.list_keys if item and key in item}
        text = go_json(identity)
        counts[text] = counts.get(text, 0) + 1
        if counts[text] == 2:
            yield duplicate(path.index(index), identity)


def element_key(item: Mapping[str, JsonValue], keys: Sequence[str]) -> str:
    """Return the key values of a map list's element."""
    return go_json([item.get(key) for key in keys])
