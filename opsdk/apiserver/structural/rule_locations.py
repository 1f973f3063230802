"""Finds the parts of a schema that have rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opsdk.structured_merge.value import JsonValue

RULES: Final = "x-kubernetes-validations"


def has_rules(schema: Mapping[str, JsonValue]) -> bool:
    """Report whether the schema or a nested one has rules."""
    if schema.get(RULES):
        return True
    inner = [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), Mapping)]
    return any(map(has_rules, (*(schema.get("properties") or {}).values(), *inner)))
