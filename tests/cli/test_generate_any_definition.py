"""``opsdk generate models`` for every form of definition that a server takes."""

from __future__ import annotations

import keyword
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.__main__ import main
from opsdk.cli.generate.models import model_files
from opsdk.structured_merge.value import JsonObject, JsonValue

PRESERVE, INT_OR_STRING = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"
RULE = {"x-kubernetes-validations": [{"rule": "true"}]}
A = {"type": "object", "properties": {"a": {"type": "integer"}}}
ANY: JsonObject = {"spec": {"a": 1, "list": [{"b": None}]}, "status": {"x": "y"}}


def definition(schema: JsonValue, *, kind: str = "Thing", group: str = "x.example.com") -> JsonObject:
    """Return a definition with this root schema."""
    names = {"plural": f"{kind.lower()}s", "kind": kind}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def loaded(tree: JsonObject) -> Any:
    """Return the class of a definition."""
    spec = tree["spec"]
    [source] = [text for path, text in model_files([tree], source="a test").items() if path.endswith("v1.py")]
    kind = GroupVersionKind(spec["group"], "v1", spec["names"]["kind"])
    module = type(sys)("generated_by_a_test")
    sys.modules[module.__name__] = module
    exec(compile(source, "v1.py", "exec"), module.__dict__)
    [kind_class] = [each for each in vars(module).values() if getattr(each, "gvk", None) == kind]
    return kind_class


def assert_round_trip(kind_class: Any, fields: JsonObject) -> None:
    """An object decodes, and encodes to an equal tree."""
    tree = {"apiVersion": kind_class.gvk.api_version, "kind": kind_class.gvk.kind, "metadata": {"name": "a"}, **fields}
    read = decode(msgspec.json.encode(tree), kind_of(kind_class))
    assert msgspec.json.decode(encode(read)) == tree


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        ({"type": "object"}, {}),
        ({"type": "object", "properties": None, "description": None}, {}),
        ({"type": "object", PRESERVE: True}, ANY),
        ({"type": "object", PRESERVE: True, "properties": {}}, ANY),
        ({"type": "object", PRESERVE: True, "properties": {"spec": A}}, {"spec": {"a": 1, "b": 2}, "more": [1]}),
        ({"type": "object", PRESERVE: True, **RULE}, ANY),
        ({"type": "object", "properties": {"spec": {INT_OR_STRING: True}}}, {"spec": "5%"}),
        ({"type": "object", "properties": {"spec": {INT_OR_STRING: True, "anyOf": None}}}, {"spec": 5}),
        ({"type": "object", "properties": {"spec": {PRESERVE: True}}}, {"spec": [1, {"a": None}]}),
        ({"type": "object", "properties": {"spec": {"type": "object", PRESERVE: True}}}, {"spec": {"a": [1]}}),
        ({"type": "object", "properties": {"spec": {"type": "object"}}}, {"spec": {}}),
        ({"type": "object", "properties": {"spec": {"type": "string"}}, "required": ["spec"]}, {"spec": "a"}),
        ({"type": "object", "properties": {"spec": {"type": "array", "items": A}}}, {"spec": [{"a": 1}]}),
        ({"properties": {"spec": {"type": "array", PRESERVE: True, "items": A}}}, {"spec": [{"b": 1}]}),
        ({"type": "object", "properties": {"spec": {"type": "array"}}}, {"spec": [1]}),
        ({"properties": {"spec": {"type": "object", "additionalProperties": A}}}, {"spec": {"k": {}}}),
        ({"properties": {"spec": {"type": "object", "additionalProperties": True}}}, {"spec": {"k": 1}}),
        ({"type": "object", "properties": {"metadata": {"type": "object"}, "data": {"type": "string"}}}, {"data": "a"}),
        ({"type": "object", "properties": {"kind": {"type": "string"}, "gvk": {"type": "integer"}}}, {"gvk": 1}),
        ({"type": "object", "properties": {"spec": {**A, "nullable": True}}}, {"spec": None}),
        ({"type": "object", "properties": {"spec": {"enum": [1.5, "a"], PRESERVE: True}}}, {"spec": "a"}),
        ({"type": "object", "properties": {"spec": {"type": "number", "enum": [1.5, 2]}}}, {"spec": 1.5}),
        ({"type": "object", "properties": {"spec": {"type": "boolean", "enum": [True]}}}, {"spec": True}),
    ],
)  # fmt: skip
def test_each_root_schema_has_a_class(schema: JsonObject, fields: JsonObject) -> None:
    """Without properties, with the keyword that preserves unknown fields alone, with nulls, with any type of spec."""
    assert_round_trip(loaded(definition(schema)), fields)


@pytest.mark.parametrize("properties", [{"spec": A}, {"spec": A, "status": A}])
@pytest.mark.parametrize("required", [{}, {"required": ["spec"]}])
@pytest.mark.parametrize("subresources", [{}, {"status": {}}])
def test_the_status_subresource_goes_round(
    subresources: JsonObject, required: JsonObject, properties: JsonObject
) -> None:
    """It need not go with a status in the schema."""
    tree = definition({"type": "object", "properties": properties, **required})
    tree["spec"]["versions"][0]["subresources"] = subresources
    assert crd_for(loaded(tree))["spec"]["versions"][0].get("subresources", {}) == subresources


TAKEN = ["Model", "TypedObject", "Object", "Any", "ClassVar", "Annotated", "Enum", "ObjectMeta", "Rule", "Quantity"]
TAKEN += ["Condition", "Time", "GroupVersionKind", "JsonObject", "None", "True", "Scale", "IntOrString", "Class", "Str"]


@pytest.mark.parametrize("kind", TAKEN)
def test_a_kind_may_have_the_name_of_anything(kind: str) -> None:
    """Names that the module imports, and words of Python, are kinds too."""
    spec = {
        "type": "object",
        "properties": {
            "e": {"type": "string", "enum": ["a"]},
            "q": {INT_OR_STRING: True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "t": {"type": "string", "format": "date-time", "description": "A time."},
            "j": {"type": "object", PRESERVE: True},
            "n": A,
            "any": {PRESERVE: True},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, PRESERVE: True},
        },
        **RULE,
    }
    kind_class = loaded(definition({"type": "object", "properties": {"spec": spec}}, kind=kind))
    assert_round_trip(kind_class, {"spec": {"e": "a", "q": 1, "n": {"a": 1}, "j": {"x": 1}, "any": [1]}})


WORDS = (
    "name metadata rules gvk apiVersion kind __class__ self msgspec Any str list dict int Model spec Thing ThingSpec _ "
    "__slots__ 1a"
)
NAMES = st.text("aAbB1_-.$ é/", min_size=1, max_size=6) | st.sampled_from(
    [*keyword.kwlist, *keyword.softkwlist, *WORDS.split()]
)


@given(st.dictionaries(NAMES, st.sampled_from([A, {"type": "string"}, {"type": "string", "enum": ["a"]}]), max_size=4))
def test_a_field_may_have_any_name(properties: JsonObject) -> None:
    """Each field of a spec, and of an object below it, is read and written by its own name."""
    values = {"object": {"a": 1}, "string": "a"}
    fields = {name: values[schema["type"]] for name, schema in properties.items()}
    schema = {"type": "object", "properties": properties}
    kind_class = loaded(
        definition({"type": "object", "properties": {"spec": {**schema, "properties": {**properties, "z": schema}}}})
    )
    assert_round_trip(kind_class, {"spec": {**fields, "z": fields}})


def test_what_no_server_takes_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A definition without a schema, or of v1beta1, is left out with a sentence; the others of the file are written."""
    bare = definition({}, kind="Bare")
    del bare["spec"]["versions"][0]["schema"]
    old = {**definition({}, kind="Old"), "apiVersion": "apiextensions.k8s.io/v1beta1"}
    broken = {**definition({}, kind="Broken"), "spec": {"group": "x"}}
    path = tmp_path / "crds.yaml"
    good = {"apiVersion": "v1", "kind": "List", "items": [definition({"type": "object"})]}
    path.write_text(to_yaml([bare, old, broken, good]))
    assert main(["generate", "models", "--crd", str(path), "--folder", str(tmp_path / "apis")]) == 0
    errors = capsys.readouterr().err
    assert "bares.x.example.com is left out: version v1 has no openAPIV3Schema" in errors
    assert "olds.x.example.com is left out: apiextensions.k8s.io/v1beta1" in errors
    assert "brokens.x.example.com is left out: spec has no names, scope, versions" in errors
    assert "class Thing(" in (tmp_path / "apis/x_example_com/v1.py").read_text()
    path.write_text(to_yaml([bare]))
    assert main(["generate", "models", "--crd", str(path), "--folder", str(tmp_path / "apis")]) == 1
    assert "has no CustomResourceDefinition that a server takes" in capsys.readouterr().err
