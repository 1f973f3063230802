"""Applies the defaults of a schema.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go (v1.36).
"""

from __future__ import annotations

import copy
from operator import is_

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.structured_merge.value import JsonValue


def apply_defaults(value: JsonValue, node: SchemaNode | None) -> JsonValue:
    """Return `value` with defaults for absent fields and for non-nullable nulls; unchanged parts are shared."""
    if node is None or not node.fills:
        return value
    if isinstance(value, dict):
        missing = {
            name: copy.deepcopy(below.default)
            for name, below in node.properties.items()
            if below.has_default and (name not in value or (value[name] is None and not below.nullable))
        }
        filled = {**value, **missing} if missing else value
        entries = {name: _entry(item, node.entry(name)) for name, item in filled.items()}
        return filled if all(map(is_, entries.values(), filled.values())) else entries
    if isinstance(value, list) and node.items is not None:
        items = [_entry(item, node.items) for item in value]
        return value if all(map(is_, items, value)) else items
    return value


def _entry(item: JsonValue, node: SchemaNode | None) -> JsonValue:
    if node is not None and node.has_default and item is None and not node.nullable:
        item = copy.deepcopy(node.default)
    return apply_defaults(item, node)


def drop_nulls(value: JsonValue, node: SchemaNode | None) -> JsonValue:
    """Return `value` without nulls of fields that are not nullable.

    Unchanged parts are shared, so the result is usually `value` itself.
    """
    if node is None:
        return value
    if isinstance(value, dict):
        entries = {}
        for name, item in value.items():
            if isinstance(item, dict | list):
                entries[name] = drop_nulls(item, node.entry(name))
            elif item is not None or (below := node.entry(name)) is None or below.nullable:
                entries[name] = item
        return value if len(entries) == len(value) and all(map(is_, entries.values(), value.values())) else entries
    if isinstance(value, list):
        items = [drop_nulls(item, node.items) for item in value]
        return value if all(map(is_, items, value)) else items
    return value
