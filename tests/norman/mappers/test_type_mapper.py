"""The mapper of a schema: type, id and nested objects."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.norman.mappers.moves import DisplayName, Drop, Move
from opsdk.norman.mappers.type_mapper import TypeMapper
from opsdk.norman.model import Mapper, Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Scope
from opsdk.structured_merge.value import JsonValue
from tests.norman.mappers.kit import NO_SCHEMAS, inward, outward, registry, round_trip, schema


def mapped(each: Schema, schemas: SchemaRegistry, *mappers: Mapper, root: bool = False) -> TypeMapper:
    """Give a schema its mapper."""
    mapper = TypeMapper(mappers, root=root)
    mapper.modify_schema(each, schemas)
    each.mapper = mapper
    return mapper


def test_type_and_id_are_added_outward_and_removed_inward() -> None:
    """The type is the full path of the schema; the id has the namespace of a namespaced object."""
    for scope, object_id in ((Scope.NAMESPACE, "n:a"), (Scope.CLUSTER, "a")):
        mapper = mapped(schema(scope=scope, metadata="json"), NO_SCHEMAS, root=True)
        internal = {"metadata": {"name": "a", "namespace": "n"}}
        assert outward(mapper, internal) == {**internal, "type": "/v3/schemas/site", "id": object_id}
        assert round_trip(mapper, internal) == internal


def test_objects_without_a_name_have_no_id() -> None:
    """A nested object has no id."""
    assert outward(mapped(schema(a="int"), NO_SCHEMAS, root=True), {"a": 1}) == {"a": 1, "type": "/v3/schemas/site"}
    nested = mapped(schema(), NO_SCHEMAS)
    assert outward(nested, {"metadata": {"name": "a"}}) == {"metadata": {"name": "a"}, "type": "/v3/schemas/site"}


def test_an_own_id_gets_the_namespace() -> None:
    """An id that a mapper makes has the namespace in front, and loses it inward."""
    flat = Move(source="metadata/namespace", to="namespace")
    site = schema(scope=Scope.NAMESPACE, name="string", displayName="string", metadata="meta")
    mapper = mapped(site, registry(schema("meta", namespace="string")), DisplayName(), flat, root=True)
    internal = {"name": "s-1", "displayName": "Shop", "metadata": {"namespace": "n"}}
    external = outward(mapper, internal)
    assert (external["id"], external["name"], external["namespace"]) == ("n:s-1", "Shop", "n")
    assert inward(mapper, external) == internal


def test_an_own_type_keeps_its_value() -> None:
    """A field of the class that is called type is not overwritten, and not removed; a mapper may drop the added one."""
    mapper = mapped(schema(type="string"), NO_SCHEMAS, root=True)
    assert round_trip(mapper, {"type": "Opaque"}) == outward(mapper, {"type": "Opaque"}) == {"type": "Opaque"}
    assert outward(mapper, {}) == {}
    bare = mapped(schema(), NO_SCHEMAS, Drop(field="type", ignore_definition=True))
    assert outward(bare, {}) == {}


PORT = st.fixed_dictionaries({"number": st.integers()})


@given(
    single=PORT | st.none(),
    many=st.lists(PORT),
    by_name=st.dictionaries(st.text(max_size=3), PORT),
    deep=st.dictionaries(st.text(max_size=3), st.lists(PORT)),
)
def test_nested_objects_are_mapped_everywhere(
    single: JsonValue, many: JsonValue, by_name: JsonValue, deep: JsonValue
) -> None:
    """Fields, lists, maps, and lists in maps; values of other types are left alone."""
    port = schema("port", number="int")
    schemas = registry(port)
    mapped(port, schemas, Move(source="number", to="port"))
    site = schema(
        single="port", many="array[port]", by_name="map[port]", deep="map[array[port]]", other="reference[port]"
    )
    mapper = mapped(site, schemas)
    internal = {"single": single, "many": many, "by_name": by_name, "deep": deep, "other": "x"}
    external = outward(mapper, internal)
    ports = [
        *many,
        *by_name.values(),
        *(each for ports in deep.values() for each in ports),
        *([single] if single else []),
    ]
    shown_ports = [
        *external["many"],
        *external["by_name"].values(),
        *(each for ports in external["deep"].values() for each in ports),
    ]
    shown_ports += [external["single"]] if single else []
    assert shown_ports == [{"port": each["number"], "type": "/v3/schemas/port"} for each in ports]
    assert round_trip(mapper, internal) == internal
    assert outward(mapper, {"many": "text"}) == {"many": "text", "type": "/v3/schemas/site"}


def test_recursive_schemas() -> None:
    """A schema that contains itself maps every level."""
    node = schema("node", value="int", children="array[node]")
    schemas = registry(node)
    mapper = mapped(node, schemas, Move(source="value", to="number"))
    tree = {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}
    external = outward(mapper, tree)
    assert external["children"][0]["children"][0]["number"] == 3
    assert inward(mapper, external) == tree
