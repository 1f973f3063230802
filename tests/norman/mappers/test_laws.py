"""The laws of all mappers: nothing is lost in a round trip, and the schema declares all fields."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import UsageError
from opsdk.norman.mappers.access import Access, ChangeTypeMapper, EnumMapper, ReadOnly, Required
from opsdk.norman.mappers.computed import FromCel
from opsdk.norman.mappers.conditional import ConditionMapper, ListableOnly, ScopeMapper
from opsdk.norman.mappers.embeds import Embed, SliceToMap, UnionEmbed, UnionMapping
from opsdk.norman.mappers.kubernetes import ApiGroupMapper
from opsdk.norman.mappers.moves import BatchMove, Copy, DisplayName, Move, RenameReference, UntypedMove
from opsdk.norman.mappers.pipe import Mappers
from opsdk.norman.mappers.type_mapper import TypeMapper
from opsdk.norman.mappers.values import AnnotationField, Base64, JsonEncode, LabelField, SetValue
from opsdk.norman.model import Mapper, Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Field, Scope
from opsdk.structured_merge.value import JsonObject
from tests.norman.mappers.kit import V3, assert_declared, outward, registry, round_trip

TEXTS = st.text(max_size=6)
NUMBERS = st.integers(-9, 99)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEY = "field.cattle.io/note"


def objects(
    required: Mapping[str, st.SearchStrategy] | None = None, **optional: st.SearchStrategy
) -> st.SearchStrategy:
    """Draw objects with all required fields and some optional ones."""
    return st.fixed_dictionaries(dict(required or {}), optional=optional)


def keyed_lists(key: str) -> st.SearchStrategy:
    """Draw lists of objects with different keys."""
    item = st.fixed_dictionaries({key: TEXTS}, optional={"port": NUMBERS})
    return st.lists(item, max_size=4, unique_by=lambda each: each[key])


class Case(NamedTuple):
    """A lossless mapper, the fields of its schema (and of nested ones), and its objects."""

    mapper: Callable[[], Mapper]
    objects: st.SearchStrategy
    fields: Mapping[str, str]
    nested: Mapping[str, Mapping[str, str]] = {}
    is_typed: bool = True


SPEC = {"replicas": "int", "image": "string"}
A_SPEC = objects({"image": TEXTS}, replicas=NUMBERS)
LOSSLESS = {
    "Access": Case(lambda: Access(fields={"name": "c"}), objects(name=TEXTS), {"name": "string"}),
    "AnnotationField": Case(
        lambda: AnnotationField(field="note"),
        objects(annotations=objects({"a": TEXTS}, **{KEY: TEXTS})),
        {"annotations": "map[string]", "note": "string"},
    ),
    "AnnotationField of objects": Case(
        lambda: AnnotationField(field="note", object=True, list=True),
        objects(annotations=objects(**{KEY: JSON.map(lambda value: msgspec.json.encode(value).decode()) | TEXTS})),
        {"annotations": "map[string]", "note": "json"},
    ),
    "ApiGroupMapper": Case(
        ApiGroupMapper,
        objects({"apiVersion": st.just("example.com/v3"), "kind": st.just("Site")}),
        {"apiVersion": "string", "kind": "string"},
    ),
    "Base64": Case(
        lambda: Base64(field="data.key", separator="."),
        objects(data=objects(key=TEXTS.map(lambda text: base64.b64encode(text.encode()).decode()), other=TEXTS)),
        {"data": "data"},
        {"data": {"key": "string", "other": "string"}},
    ),
    "BatchMove": Case(
        lambda: BatchMove(source=("a", "b"), to="spec"),
        objects(a=JSON, b=JSON, spec=A_SPEC),
        {"a": "json", "b": "json", "spec": "spec"},
        {"spec": SPEC},
    ),
    "ChangeTypeMapper": Case(lambda: ChangeTypeMapper(field="a", type="json"), objects(a=JSON), {"a": "string"}),
    "ConditionMapper": Case(
        lambda: ConditionMapper(field="kind", value="x", mapper=Move(source="a", to="b")),
        objects(kind=st.sampled_from("xy"), a=NUMBERS),
        {"kind": "string", "a": "int"},
    ),
    "Copy": Case(lambda: Copy(source="a", to="b"), objects(a=JSON), {"a": "json"}),
    "DisplayName": Case(
        DisplayName, objects(name=TEXTS, displayName=TEXTS), {"name": "string", "displayName": "string"}
    ),
    "Embed": Case(
        lambda: Embed(field="spec"),
        objects(name=TEXTS, spec=A_SPEC),
        {"name": "string", "spec": "spec"},
        {"spec": SPEC},
    ),
    "Embed of the same name": Case(
        lambda: Embed(field="spec"),
        objects(spec=objects({"spec": TEXTS})),
        {"spec": "spec"},
        {"spec": {"spec": "string"}},
    ),
    "EnumMapper": Case(lambda: EnumMapper(field="a", options=("x",)), objects(a=TEXTS), {"a": "string"}),
    "FromCel": Case(
        lambda: FromCel(field="size", expression="a > 5 ? 'large' : 'small'"),
        objects(a=NUMBERS | st.none()),
        {"a": "int"},
    ),
    "JsonEncode": Case(
        lambda: JsonEncode(field="a"),
        objects(a=JSON.map(lambda value: msgspec.json.encode(value).decode()) | TEXTS),
        {"a": "string"},
    ),
    "LabelField": Case(
        lambda: LabelField(field="note"),
        objects(labels=objects({"a": TEXTS}, **{KEY: TEXTS})),
        {"labels": "map[string]", "note": "string"},
    ),
    "Move": Case(lambda: Move(source="a", to="b"), objects(a=JSON, c=JSON), {"a": "json", "c": "json"}),
    "Move outward": Case(
        lambda: Move(source="spec/image", to="image"),
        objects(spec=objects({"replicas": NUMBERS}, image=TEXTS)),
        {"spec": "spec"},
        {"spec": SPEC},
    ),
    "Move inward": Case(
        lambda: Move(source="a", to="spec/a"),
        objects(a=JSON, spec=A_SPEC),
        {"a": "json", "spec": "spec"},
        {"spec": SPEC},
    ),
    "ReadOnly": Case(lambda: ReadOnly(field="*"), objects(a=JSON), {"a": "json"}),
    "RenameReference": Case(
        RenameReference,
        objects(nodeName=TEXTS, userNames=st.lists(TEXTS), hostName=TEXTS),
        {"nodeName": "reference[node]", "userNames": "array[reference[user]]", "hostName": "string"},
    ),
    "Required": Case(lambda: Required(fields=("a",)), objects(a=JSON), {"a": "json"}),
    "ListableOnly": Case(lambda: ListableOnly(mapper=Move(source="a", to="b")), objects(a=JSON), {"a": "json"}),
    "ScopeMapper": Case(
        lambda: ScopeMapper(if_scope=Scope.CLUSTER, mappers=[Move(source="a", to="b")]), objects(a=JSON), {"a": "json"}
    ),
    "SetValue of a constant": Case(
        lambda: SetValue(field="state", value="active"), objects(a=JSON), {"a": "json", "state": "string"}
    ),
    "SetValue of a condition": Case(
        lambda: SetValue(field="a", value="on", if_eq="yes"), objects(a=st.sampled_from(["yes", "no"])), {"a": "string"}
    ),
    "SliceToMap": Case(
        lambda: SliceToMap(field="ports", key="name"),
        objects(ports=keyed_lists("name")),
        {"ports": "array[port]"},
        {"port": {"name": "string", "port": "int"}},
    ),
    "UnionEmbed": Case(
        lambda: UnionEmbed(
            fields=[
                UnionMapping(field_name="s3", check_fields=("bucket",)),
                UnionMapping(field_name="nfs", check_fields=("path",)),
            ]
        ),
        st.one_of(
            objects(name=TEXTS),
            objects({"s3": objects({"bucket": TEXTS.filter(bool)}, zone=TEXTS)}, name=TEXTS),
            objects({"nfs": objects({"path": TEXTS.filter(bool)}, zone=TEXTS)}, name=TEXTS),
        ),
        {"name": "string", "s3": "s3", "nfs": "nfs"},
        {"s3": {"bucket": "string", "zone": "string"}, "nfs": {"path": "string", "zone": "string"}},
    ),
    "UntypedMove": Case(
        lambda: UntypedMove(source="a.b", to="b", separator="."),
        objects(a=objects({"c": JSON}, b=JSON)),
        {"a": "json"},
        is_typed=False,
    ),
    "a pipe": Case(
        lambda: Mappers(
            SliceToMap(field="ports", key="name"),
            Embed(field="spec"),
            Move(source="image", to="picture"),
            Copy(source="picture", to="photo"),
            FromCel(field="count", expression="size(ports)"),
            SetValue(field="state", value="active"),
        ),
        objects({"spec": A_SPEC}, ports=keyed_lists("name")),
        {"spec": "spec", "ports": "array[port]", "state": "string"},
        {"spec": SPEC, "port": {"name": "string", "port": "int"}},
    ),
}


def prepared(case: Case) -> tuple[Mapper, Schema, SchemaRegistry]:
    """Return a new mapper that knows its schema, the external schema, and the registry."""
    nested = [
        Schema(id=name, version=V3, resource_fields={each: Field(type=kind) for each, kind in fields.items()})
        for name, fields in case.nested.items()
    ]
    schemas = registry(*nested)
    fields = {name: Field(type=kind) for name, kind in case.fields.items()}
    external = Schema(id="site", version=V3, resource_fields=fields, collection_methods=("GET",))
    external.internal = Schema(id="site", version=V3, resource_fields=dict(fields))
    mapper = case.mapper()
    mapper.modify_schema(external, schemas)
    schemas.add(external)
    return mapper, external, schemas


@pytest.mark.parametrize("name", LOSSLESS)
@given(data=st.data())
def test_nothing_is_lost_and_everything_is_declared(name: str, data: st.DataObject) -> None:
    """`to_internal(from_internal(x)) == x`, and every key of `from_internal(x)` is a field of the schema."""
    case = LOSSLESS[name]
    mapper, external, schemas = prepared(case)
    internal: JsonObject = data.draw(case.objects)
    before = copy.deepcopy(internal)
    external_form = outward(mapper, internal)
    assert internal == before
    if case.is_typed:
        assert_declared(external_form, external, schemas)
    assert round_trip(mapper, internal) == internal


TOP = ("a", "b", "c")
STEPS = st.one_of(
    st.builds(lambda source, to: Move(source=source, to=to), st.sampled_from(TOP), st.sampled_from("defg")),
    st.builds(lambda source, to: Copy(source=source, to=to), st.sampled_from("abcde"), st.sampled_from("hi")),
    st.builds(lambda to: SetValue(field=to, value=1), st.just("z")),
    st.builds(lambda source: UntypedMove(source=source, to=source.upper(), separator="."), st.sampled_from("ab")),
    st.builds(lambda field: FromCel(field=field, expression="1 + 1"), st.sampled_from("xy")),
)


@pytest.mark.slow
@given(
    steps=st.lists(STEPS, max_size=6),
    data=st.fixed_dictionaries({}, optional=dict.fromkeys(TOP, JSON.filter(lambda v: v is not None))),
)
def test_pipes_of_lossless_mappers_are_lossless(steps: list[Mapper], data: JsonObject) -> None:
    """A composed pipe either refuses the schema, or loses nothing."""
    external = Schema(id="site", version=V3, resource_fields={name: Field(type="json") for name in (*TOP, "z")})
    mapper = TypeMapper([Mappers(*steps)], root=False)
    try:
        mapper.modify_schema(external, registry())
    except UsageError:
        return
    assert round_trip(mapper, data) == data
