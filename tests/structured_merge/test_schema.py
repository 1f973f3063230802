"""Shapes of built-in kinds and of custom resources."""

from __future__ import annotations

import pytest

from opsdk.structured_merge.schema import UNKNOWN, Schema, Topology, structural_schema
from tests.structured_merge.schemas import SHAPES, WIDGET_SCHEMA, WORK

SPEC = WORK.field("spec")
WIDGET = structural_schema(WIDGET_SCHEMA)


@pytest.mark.parametrize(
    ("shape", "topology"),
    [
        (WORK, Topology.STRUCT),
        (WORK.field("data"), Topology.MAP),
        (SPEC.field("replicas"), Topology.SCALAR),
        (SPEC.field("selector"), Topology.MAP_ATOMIC),
        (SPEC.field("nodeSelector"), Topology.MAP_ATOMIC),
        (SPEC.field("raw"), Topology.MAP_ATOMIC),
        (SPEC.field("containers"), Topology.LIST_MAP),
        (SPEC.field("containers").item().field("args"), Topology.LIST_ATOMIC),
        (SPEC.field("anything"), Topology.UNKNOWN),
        (WORK.field("metadata").field("finalizers"), Topology.LIST_SET),
        (WORK.field("metadata").field("ownerReferences"), Topology.LIST_MAP),
        (WORK.field("metadata").field("ownerReferences").item(), Topology.MAP_ATOMIC),
        (WORK.field("metadata").field("managedFields"), Topology.LIST_ATOMIC),
        (WIDGET.field("spec").field("plain"), Topology.LIST_ATOMIC),
        (WIDGET.field("spec").field("tags"), Topology.LIST_SET),
        (WIDGET.field("spec").field("solid"), Topology.MAP_ATOMIC),
        (WIDGET.field("metadata").field("finalizers"), Topology.LIST_SET),
    ],
)
def test_the_schema_decides_the_topology(shape: Schema, topology: Topology) -> None:
    """Types and extensions say how parts belong together; lists are atomic unless said otherwise."""
    assert shape.topology is topology


def test_recursive_types_are_resolved_on_demand() -> None:
    """A type that contains itself has one shape."""
    spec = SHAPES.of("WorkSpec")
    assert spec.field("nested").field("nested") is spec


def test_extensions_at_a_reference_belong_to_the_use() -> None:
    """The patch strategy of a field says nothing about other fields of its type."""
    assert SPEC.field("strategy").patch_strategies == {"retainKeys"}
    assert SHAPES.of("Strategy").patch_strategies == frozenset()
    assert SPEC.field("volumes").patch_strategies == {"merge", "retainKeys"}


def test_keys_have_their_defaults() -> None:
    """The key of an element without it is the default in the schema."""
    ports = SPEC.field("containers").item().field("ports")
    assert ports.list_keys == ("containerPort", "protocol")
    assert ports.key_defaults == {"containerPort": 0, "protocol": "TCP"}


def test_unknown_leads_to_unknown() -> None:
    """The schema of an untyped value is unknown at every depth."""
    assert UNKNOWN.field("x").item().topology is Topology.UNKNOWN
    assert SPEC.field("anything").admitted("x") is not None
    assert SPEC.admitted("x") is None


def test_the_zero_value_is_what_the_server_would_write() -> None:
    """Objects that are not pointers and required lists stand in it; custom resources have nothing."""
    assert WORK.zero() == {
        "metadata": {},
        "spec": {"containers": None, "selector": None, "strategy": {}},
        "status": {},
    }
    assert WORK.zero({"spec": {"when": None}})["spec"]["when"] is None
    assert WIDGET.zero() == {}
