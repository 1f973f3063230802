"""Helpers of the defaulting functions of all groups."""

from __future__ import annotations

from collections.abc import Callable

from opsdk.structured_merge.value import JsonObject, JsonValue


def put(tree: JsonObject, **values: JsonValue) -> None:
    """Set the fields that are missing."""
    for key, value in values.items():
        if tree.get(key) is None:
            tree[key] = value


Defaults = Callable[[JsonObject], None]
"""Sets the defaults of a kind."""
