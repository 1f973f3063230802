"""The registry of schemas: versions, references, embeds, hooks, errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import UsageError
from opsdk.norman.model import Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion, Field

V3 = ApiVersion(group="example.com", version="v3", path="/v3")


def schema(schema_id: str, **fields: str) -> Schema:
    """Return a schema of the version v3 from the types of its fields."""
    return Schema(id=schema_id, version=V3, resource_fields={name: Field(type=kind) for name, kind in fields.items()})


def test_a_schema_is_found_by_id_plural_and_full_path() -> None:
    """The plural is guessed as norman guesses it; letter case does not matter where no schema has the exact name."""
    registry = SchemaRegistry()
    policy = registry.add(schema("networkPolicy"))
    for name in ("networkPolicy", "networkPolicies", "/v3/schemas/networkPolicy", "networkpolicies"):
        assert registry.schema(V3, name) is policy
    assert registry.schema(V3, "network") is None
    assert registry.schema(None, "networkPolicy") is None


def test_the_schemas_and_errors_of_another_registry_are_added() -> None:
    """A schema whose id is taken stays; the errors of the other registry are raised too."""
    registry, other = SchemaRegistry(), SchemaRegistry()
    own = registry.add(schema("cluster", name="string"))
    other.add(schema("cluster"))
    node = other.add(schema("node"))
    other.add(schema(""))
    registry.add_schemas(other)
    assert registry.schemas() == [own, node]
    with pytest.raises(UsageError, match="ID is not set"):
        registry.raise_errors()


def test_the_first_schema_of_an_id_stays_unless_the_add_is_forced() -> None:
    """`add` keeps the first; `force_add` replaces it if the dynamic version differs."""
    registry = SchemaRegistry()
    first = registry.add(schema("cluster", name="string"))
    assert registry.add(schema("cluster", other="string")) is first
    assert registry.force_add(schema("cluster", other="string")) is first
    newer = schema("cluster", other="string")
    newer.dynamic_schema_version = "2"
    assert registry.force_add(newer) is newer
    assert registry.schema(V3, "clusters") is newer
    assert len(registry.schemas()) == 1


def test_references_are_known_from_the_other_side() -> None:
    """A field of the type reference makes a back-reference, also inside arrays; removing the schema removes it."""
    registry = SchemaRegistry()
    cluster = registry.add(schema("cluster"))
    node = registry.add(schema("node", clusterId="reference[cluster]"))
    pool = registry.add(schema("pool", clusterIds="array[reference[/v3/schemas/cluster]]"))
    assert [(r.field_name, r.schema) for r in registry.references(cluster)] == [
        ("clusterId", node),
        ("clusterIds", pool),
    ]
    registry.remove(node)
    assert [r.schema for r in registry.references(cluster)] == [pool]


def test_an_embedded_schema_lends_its_fields() -> None:
    """Embedding works in any order; removing the embedded schema removes only its fields."""
    for order in ((0, 1), (1, 0)):
        registry = SchemaRegistry()
        target = schema("clusterSpec", name="string", engine="string")
        embedded = Schema(
            id="gkeConfig",
            version=V3,
            embed=True,
            embed_type="clusterSpec",
            resource_fields={"engine": Field(type="int"), "zone": Field(type="string")},
        )
        for index in order:
            registry.add((target, embedded)[index])
        merged = registry.schema(V3, "clusterSpec")
        assert merged is target
        assert {name: field.type for name, field in merged.resource_fields.items()} == {
            "name": "string",
            "engine": "int",
            "zone": "string",
        }
        registry.remove(embedded)
        assert {name: field.type for name, field in target.resource_fields.items()} == {
            "name": "string",
            "engine": "string",
        }


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.booleans()), max_size=12))
def test_references_follow_every_history(steps: list[tuple[str, str, bool]]) -> None:
    """After any adds and removes, the references are those of the schemas that are registered."""
    registry = SchemaRegistry()
    for number, (source, target, remove) in enumerate(steps):
        new = schema(source, link=f"reference[{target}]")
        new.dynamic_schema_version = str(number)
        if remove:
            registry.remove(new)
        else:
            registry.force_add(new)
    for target in "abcd":
        expected = [s.id for s in registry.schemas() if s.resource_fields["link"].type == f"reference[{target}]"]
        assert sorted(r.schema.id for r in registry.references(schema(target))) == sorted(expected)


def test_every_mistake_is_reported_at_once() -> None:
    """One error lists schemas without id or version, invalid types, and missing nested schemas."""
    registry = SchemaRegistry()
    registry.add(Schema(id="", version=V3))
    registry.add(Schema(id="lost", version=ApiVersion()))
    registry.add(schema("broken", ports="array[port"))
    registry.add(schema("pod", ports="array[port]"))
    with pytest.raises(UsageError) as raised:
        registry.raise_errors()
    text = str(raised.value)
    for part in ("ID is not set", "version is not set on schema: lost", "field ports", "which no schema describes"):
        assert part in text
    registry = SchemaRegistry()
    registry.add(schema("pod", ports="array[port]"))
    registry.add(schema("port", number="int"))
    registry.raise_errors()


def test_mappers_are_added_before_their_schema() -> None:
    """Adding a mapper after its schema is an error, because the fields could not change."""
    registry = SchemaRegistry()
    registry.add(schema("catalog"))
    with pytest.raises(UsageError, match="add its mappers before the import"):
        registry.add_mapper(V3, "catalog")


def test_the_hook_sees_each_schema_before_it_is_added() -> None:
    """What the hook changes is registered."""
    registry = SchemaRegistry()

    def rename(new: Schema) -> None:
        new.plural_name = f"all-{new.id}"

    registry.hook = rename
    added = registry.add(schema("cluster"))
    assert registry.schema(V3, "all-cluster") is added
