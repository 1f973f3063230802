"""Pruning, compared with a model that decides for each path alone."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.structured_merge.value import JsonObject, JsonValue

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
KEPT = {PRESERVE: True}
A = {"properties": {"a": {"type": "integer"}}, "type": "object"}
Path = tuple[str | int, ...]


def is_kept(schema: JsonObject | None, path: Path) -> bool:
    """Whether the value at a path stays, by upstream's rule: the keyword of a list goes on in its elements.

    Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go (v1.36)
    """
    inherited = False
    for step in path:
        schema = schema or {}
        open_here = inherited or bool(schema.get(PRESERVE))
        inherited = False
        if isinstance(step, int):
            schema, inherited = schema.get("items"), open_here
            if schema is None and open_here:
                return True
        elif schema.get(EMBEDDED) and step in ("apiVersion", "kind", "metadata"):
            return True
        elif step in (schema.get("properties") or {}):
            schema = schema["properties"][step]
        elif "additionalProperties" in schema:
            entries = schema["additionalProperties"]
            schema = entries if isinstance(entries, dict) else None
        else:
            return open_here
    return True


def entries_of(value: JsonValue) -> Iterator[tuple[str | int, JsonValue]]:
    """Yield the members of an object or a list."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def pruned(schema: JsonObject, value: JsonValue, path: Path = ()) -> JsonValue:
    """Return what the model keeps."""
    if isinstance(value, dict):
        return {k: pruned(schema, v, (*path, k)) for k, v in value.items() if is_kept(schema, (*path, k))}
    if isinstance(value, list):
        return [pruned(schema, v, (*path, i)) for i, v in enumerate(value)]
    return value


def dropped(schema: JsonObject, value: JsonValue, path: Path = ()) -> Iterator[str]:
    """Yield the paths that the model drops."""
    for step, below in entries_of(value):
        place = (*path, step)
        if isinstance(step, str) and not is_kept(schema, place):
            yield "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:]
        else:
            yield from dropped(schema, below, place)


def nested(below: st.SearchStrategy[JsonObject]) -> st.SearchStrategy[JsonObject]:
    """Return schemas with others below them, with the keyword and without it."""
    mark = st.sampled_from([{}, {}, KEPT])
    names = st.sampled_from(["a", "b", "kind"])
    properties = st.dictionaries(names, below, max_size=2)
    whole = st.sampled_from([{}, {EMBEDDED: True}])
    fields = st.builds(lambda m, p, e: {"type": "object", **m, **e, "properties": p}, mark, properties, whole)
    entries = st.builds(
        lambda m, e: {"type": "object", **m, "additionalProperties": e}, mark, below | st.just(value=True)
    )
    lists = st.builds(lambda m, i: {"type": "array", **m, **i}, mark, below.map(lambda i: {"items": i}) | st.just({}))
    return fields | entries | lists


SCHEMAS = st.recursive(
    st.sampled_from([{"type": "integer"}, KEPT, {"type": "object"}, {"type": "object", **KEPT}, {"type": "array"}]),
    nested,
    max_leaves=8,
)
VALUES = st.recursive(
    st.integers(0, 1),
    lambda below: (
        st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "c", "kind"]), below, max_size=3)
    ),
    max_leaves=12,
)


def shaped(schema: JsonObject) -> st.SearchStrategy[JsonValue]:
    """Return values of the shape of a schema, with unknown fields beside the declared ones."""
    if schema.get("type") == "array":
        return st.lists(shaped(schema.get("items") or {}), min_size=1, max_size=2)
    if schema.get("type") != "object":
        return VALUES
    entries = schema.get("additionalProperties")
    declared = {**(schema.get("properties") or {}), **({"c": entries} if isinstance(entries, dict) else {})}
    return st.fixed_dictionaries({"d": VALUES, **{name: shaped(below) for name, below in declared.items()}})


@given(SCHEMAS.flatmap(lambda below: st.tuples(st.just(below), shaped(below) | VALUES)))
def test_the_keyword_keeps_what_upstream_keeps(drawn: tuple[JsonObject, JsonValue]) -> None:
    """In each place of a schema: the kept value, the reported paths, and the original, which stays as it was."""
    below, value = drawn
    schema = {"type": "object", "properties": {"spec": below}}
    tree = {"spec": value}
    before = copy.deepcopy(tree)
    result, unknown = StructuralSchema(schema).prune(tree)
    assert result == pruned(schema, tree)
    assert unknown == sorted(dropped(schema, tree))
    assert tree == before


@pytest.mark.parametrize(
    ("schema", "value", "kept"),
    [
        ({"type": "array", **KEPT, "items": {"type": "object"}}, [{"x": {"y": 1}}], [{"x": {"y": 1}}]),
        ({"type": "array", **KEPT, "items": A}, [{"a": 1, "x": {"y": 1}}], [{"a": 1, "x": {"y": 1}}]),
        ({"type": "array", **KEPT, "items": {"type": "array", "items": A}}, [[{"x": 1}]], [[{"x": 1}]]),
        ({"type": "array", **KEPT, "items": {**A, "properties": {"a": A}}}, [{"a": {"x": 1}}], [{"a": {}}]),
        ({"type": "array", **KEPT, "items": {"additionalProperties": A}}, [{"k": {"x": 1}}], [{"k": {}}]),
        ({"type": "array", "items": {**A, **KEPT}}, [{"x": 1}], [{"x": 1}]),
        ({"type": "array", "items": A}, [{"a": 1, "x": 1}], [{"a": 1}]),
        ({"type": "object", **KEPT}, {"x": [{"y": 1}]}, {"x": [{"y": 1}]}),
        (KEPT, [{"x": [1]}], [{"x": [1]}]),
    ],
)  # fmt: skip
def test_places_of_the_keyword(schema: JsonObject, value: Any, kept: Any) -> None:
    """Elements of a list inherit the keyword, declared fields do not."""
    assert StructuralSchema({"type": "object", "properties": {"spec": schema}}).prune({"spec": value})[0] == {
        "spec": kept
    }
