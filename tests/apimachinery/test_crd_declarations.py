"""Declarations of a kind: the whole definition, descriptions, and mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import msgspec
import pytest
from crd_shapes import SPECS, Data, Described, Embedded, Enums, Full, FullBeta, Nested, Nullable, Ruled, kind_with

from opsdk.api.batch.v1 import PodFailurePolicy
from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.crd import PrinterColumn, Rule, Scale, crd_for, list_type, map_type, schema_for, validations
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, TypedObject
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject


def spec_of(spec: type) -> JsonObject:
    """The schema of the spec of a kind."""
    schema: JsonObject = schema_for(kind_with(spec))["properties"]["spec"]
    return schema


def field_of(annotation: Any, default: Any = None) -> type[TypedObject]:
    """A kind whose spec has one field ``a``."""
    spec = msgspec.defstruct("Spec", [("a", annotation, default)], bases=(Model,), kw_only=True)
    return kind_with(spec)


def test_thirty_shapes() -> None:
    """The shapes that the other tests use are thirty or more."""
    assert len(SPECS) >= 30


def test_the_definition_of_all_declarations() -> None:
    """Every class variable stands in the definition."""
    crd = crd_for(FullBeta, Full)
    assert crd["metadata"]["name"] == "fulls.shapes.opsdk.dev"
    assert crd["spec"]["scope"] == "Cluster"
    assert crd["spec"]["names"] == {
        "plural": "fulls",
        "singular": "fullone",
        "kind": "Full",
        "listKind": "FullCollection",
        "shortNames": ["fl"],
        "categories": ["all", "shapes"],
    }
    beta, stable = crd["spec"]["versions"]
    assert (beta["name"], beta["served"], beta["storage"]) == ("v1beta1", False, False)
    assert (beta["deprecated"], beta["deprecationWarning"]) == (True, "use v1")
    assert (stable["name"], stable["served"], stable["storage"]) == ("v1", True, True)
    assert stable["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert stable["selectableFields"] == [{"jsonPath": ".spec.replicas"}]
    assert stable["additionalPrinterColumns"][0]["description"] == "How many."
    assert stable["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] == [{"rule": "self.spec.replicas < 100"}]


def test_descriptions_come_from_the_class_itself() -> None:
    """A class describes itself, docstring sections and Meta describe its fields, and a base class describes nothing."""
    described = spec_of(Described)
    assert described["description"] == 'A description "with quotes".'
    assert described["properties"]["count"]["description"] == "how many."
    assert described["properties"]["size"] == {
        "type": "integer",
        "format": "int64",
        "default": 1,
        "description": "how large",
        "example": 3,
    }
    port = spec_of(Nested)["properties"]["port"]
    assert port["properties"]["number"]["description"] == "the number of the port, in two lines."

    class Silent(Described):
        pass

    assert "description" not in spec_of(Silent)
    assert spec_of(Silent)["properties"]["count"]["description"] == "how many."
    assert "description" not in schema_for(kind_with(Described))


def test_optional_fields_without_a_none_default_are_nullable() -> None:
    """A field that may be None is nullable unless None is its default; its enumeration lists null."""
    properties = spec_of(Nullable)["properties"]
    assert {name: part.get("nullable", False) for name, part in properties.items()} == {
        "required": True,
        "defaulted": True,
        "marked": True,
        "size": True,
        "items": False,
    }
    assert properties["size"]["enum"] == ["S", "L", None]
    assert properties["items"]["items"]["nullable"] is True


def test_enums_keep_their_order() -> None:
    """Members of an Enum stand as declared, values of a Literal are sorted, so the bytes never change."""
    properties = spec_of(Enums)["properties"]
    assert properties["size"]["enum"] == ["S", "L"]
    assert properties["policy"]["enum"] == ["Drop", "Keep"]


def test_rules_and_embedded_objects() -> None:
    """Rules stand where they are declared; an embedded object keeps its fields."""
    ruled = spec_of(Ruled)
    assert ruled["x-kubernetes-validations"][0]["fieldPath"] == ".low"
    assert ruled["properties"]["high"]["x-kubernetes-validations"] == [
        {"rule": "self != 13", "reason": "FieldValueForbidden"}
    ]
    template = spec_of(Embedded)["properties"]["template"]
    assert template["x-kubernetes-embedded-resource"] is True
    assert template["x-kubernetes-preserve-unknown-fields"] is True

    class Holder(Model):
        inner: Full | None = None

    inner = spec_of(Holder)["properties"]["inner"]
    assert inner["x-kubernetes-embedded-resource"] is True
    assert inner["properties"]["metadata"] == {"type": "object"}


def test_a_field_may_have_the_name_rules() -> None:
    """A field named ``rules`` is a property as any other, also in a built-in class."""

    class Firewall(Model):
        rules: list[str] = msgspec.field(default_factory=list)
        policy: PodFailurePolicy | None = None

    properties = spec_of(Firewall)["properties"]
    assert properties["rules"] == {"type": "array", "items": {"type": "string"}}
    assert properties["policy"]["properties"]["rules"]["type"] == "array"
    assert "x-kubernetes-validations" not in spec_of(Firewall)


def test_a_dataclass_can_be_a_spec() -> None:
    """A dataclass can be a spec: attributes keep their names, and objects survive a round trip."""
    kind: Any = kind_with(Data)
    site = kind(spec=Data(image="nginx"))
    assert spec_of(Data)["required"] == ["image"]
    assert "Data(" not in spec_of(Data)["description"]
    assert decode(encode(site), kind_of(kind)).spec == site.spec

    @dataclass
    class Plain:
        a: int = 1

    assert "description" not in spec_of(Plain)


class Item(Model, kw_only=True):
    """An element of a list."""

    name: str
    note: str | None = None
    part: dict[str, str] = msgspec.field(default_factory=dict)


class Reference(Model, kw_only=True):
    """An element of a list of type map, whose key may be left out."""

    name: str = ""


@pytest.mark.parametrize(
    "item", [Reference, Annotated[Reference, map_type("atomic")], Annotated[Reference, msgspec.Meta(description="one")]]
)
def test_an_optional_key_of_a_list_has_its_empty_default(item: Any) -> None:
    """The server wants a default of each optional key, also if the elements have markers."""
    kind = field_of(Annotated[list[item], list_type("map", keys=("name",))], msgspec.field(default_factory=list))
    array = schema_for(kind)["properties"]["spec"]["properties"]["a"]
    assert array["items"]["properties"]["name"]["default"] == ""


class Loop(Model, kw_only=True):
    """Contains itself, two levels down."""

    more: dict[str, list[Loop]] = msgspec.field(default_factory=dict)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (kind_with(Loop), r"Loop\.spec\.more\{\}\[\]: Loop contains itself"),
        (field_of(timedelta | None), r"Spec\.spec\.a: TimeDeltaType .* use opsdk.apimachinery.duration.Duration"),
        (field_of(list[dict[str, str] | str] | None), r"Spec\.spec\.a\[\]: a union of 2 types"),
        (field_of(dict[int, str] | None), "keys of a dict are strings"),
        (field_of(Annotated[int, msgspec.Meta(le=5)], 9), r"Spec\.spec\.a: the default 9 is not valid: .*<= 5"),
        (field_of(Annotated[int, msgspec.Meta(ge=5, le=1)] | None), "minimum 5 exceeds maximum 1"),
        (field_of(Annotated[str | None, list_type("atomic")]), r"list_type\('atomic'\) needs a list"),
        (field_of(Annotated[list[str] | None, map_type("atomic")]), r"map_type\('atomic'\) needs an object"),
        (field_of(set[Item] | None), "elements of a set must be scalars"),
        (field_of(Annotated[list[Item] | None, list_type("map")]), "needs keys"),
        (field_of(Annotated[list[str] | None, list_type("map", keys=("a",))]), "must be objects"),
        (
            field_of(Annotated[list[Item] | None, list_type("map", keys=("nam",))]),
            r"v1\.spec\.a: the list map key 'nam' is not a field of the elements: choose among name, note, part",
        ),
        (field_of(Annotated[list[Item] | None, list_type("map", keys=("note",))]), "'note' must be required"),
        (field_of(Annotated[list[Item] | None, list_type("map", keys=("part",))]), "'part' must be"),
        (field_of(Annotated[int | None, validations(Rule(" "))]), "must not be empty"),
        (field_of(Annotated[int | None, validations(Rule("true\n&& true"))]), "several lines"),
        (field_of(Annotated[int | None, validations(Rule("true", message="a\nb"))]), "must be one line"),
        (field_of(Annotated[Item | None, validations(Rule("true", field_path=".nam"))]), "field_path '.nam'"),
    ],
)
def test_mistakes_in_fields(kind: type[TypedObject], message: str) -> None:
    """The error has the path of the field and says what to do."""
    with pytest.raises(UsageError, match=message):
        crd_for(kind)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"plural": "Bad Plural"}, "plural 'Bad Plural'"),
        ({"short_names": ("B",)}, "shortNames 'B'"),
        ({"list_kind": "Thing"}, "must differ from the kind"),
        ({"gvk": GroupVersionKind("nodot", "v1", "Thing")}, "a group needs a dot"),
        ({"gvk": GroupVersionKind("a.dev", "V1", "Thing")}, "version 'V1'"),
        ({"printer_columns": (PrinterColumn(name="A", json_path=".a", type="text"),)}, "type 'text'"),
        ({"printer_columns": (PrinterColumn(name="A", json_path="a"),)}, "must start with a dot"),
        ({"selectable_fields": (".spec.part",)}, "selectable field '.spec.part'"),
        ({"scale": Scale()}, r"scale specReplicasPath '.spec.replicas'"),
        ({"deprecation_warning": "old"}, "needs `deprecated = True`"),
    ],
)
def test_mistakes_in_class_variables(variables: JsonObject, message: str) -> None:
    """The error names the declaration."""

    class Thing(Object[Item, None]):
        gvk = GroupVersionKind("a.dev", "v1", "Thing")

    for name, value in variables.items():
        setattr(Thing, name, value)
    with pytest.raises(UsageError, match=message):
        crd_for(Thing)


def test_mistakes_of_several_versions() -> None:
    """A version has one class, and one version is stored."""

    class Beta(Object[Item, None]):
        gvk = GroupVersionKind("shapes.opsdk.dev", "v1", "Full")
        storage = True

    with pytest.raises(UsageError, match=r"(?s)has two classes.*exactly one version is stored"):
        crd_for(Full, Beta)


def test_required_fields_after_optional_ones() -> None:
    """A class with ``kw_only=True`` takes them in any order."""

    class Mixed(Model, kw_only=True):
        optional: int = 1
        required: str

    assert Mixed(required="a") == Mixed(optional=1, required="a")
    assert spec_of(Mixed)["required"] == ["required"]


class Point(Model):
    """Has a field whose name is a boolean in YAML."""

    x: int = 0
    y: int = 0


class Chart(Model):
    """Has such fields at each depth."""

    points: list[Point]
    by_name: dict[str, Point]
    on: bool = False


class ChartKind(Object[Chart, None]):
    """The kind of charts."""

    gvk = GroupVersionKind("shapes.opsdk.dev", "v1", "Chart")


def test_names_that_yaml_reads_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    """A field whose unquoted name is no string in YAML is logged with its path."""
    crd_for(ChartKind)
    texts = [record.getMessage() for record in caplog.records]
    paths = [text.partition(":")[0].rpartition(" ")[2] for text in texts]
    assert paths == ["v1.spec.points[].y", "v1.spec.byName{}.y", "v1.spec.on"]
    assert 'write "y": with quotes in YAML' in texts[0]
