"""Applies the defaults of a schema.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go (v1.36).
"""

from __future__ import annotations

import copy

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.structured_merge.value import JsonObject, JsonValue


def apply_defaults(value: JsonValue, node: SchemaNode | None) -> JsonValue:
    """Return `value` with defaults for absent fields and for non-nullable nulls; unchanged parts are shared."""
    if node is None or not node.fills:
        return value
    if isinstance(value, dict):
        return _complete_object(value, node)
    if not isinstance(value, list) or node.items is None or not node.items.fills:
        return value
    items = value
    for index, item in enumerate(value):
        completed = _entry(item, node.items)
        if completed is not item:
            items = list(value) if items is value else items
            items[index] = completed
    return items


def _complete_object(value: JsonObject, node: SchemaNode) -> JsonObject:
    completed = value
    for name, below in node.defaulted:
        if name not in value or (value[name] is None and not below.nullable):
            completed = dict(value) if completed is value else completed
            completed[name] = apply_defaults(copy.deepcopy(below.default), below)
    for name, item in value.items():
        entry = node.entry(name)
        if entry is None or not entry.fills or completed[name] is not item:
            continue
        filled = _entry(item, entry)
        if filled is not item:
            completed = dict(value) if completed is value else completed
            completed[name] = filled
    return completed


def _entry(item: JsonValue, node: SchemaNode) -> JsonValue:
    if item is None:
        return apply_defaults(copy.deepcopy(node.default), node) if node.has_default and not node.nullable else item
    return apply_defaults(item, node) if isinstance(item, dict | list) else item


def drop_nulls(value: JsonValue, node: SchemaNode | None) -> JsonValue:
    """Return `value` without nulls of fields that are not nullable.

    Unchanged parts are shared, so the result is usually `value` itself.
    """
    if node is None:
        return value
    remaining = value
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, dict | list):
                changed = drop_nulls(item, node.entry(name))
                if changed is not item:
                    remaining = dict(value) if remaining is value else remaining
                    remaining[name] = changed
            elif item is None and (below := node.entry(name)) is not None and not below.nullable:
                remaining = dict(value) if remaining is value else remaining
                del remaining[name]
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list) and (changed := drop_nulls(item, node.items)) is not item:
                remaining = list(value) if remaining is value else remaining
                remaining[index] = changed
    return remaining
