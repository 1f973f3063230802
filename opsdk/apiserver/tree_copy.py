"""Copies of JSON trees: stored objects are never changed, so whoever changes one takes a copy first."""

from __future__ import annotations

from typing import Any


def copy_tree(value: Any) -> Any:
    """A deep copy of dicts and lists; several times faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {k: copy_tree(v) for k, v in value.items()}
    if isinstance(value, list):
        return [copy_tree(v) for v in value]
    return value
