"""Schemas from classes."""

from __future__ import annotations

import datetime as dt
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

import opsdk.api
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Node, Secret
from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, TypedObject
from opsdk.apimachinery.quantity import IntOrString, Quantity
from opsdk.errors import UsageError
from opsdk.norman.importing.classes import ClassImporter
from opsdk.norman.importing.field_options import FieldOptions
from opsdk.norman.mappers.moves import Drop, Move
from opsdk.norman.model import Schema
from opsdk.norman.rbac_access import RESOURCE
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion, Field, Filter, Modifier, Scope
from tests.norman.mappers.kit import V3, outward, types


class Color(Enum):
    """Texts."""

    RED = "red"
    BLUE = "blue"


class Level(Enum):
    """Numbers."""

    LOW = 1


class Opaque:
    """A class that has no schema."""


@dataclass
class Port:
    """A nested class."""

    number: int


@dataclass
class Everything:
    """A field of every type."""

    a_bool: bool
    an_int: int
    a_float: float
    a_text: str
    some_bytes: bytes
    a_date: dt.datetime
    a_day: dt.date
    a_quantity: Quantity
    int_or_string: IntOrString
    a_number: int | float
    a_decimal: Decimal
    anything: Any
    an_object: object
    a_union: str | Port
    a_color: Color
    a_level: Level
    a_literal: Literal["x", "y"]
    a_number_literal: Literal[1, 2]
    a_mixed_literal: Literal[1, "x"]
    colors: list[Color]
    color_lists: list[list[Color]]
    color_map: dict[str, Color]
    a_list: list[int]
    a_bare_list: list
    a_tuple: tuple[int, ...]
    a_pair: tuple[int, str]
    a_set: frozenset[str]
    a_sequence: Sequence[Port]
    a_map: dict[str, Port]
    a_bare_map: dict
    a_mapping: Mapping[str, list[int]]
    json_map: dict[str, Any]
    a_port: Port | None
    by_option: Annotated[Opaque, FieldOptions(type="json")]
    cluster_id: Annotated[str, FieldOptions(type="reference[cluster]")]


def importer() -> tuple[ClassImporter, SchemaRegistry]:
    """Return an importer and its registry."""
    registry = SchemaRegistry()
    return ClassImporter(registry), registry


def test_every_type_of_an_annotation() -> None:
    """Annotations become the types of norman; texts of enums and literals become options."""
    classes, _ = importer()
    schema = classes.import_class(V3, Everything)
    assert types(schema) == {
        "aBool": "boolean",
        "anInt": "int",
        "aFloat": "float",
        "aText": "string",
        "someBytes": "base64",
        "aDate": "date",
        "aDay": "date",
        "aQuantity": "string",
        "intOrString": "intOrString",
        "aNumber": "float",
        "aDecimal": "string",
        "anything": "json",
        "anObject": "json",
        "aUnion": "json",
        "aColor": "enum",
        "aLevel": "int",
        "aLiteral": "enum",
        "aNumberLiteral": "int",
        "aMixedLiteral": "json",
        "colors": "array[enum]",
        "colorLists": "array[array[string]]",
        "colorMap": "map[string]",
        "aList": "array[int]",
        "aBareList": "array[json]",
        "aTuple": "array[int]",
        "aPair": "array[json]",
        "aSet": "array[string]",
        "aSequence": "array[port]",
        "aMap": "map[port]",
        "aBareMap": "map[json]",
        "aMapping": "map[array[int]]",
        "jsonMap": "map[json]",
        "aPort": "port",
        "byOption": "json",
        "clusterId": "reference[cluster]",
    }
    assert schema.resource_fields["aColor"].options == ("red", "blue")
    assert schema.resource_fields["aLiteral"].options == ("x", "y")
    assert schema.resource_fields["colors"].options == ("red", "blue")
    assert schema.resource_fields["colorLists"].options == schema.resource_fields["colorMap"].options == ()
    assert schema.resource_fields["aPort"] == Field(type="port", nullable=True, code_name="a_port")
    assert schema.resource_fields["anInt"] == Field(type="int", required=True, code_name="an_int")


class Limited(msgspec.Struct):
    """Limits of msgspec and of our own."""

    a: Annotated[int, msgspec.Meta(gt=0, lt=10, description="A count.")]
    b: Annotated[float, msgspec.Meta(ge=0.5, le=1.5)]
    c: Annotated[str, msgspec.Meta(min_length=1, max_length=5, pattern="^[ab]+$")]
    d: Annotated[int, FieldOptions(min=1, max=5), msgspec.Meta(ge=0)] = 2
    e: Annotated[list[int], msgspec.Meta(min_length=1)] = msgspec.field(default_factory=list)
    f: bool = False


class LimitedPydantic(pydantic.BaseModel):
    """Limits of pydantic."""

    a: int = pydantic.Field(ge=1, le=5)
    b: str = pydantic.Field(min_length=2, pattern="^[xy]*$")


def test_limits_of_fields() -> None:
    """Limits of msgspec, pydantic and FieldOptions become those of the field; the outermost one wins."""
    classes, _ = importer()
    fields = classes.import_class(V3, Limited).resource_fields
    assert fields == {
        "a": Field(type="int", min=1, max=9, required=True, description="A count.", code_name="a"),
        "b": Field(type="float", min=0, max=2, required=True, code_name="b"),
        "c": Field(type="string", min_length=1, max_length=5, valid_chars="ab", required=True, code_name="c"),
        "d": Field(type="int", default=2, min=1, max=5, code_name="d"),
        "e": Field(type="array[int]", code_name="e"),
        "f": Field(type="boolean", default=False, code_name="f"),
    }
    fields = classes.import_class(V3, LimitedPydantic).resource_fields
    assert fields == {
        "a": Field(type="int", min=1, max=5, required=True, code_name="a"),
        "b": Field(type="string", min_length=2, valid_chars="xy", required=True, code_name="b"),
    }


class ClusterSpec(Model):
    """A spec."""

    size: int = 1
    node_name: Annotated[str, FieldOptions(type="reference[node]")] = ""
    ready: bool = False


class ClusterStatus(Model):
    """A status."""

    phase: str = ""


class Cluster(Object[ClusterSpec, ClusterStatus]):
    """A kind of the cluster."""

    gvk = GroupVersionKind("example.com", "v1", "Cluster")
    namespaced = False


class Job(Object[ClusterSpec, None]):
    """A kind in namespaces, without status."""

    gvk = GroupVersionKind("example.com", "v1", "Job")
    plural = "jobz"


def test_kinds_have_methods() -> None:
    """A Kubernetes kind has all methods, its scope, and attributes with kind and resource; a nested class has none."""
    classes, registry = importer()
    schema = classes.import_class(V3, Cluster)
    assert (schema.collection_methods, schema.resource_methods) == (("GET", "POST"), ("GET", "PUT", "DELETE"))
    assert (schema.scope, schema.status) == (Scope.CLUSTER, True)
    assert schema.attributes["gvk"] == Cluster.gvk
    assert schema.attributes[RESOURCE] == GroupVersionResource("example.com", "v1", "clusters")
    job = classes.import_class(V3, Job)
    assert (job.scope, job.status) == (Scope.NAMESPACE, False)
    assert job.attributes[RESOURCE] == GroupVersionResource("example.com", "v1", "jobz")
    assert "status" not in job.resource_fields
    spec = registry.schema(V3, "clusterSpec")
    assert spec is not None
    assert spec.collection_methods == ()
    assert {each.id for each in registry.schemas()} == {
        "cluster",
        "clusterSpec",
        "clusterStatus",
        "job",
        "objectMeta",
        "ownerReference",
    }
    registry.raise_errors()


def test_root_gives_any_class_methods_and_filters() -> None:
    """Filters follow the type: booleans compare with eq and ne only, lists and json not at all."""
    classes, _ = importer()
    filters = classes.import_class(V3, Everything, root=True).collection_filters
    assert filters["aBool"] == Filter(modifiers=(Modifier.EQ, Modifier.NE))
    assert filters["aText"] == Filter()
    assert set(filters) == {
        "aBool",
        "anInt",
        "aText",
        "aDate",
        "aDay",
        "aQuantity",
        "aDecimal",
        "aColor",
        "aLevel",
        "aLiteral",
        "aNumberLiteral",
        "clusterId",
    }
    assert classes.import_class(V3, Port).collection_filters == {}


class Tree(msgspec.Struct):
    """Contains itself."""

    value: int
    children: list[Tree] = []
    by_name: dict[str, Tree] = {}


class Ping(msgspec.Struct):
    """Contains a class that contains it."""

    value: int
    pong: Pong | None = None


class Pong(msgspec.Struct):
    """Contains a class that contains it."""

    value: int
    ping: Ping | None = None


def test_recursive_classes() -> None:
    """A class may contain itself, also through another one; its mappers run on every level."""
    for cls, name, tree in (
        (Tree, "tree", {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}),
        (Ping, "ping", {"value": 1, "pong": {"value": 2, "ping": {"value": 3}}}),
    ):
        classes, registry = importer()
        registry.add_mapper(V3, name, Move(source="value", to="number"))
        schema = classes.import_class(V3, cls)
        registry.raise_errors()
        assert schema.mapper is not None
        external = outward(schema.mapper, tree)
        inner = external["children"][0]["children"][0] if name == "tree" else external["pong"]["ping"]
        assert inner["number"] == 3
        schema.mapper.to_internal(external)
        assert external == tree


def test_the_internal_schema_stays() -> None:
    """Mappers change the external schema; each import has mappers of its own."""
    classes, registry = importer()
    move = Move(source="size", to="length")
    registry.add_mapper(V3, "clusterSpec", move)
    spec = classes.import_class(V3, ClusterSpec)
    assert spec.internal is not None
    assert "size" in spec.internal.resource_fields
    assert "length" in spec.resource_fields


@dataclass
class Extra:
    """More fields for clients."""

    note: str = ""
    size: str = ""


def test_overrides_change_only_the_external_schema() -> None:
    """Override fields are added to the external schema, or replace its fields."""
    classes, _ = importer()
    schema = classes.import_class(V3, ClusterSpec, overrides=[Extra])
    assert types(schema) == {"size": "string", "nodeName": "reference[node]", "ready": "boolean", "note": "string"}
    assert schema.internal is not None
    assert "note" not in schema.internal.resource_fields


def test_two_classes_cannot_have_one_id() -> None:
    """The error names both classes and the remedy; `type_name` sets another id."""

    class Port(msgspec.Struct):
        other: int

    classes, _ = importer()
    classes.import_class(V3, Everything)
    with pytest.raises(UsageError, match=r"is the schema of Port, not of .*Port: set another id with type_name\(Port"):
        classes.import_class(V3, Port)
    classes.type_name(Port, "otherPort")
    assert classes.import_class(V3, Port).id == "otherPort"


class Unknown(msgspec.Struct):
    """Has a field without schema."""

    ports: list[Opaque]


def test_a_class_without_schema_is_an_error_with_its_path() -> None:
    """The error names class and attribute, and leaves no partial schema."""
    classes, registry = importer()
    for _ in range(2):
        with pytest.raises(UsageError, match=r"Unknown\.ports: Opaque has no type in a schema: .*FieldOptions"):
            classes.import_class(V3, Unknown)
    assert registry.schemas() == []


class A(msgspec.Struct):
    """A user of a nested class."""

    port: ClusterStatus


class B(msgspec.Struct):
    """Another user of it."""

    port: ClusterStatus


def test_a_nested_class_that_a_mapper_changed_has_one_user() -> None:
    """A second use of a nested class that a mapper has changed is an error."""
    classes, registry = importer()
    registry.add_mapper(V3, "a", Move(source="port/phase", to="phase"))
    classes.import_class(V3, A)
    with pytest.raises(UsageError, match=r"B\.port: a mapper of /v3/schemas/a changed the fields of clusterStatus"):
        classes.import_class(V3, B)


def test_customize_gets_the_finished_schema() -> None:
    """`customize` runs after mappers and filters, even for a class that is already imported."""
    calls: list[set[str]] = []

    def customize(schema: Schema) -> None:
        calls.append(set(schema.resource_fields))

    classes, registry = importer()
    registry.add_mapper(V3, "port", Drop(field="number"))
    first = classes.import_class(V3, Port, customize)
    assert classes.import_class(V3, Port, customize) is first
    assert calls == [set(), set()]


class Settings(TypedDict, total=False):
    """A TypedDict."""

    size: int


def test_typed_dicts_and_enums_of_one_name_in_two_versions() -> None:
    """A class can be imported into several versions."""
    classes, registry = importer()
    other = ApiVersion(version="v4", path="/v4")
    assert classes.import_class(V3, Settings) is not classes.import_class(other, Settings)
    assert len(registry.schemas()) == 2


def test_built_in_kinds() -> None:
    """Secret, Node and Deployment have the types of Kubernetes."""
    classes, registry = importer()
    secret = classes.import_class(V3, Secret)
    assert types(secret)["data"] == "map[base64]"
    assert types(secret)["type"] == "string"
    node = classes.import_class(V3, Node)
    assert (node.scope, node.attributes[RESOURCE]) == (Scope.CLUSTER, GroupVersionResource("", "v1", "nodes"))
    classes.import_class(V3, Deployment)
    assert types(registry.schema(V3, "rollingUpdateDeployment") or secret)["maxSurge"] == "intOrString"
    assert types(registry.schema(V3, "container") or secret)["env"] == "array[envVar]"
    registry.raise_errors()


def test_every_built_in_kind_has_a_schema() -> None:
    """All generated classes can be imported, those with a recursive schema too."""
    count = 0
    for info in pkgutil.walk_packages(opsdk.api.__path__, "opsdk.api."):
        module = importlib.import_module(info.name)
        classes, registry = importer()
        version = ApiVersion(version="v1", path=f"/{info.name}")
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, TypedObject) and cls.__module__ == info.name and cls.gvk.kind:
                assert "metadata" in classes.import_class(version, cls).resource_fields
                count += 1
        registry.raise_errors()
    assert count > 60
