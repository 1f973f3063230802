"""Merging of OpenAPI v2 documents."""

from __future__ import annotations

from opsdk.apiserver.endpoints.openapi.merge import filter_spec_by_paths, merge_specs

REF = {"$ref": "#/definitions/A"}


def test_only_what_is_below_the_root_is_taken() -> None:
    """Only paths below the root are kept, with the definitions that they reach, even through cycles."""
    document = {
        "paths": {"/apis/g/v1/": {}, "/apis/g/v1": {"x": REF}, "/apis/g/v11/a": {}, "/apis/g/v1/a": {}},
        "definitions": {"A": {"b": {"$ref": "#/definitions/B"}}, "B": {"a": [REF]}, "C": {}},
    }
    result = filter_spec_by_paths(document, "/apis/g/v1")
    assert set(result["paths"]) == {"/apis/g/v1/", "/apis/g/v1", "/apis/g/v1/a"}
    assert set(result["definitions"]) == {"A", "B"}


def test_definitions_that_differ_under_one_name_get_another() -> None:
    """A different definition with a taken name is renamed, with its references; equal ones are shared."""
    own = {"A": {"type": "object"}, "A_v2": {}, "S": {"type": "string"}}
    other = {"paths": {"/a": {"get": REF}, "/b": [REF]}, "definitions": {"A": {"self": REF}, "S": {"type": "string"}}}
    paths, definitions = merge_specs({"/a": {"own": True}}, own, other)
    renamed = {"$ref": "#/definitions/A_v3"}
    assert paths == {"/a": {"own": True}, "/b": [renamed]}
    assert definitions == {**own, "A_v3": {"self": renamed}}
