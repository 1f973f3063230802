"""The tables of versions besides the default one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.data.table import blocks, changed, difference, read_blocks, without_header
from envtest.data.versions import DEFAULT, VERSIONS
from tools.generate.errors import GenerateError
from tools.generate.extract.protobuf import read_protobuf
from tools.generate.extract.published import read_gates, read_published
from tools.generate.facts import FOLDER, parse_facts, read_facts
from tools.generate.openapi import read_openapi
from tools.generate.outputs import outputs_of_version, tables
from tools.generate.overlay import Overlay, applied, difference_of, discovery_difference, documents, gates_of_new_fields
from tools.generate.typed_kinds import TypedKinds, with_new_kinds
from tools.generate.unstable import UnstableKinds
from tools.generate.versions import extract_version, inputs_of, parse_overlay, read_overlays

REPOSITORY = Path(__file__).parents[3]
OTHERS = [version for version in VERSIONS if version != DEFAULT]
ENTRIES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3))
TYPES = """
package v1

// +enum
type Phase string

const (
	Running Phase = "Running"
	Pending = Phase("Pending")
	Odd Phase = other.Odd
)

type Inner struct {
	Name string `json:"name"`
}

type Thing struct {
	metav1.TypeMeta `json:",inline"`
	Spec  Inner  `json:"spec"`
	Maybe *Inner `json:"maybe,omitempty"`
	// +default="x"
	// +featureGate=TextGate
	Text   string  `json:"text,omitempty"`
	Count  int32   `json:"count"`
	Phases []Phase `json:"phases,omitempty"`
}
"""
IMPORTS = 'import (\n\tmetav1 "k8s.io/apimachinery/pkg/apis/meta/v1"\n\tother "k8s.io/api/other/v1"\n)\n'
PROTO = """
package k8s.io.api.things.v1;

message Inner {
  optional string name = 1;
}

message Thing {
  map<string, Inner> parts = 3;

  // About it.
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;
  repeated Inner inner = 2;
}
"""
REF = "#/definitions/io.k8s.api.things.v1.Inner"
DEFINITIONS: dict[str, Any] = {
    "io.k8s.api.things.v1.Inner": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    "io.k8s.api.things.v1.Thing": {
        "description": "A thing.",
        "type": "object",
        "properties": {
            "spec": {"$ref": REF, "description": "Its spec."},
            "maybe": {"$ref": REF},
            "text": {"type": "string"},
            "count": {"type": "integer", "format": "int32"},
            "phases": {"type": "array", "items": {"type": "string"}},
        },
        "x-kubernetes-group-version-kind": [{"group": "things", "version": "v1", "kind": "Thing"}],
    },
    "io.k8s.api.things.v1beta1.Thing": {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "things", "version": "v1beta1", "kind": "Thing"}],
    },
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one group."""
    staging = tmp_path / "staging/src/k8s.io"
    things, other = staging / "api/things/v1", staging / "api/other/v1"
    for folder in (things, other, staging / "apimachinery/pkg/apis/meta/v1", tmp_path / "api/openapi-spec"):
        folder.mkdir(parents=True)
    (things / "types.go").write_text(TYPES.replace("package v1\n", f"package v1\n\n{IMPORTS}"))
    (things / "generated.proto").write_text(PROTO)
    (other / "types.go").write_text('package v1\n\ntype Text string\n\nconst Odd Text = "odd"\n')
    beta = {"post": {"x-kubernetes-group-version-kind": {"group": "things", "version": "v1beta1", "kind": "Thing"}}}
    swagger = {"definitions": DEFINITIONS, "paths": {"/apis/things/v1beta1/things": beta}}
    (tmp_path / "api/openapi-spec/swagger.json").write_text(json.dumps(swagger))
    (staging / "api/things/v1beta1").mkdir()
    return tmp_path


def test_published_schemas(checkout: Path) -> None:
    """The schemas have the enums and the defaults that only version 3 of OpenAPI publishes."""
    schemas = read_published(checkout, {("things", "v1")})
    assert list(schemas) == ["io.k8s.api.things.v1.Inner", "io.k8s.api.things.v1.Thing"]
    inner = {"$ref": "#/components/schemas/io.k8s.api.things.v1.Inner"}
    assert schemas["io.k8s.api.things.v1.Thing"]["properties"] == {
        "spec": {"allOf": [inner], "default": {}},
        "maybe": inner,
        "text": {"default": "x", "type": "string"},
        "count": {"default": 0, "format": "int32", "type": "integer"},
        "phases": {"items": {"enum": ["Pending", "Running", "odd"], "type": "string"}, "type": "array"},
    }
    assert schemas["io.k8s.api.things.v1.Inner"]["properties"]["name"] == {"default": "", "type": "string"}


def test_gates_of_new_fields(checkout: Path) -> None:
    """The gates of a version are those of the fields that the default version's types lack."""
    schemas = read_published(checkout, {("things", "v1")})
    gates = read_gates(checkout, schemas)
    assert gates == {"io.k8s.api.things.v1.Thing": {"text": "TextGate"}}
    assert gates_of_new_fields(schemas, gates) == {}
    assert gates_of_new_fields({}, gates) == {}
    assert gates_of_new_fields({"io.k8s.api.things.v1.Thing": {"properties": {}}}, gates) == gates


def test_protobuf_fields(checkout: Path) -> None:
    """Messages have their fields by number, with the full names of the types of their package."""
    assert read_protobuf(checkout) == {
        "k8s.io.api.things.v1.Inner": [(1, "name", "string", "optional")],
        "k8s.io.api.things.v1.Thing": [
            (1, "metadata", "k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta", "optional"),
            (2, "inner", "k8s.io.api.things.v1.Inner", "repeated"),
            (3, "parts", "map<string, Inner>", "map"),
        ],
    }


@given(base=ENTRIES, other=ENTRIES)
def test_differences_of_documents_apply(base: dict[str, int], other: dict[str, int]) -> None:
    """The difference of two documents makes the second of the first, and has nothing that is equal."""
    changes = difference_of(base, other)
    assert applied(base, changes) == other
    assert all(base.get(name) != value for name, value in changes["changed"].items())


@given(base=ENTRIES, other=ENTRIES)
def test_differences_of_tables_apply(base: dict[str, int], other: dict[str, int]) -> None:
    """The difference of two tables makes the second of the first."""
    first, second = (
        blocks("".join(f"type {k}\n  field {v}\n" for k, v in sorted(each.items()))) for each in (base, other)
    )
    assert changed(first, "\n".join(difference(first, second))) == second


@pytest.mark.parametrize("version", OTHERS)
def test_each_version_has_whole_tables(version: str) -> None:
    """The tables that the server reads for a version are those that the version's documents make."""
    [overlay] = [each for each in read_overlays(REPOSITORY) if each.minor == version]
    openapi = read_openapi(REPOSITORY / FOLDER / "openapi")
    generated = tables(*inputs_of(openapi, parse_facts(read_facts(REPOSITORY)), overlay))
    for name in ("schemas", "fields", "messages", "columns"):
        assert read_blocks(name, version) == blocks(without_header(generated[name]))
    assert overlay.version == VERSIONS[version].git_version


def test_an_equal_version_changes_nothing() -> None:
    """A version with the documents of the default one has empty differences."""
    openapi, facts = read_openapi(REPOSITORY / FOLDER / "openapi"), parse_facts(read_facts(REPOSITORY))
    groups = openapi.discovery.content["apis"]["items"]
    order = discovery_difference(groups, groups)
    nothing: dict[str, Any] = {"removed": [], "changed": {}}
    overlay = Overlay("v1.99.0", nothing, nothing, order, {}, (), {}, UnstableKinds((), {}))
    assert documents(openapi, overlay).discovery.content["apis"]["items"] == groups
    texts = outputs_of_version(tables(openapi, facts), tables(*inputs_of(openapi, facts, overlay)), overlay)
    empty = {path for path, text in texts.items() if not without_header(text).strip()}
    assert empty == set(texts) - {"envtest/data/v1.99/resources.txt"}


def test_sources_that_are_not_whole(tmp_path: Path) -> None:
    """A version without one of its sources is named with the command that makes them."""
    (tmp_path / FOLDER / "v1.99").mkdir(parents=True)
    with pytest.raises(GenerateError, match=r"v1\.99 is not whole: .*make generate KUBERNETES="):
        list(read_overlays(tmp_path))


def test_a_version_of_a_checkout(checkout: Path) -> None:
    """The stable kinds of a checkout become a version; what the default one has besides is removed.

    Its alpha and beta kinds that the default version lacks are kept for classes.
    """
    openapi, facts = read_openapi(REPOSITORY / FOLDER / "openapi"), parse_facts(read_facts(REPOSITORY))
    thing = {
        "resource": "things",
        "responseKind": {"group": "", "kind": "Thing", "version": ""},
        "scope": "Cluster",
        "singularResource": "thing",
        "verbs": ["get", "list"],
    }
    versions = [{"version": name, "resources": [thing]} for name in ("v1", "v1beta1")]
    discovery = {"items": [{"metadata": {"name": "things"}, "versions": versions}]}
    (checkout / "api/discovery").mkdir()
    (checkout / "api/discovery/aggregated_v2.json").write_text(json.dumps(discovery))
    sources = extract_version(checkout, openapi, facts, "v1.99.1", "")
    assert {str(Path(path).parent) for path in sources} == {f"{FOLDER}/v1.99"}
    overlay = parse_overlay({Path(path).name: text for path, text in sources.items()})
    whole, _ = inputs_of(openapi, facts, overlay)
    assert list(whole.schemas.content["components"]["schemas"]) == [
        "io.k8s.api.things.v1.Inner",
        "io.k8s.api.things.v1.Thing",
    ]
    [group] = whole.discovery.content["apis"]["items"]
    assert [each["version"] for each in group["versions"]] == ["v1"]
    assert overlay.minor == "1.99"
    [row] = overlay.unstable.rows
    assert (row["version"], row["resource"]) == ("v1beta1", "things")
    assert list(overlay.unstable.schemas) == ["io.k8s.api.things.v1beta1.Thing"]


def test_typed_kinds_are_those_of_all_versions() -> None:
    """The kinds that only one version has are typed with what they reach; types of several have the fields of all."""
    reference = {"$ref": "#/components/schemas/a.New"}
    old = {"required": ["a"], "properties": {"a": {"type": "string"}}}
    grown = {"properties": {"a": {"type": "integer"}, "b": reference}}
    kind = {"x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "Thing"}]}
    other = {"a.Old": grown, "a.Thing": {**kind, "properties": {"b": reference}}, "a.New": {}, "a.Far": {}}
    row = {"group": "g", "version": "v1", "resource": "things", "kind": "Thing"}
    typed = with_new_kinds(TypedKinds({"a.Old": old}, []), TypedKinds(other, [row]))
    both = {"required": ["a"], "properties": {"a": {"type": "string"}, "b": reference}}
    assert typed == TypedKinds({"a.New": {}, "a.Old": both, "a.Thing": other["a.Thing"]}, [row])
    status = {**row, "subresource": "status"}
    assert with_new_kinds(typed, TypedKinds(other, [row, status])).rows == [row, status]
