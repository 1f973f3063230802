"""Laws of the fields of a schema and of its budgets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.workload.schema_fields import SchemaBudget, SchemaField, cut_schema
from tests.verification.structural_schemas import specs


def test_each_schema_is_a_field() -> None:
    """Properties, elements of lists and entries of maps have paths."""
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {"tags": {"type": "array", "items": text}, "labels": {"additionalProperties": text}},
    }
    fields = list(SchemaField((), SchemaNode(schema)).walk())
    assert [str(field) for field in fields] == ["tags", "labels", "tags[0]", "labels.example"]
    assert [field.name for field in fields] == ["tags", "labels", "tags", "example"]


@pytest.mark.slow
@given(specs)
def test_schema_within_the_budget_is_equal(spec: JsonObject) -> None:
    """Nothing is cut off a schema within its budget, and the original is left as it is."""
    assert cut_schema(spec, SchemaBudget()) == (spec, [])


@pytest.mark.slow
@given(specs)
def test_cut_schema_is_within_the_budget(spec: JsonObject) -> None:
    """A schema beyond its budget of fields keeps as many as allowed, and the other paths are named."""
    cut, paths = cut_schema(spec, SchemaBudget(fields=3))
    full = len(list(SchemaField((), SchemaNode(spec)).walk()))
    assert len(list(SchemaField((), SchemaNode(cut)).walk())) - len(paths) <= 2
    assert bool(paths) == (full > 2) or "oneOf" in spec or "anyOf" in spec


def test_schema_that_contains_itself_is_cut() -> None:
    """A recursive schema ends at the budget of depth."""
    schema: JsonObject = {"type": "object", "properties": {}}
    schema["properties"] = {"left": schema, "right": schema}
    _, paths = cut_schema(schema, SchemaBudget(depth=4))
    assert len(paths) == 16
    assert paths[0] == "left.left.left.left"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": [1]},
        {"properties": {"a": 1}},
        {"type": 5},
        {"required": "a"},
        {"required": [1]},
        {"minimum": "low"},
        {"enum": 3},
        {"x-kubernetes-validations": ["self"]},
        {"oneOf": [5]},
    ],
)
def test_wrong_keywords_are_named(schema: Any) -> None:
    """A schema that no server serves is refused with the path of the keyword."""
    with pytest.raises(UsageError, match=r"schema of spec.*: pass a definition that a server accepted"):
        cut_schema({"type": "object", "properties": {"spec": schema}}, SchemaBudget())
