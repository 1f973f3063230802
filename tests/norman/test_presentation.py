"""The presentation of stored objects of any content."""

from __future__ import annotations

from typing import Any

import pytest
from normankit import V3

from opsdk.norman.model import Schema
from opsdk.norman.presentation import Presenter
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Field


def presented(data: dict[str, Any], **fields: str) -> dict[str, Any]:
    """Return the values of an object with fields of these types."""
    schemas = SchemaRegistry()
    schema = schemas.add(
        Schema(
            id="node",
            version=V3,
            resource_fields={name: Field(type=kind) for name, kind in fields.items()} | {"child": Field(type="node")},
        )
    )
    return Presenter(schemas, V3).values(schema, data)


@pytest.mark.parametrize(
    ("kind", "stored", "shown"),
    [
        ("int", "abc", "abc"),
        ("int", "12", 12),
        ("float", {"a": 1}, {"a": 1}),
        ("string", 3, "3"),
        ("string", " a ", " a "),
        ("dnsLabel", " a ", "a"),
        ("json", {"a": [1]}, {"a": [1]}),
        ("map[int]", {"a": "1"}, {"a": 1}),
        ("intOrString", "50%", "50%"),
    ],
)
def test_a_value_that_does_not_fit_its_type_takes_no_list_down(kind: str, stored: Any, shown: Any) -> None:
    """A value that does not fit its type is shown unchanged, and breaks no list."""
    assert presented({"value": stored}, value=kind)["value"] == shown


def test_an_object_of_any_depth_is_shown() -> None:
    """Objects are shown up to a hundred levels."""
    deep: dict[str, Any] = {"name": "leaf"}
    for _ in range(300):
        deep = {"child": deep}
    external, levels = presented(deep, name="string"), 0
    while "child" in external:
        external, levels = external["child"], levels + 1
    assert levels == 100
