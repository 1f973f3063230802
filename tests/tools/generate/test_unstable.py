"""Alpha and beta kinds from a Swagger document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.generate.extract.published import read_unstable
from tools.generate.facts import parse_facts, read_facts
from tools.generate.typed_kinds import TypedKinds
from tools.generate.unstable import (
    UnstableKinds,
    parse_unstable,
    render_unstable,
    unstable_difference,
    unstable_rows,
    with_unstable,
)
from tools.generate.versions import read_overlays

REPOSITORY = Path(__file__).parents[3]
NAMES = ("v1.Thing", "v1.Shared", "v1beta1.Thing", "v1beta1.Spec")


def kind_of(version: str) -> dict[str, str]:
    """Return the kind of a version, as paths and definitions name it."""
    return {"group": "things", "version": version, "kind": "Thing"}


def swagger() -> dict[str, Any]:
    """Return a document with a stable and a beta version of a kind."""
    references = {"v1beta1.Thing": ("v1beta1.Spec", "v1.Shared")}
    definitions = {
        f"io.k8s.api.things.{name}": {
            "type": "object",
            "properties": {
                f"a{index}": {"$ref": f"#/definitions/io.k8s.api.things.{each}"}
                for index, each in enumerate(references.get(name, ()))
            },
        }
        for name in NAMES
    }
    paths: dict[str, Any] = {}
    for version in ("v1", "v1beta1"):
        definitions[f"io.k8s.api.things.{version}.Thing"]["x-kubernetes-group-version-kind"] = [kind_of(version)]
        for path in ("things", "namespaces/{namespace}/things", "namespaces/{namespace}/things/{name}"):
            methods = {"post": {"x-kubernetes-group-version-kind": kind_of(version)}} if path.endswith("ngs") else {}
            paths[f"/apis/things/{version}/{path}"] = methods if "{" in path else {}
    return {"definitions": definitions, "paths": paths}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one group."""
    (tmp_path / "api/openapi-spec").mkdir(parents=True)
    (tmp_path / "api/openapi-spec/swagger.json").write_text(json.dumps(swagger()))
    for version in ("v1", "v1beta1"):
        folder = tmp_path / f"staging/src/k8s.io/api/things/{version}"
        folder.mkdir(parents=True)
        structs = "".join(
            f"type {name.partition('.')[2]} struct {{\n}}\n\n" for name in NAMES if name.startswith(version + ".")
        )
        (folder / "types.go").write_text(f"package {version}\n\n{structs}")
    return tmp_path


def test_only_unstable_kinds_are_read(checkout: Path) -> None:
    """With the types that they reach, except known ones. The text gives them back."""
    kinds = read_unstable(checkout, {"io.k8s.api.things.v1.Shared"})
    assert kinds.rows == ({**kind_of("v1beta1"), "resource": "things", "namespaced": True},)
    assert set(kinds.schemas) == {"io.k8s.api.things.v1beta1.Thing", "io.k8s.api.things.v1beta1.Spec"}
    assert parse_unstable(render_unstable(kinds)) == kinds


def test_another_version_has_what_is_new_or_differs() -> None:
    """Rows and schemas that the default version has too are left out."""
    rows = tuple({**kind_of(version), "resource": "things", "namespaced": True} for version in ("v1beta1", "v1beta2"))
    base = UnstableKinds(rows[:1], {"a": {}, "b": {}})
    other = UnstableKinds(rows, {"a": {}, "b": {"properties": {}}, "c": {}})
    assert unstable_difference(base, other) == UnstableKinds(rows[1:], {"b": {"properties": {}}, "c": {}})


def test_a_collection_without_a_namespace_is_of_the_cluster() -> None:
    """The path of the collection says it; subresources and single objects are no kinds."""
    methods = {"post": {"x-kubernetes-group-version-kind": kind_of("v1alpha1")}}
    paths = {f"/apis/things/v1alpha1/things{more}": methods for more in ("", "/{name}", "/{name}/status")}
    assert [(row["kind"], row["namespaced"]) for row in unstable_rows(paths)] == [("Thing", False)]


def test_known_types_stay() -> None:
    """The type of the API server's own document wins, and gets the fields that it lacks."""
    typed = TypedKinds({"a": {"type": "object"}}, [{"kind": "A"}])
    both = with_unstable(typed, UnstableKinds(({"kind": "B"},), {"a": {}, "b": {}}))
    assert both.schemas == {"a": {"type": "object"}, "b": {}}
    grown = with_unstable(both, UnstableKinds((), {"b": {"properties": {"c": {}}}}))
    assert grown.schemas["b"] == {"properties": {"c": {}}}
    assert [row["kind"] for row in both.rows] == ["A", "B"]


@pytest.mark.parametrize(("version", "count"), [("1.35", 1), ("1.36", 27), ("1.37", 7)])
def test_a_source_has_no_stable_kind(version: str, count: int) -> None:
    """All kinds are alpha or beta, and have a schema. Other versions than the default have what is new in them."""
    kinds = {each.minor: each.unstable for each in read_overlays(REPOSITORY)}
    unstable = kinds.get(version) or parse_facts(read_facts(REPOSITORY)).unstable
    assert len(unstable.rows) == count
    assert all("alpha" in row["version"] or "beta" in row["version"] for row in unstable.rows)
    with_schema = {
        (kind["group"], kind["version"], kind["kind"])
        for schema in unstable.schemas.values()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }
    assert {(row["group"], row["version"], row["kind"]) for row in unstable.rows} <= with_schema
