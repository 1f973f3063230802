"""The measurement itself: it finds what is lost, and nothing where nothing is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.structured_merge.value import JsonObject
from tests.definitions.__main__ import ProjectResult, measure
from tests.definitions.differences import differences

SPEC: JsonObject = {
    "type": "object",
    "description": "a text",
    "properties": {
        "size": {"type": "string", "default": "S", "enum": ["S", "L"]},
        "description": {"type": "string"},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    },
    "required": ["size", "description"],
}
DEFINITION: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sites.x.example.com"},
    "spec": {
        "group": "x.example.com",
        "names": {"plural": "sites", "kind": "Site"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": SPEC}}},
            }
        ],
    },
}


def changed(**keywords: Any) -> JsonObject:
    """Return the definition with other keywords of the spec."""
    tree = copy.deepcopy(DEFINITION)
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] |= keywords
    return tree


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"description": "another"}, []),
        ({"required": ["description"]}, []),
        ({"required": ["description", "parts"]}, [".required: ['description'] -> ['description', 'parts']"]),
        (
            {"properties": {"size": SPEC["properties"]["size"]}},
            [".properties.description is lost", ".properties.parts is"],
        ),
        ({"x-kubernetes-map-type": "atomic"}, [".x-kubernetes-map-type is added"]),
    ],
)
def test_differences(keywords: JsonObject, expected: list[str]) -> None:
    """Descriptions, defaults and the order do not count."""
    actual = differences(DEFINITION, changed(**keywords))
    assert len(actual) == len(expected)
    assert all(text in each for text, each in zip(expected, actual, strict=True))


@pytest.mark.slow
def test_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of a folder are checked by mypy and give the definitions again."""
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds/a.yaml").write_text(to_yaml([DEFINITION]))
    monkeypatch.syspath_prepend(str(tmp_path))
    meta = {"apiVersion": "x.example.com/v1", "kind": "Site", "metadata": {"name": "a"}}
    good = {**meta, "spec": {"description": "x", "parts": [{"a": 1}]}}
    objects: list[JsonObject] = [good, good, {**meta, "spec": {"description": 1}}, {"apiVersion": "v1", "kind": "Pod"}]
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects/a.yaml").write_text(to_yaml(objects))
    (tmp_path / "objects/b.yaml").write_text("{{ template }}: {")
    result = measure("a-project", str(tmp_path / "crds"), tmp_path, examples=tmp_path / "objects")
    assert result == ProjectResult("a-project", 1, 1, result.lines, 1, 1, [])
