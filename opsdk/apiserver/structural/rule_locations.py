"""Where a schema has rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

RULES: Final = "x-kubernetes-validations"


def has_rules(schema: Mapping[str, Any]) -> bool:
    """Whether there are rules here or below."""
    return bool(schema.get(RULES)) or any(map(has_rules, _children(schema)))


def _children(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from (schema.get("properties") or {}).values()
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            yield schema[keyword]
