"""Finds the levels of a schema that have rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from opsdk.structured_merge.value import JsonValue

RULES: Final = "x-kubernetes-validations"


def has_rules(schema: Mapping[str, JsonValue]) -> bool:
    """Whether there are rules here or below."""
    return bool(schema.get(RULES)) or any(map(has_rules, _children(schema)))


def _children(schema: Mapping[str, JsonValue]) -> Iterator[Mapping[str, JsonValue]]:
    yield from (schema.get("properties") or {}).values()
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            yield schema[keyword]
