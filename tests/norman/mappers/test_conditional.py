"""Mappers that run others under a condition."""

from __future__ import annotations

from opsdk.norman.mappers.conditional import ConditionMapper, ListableOnly, ScopeMapper
from opsdk.norman.mappers.moves import Drop, Move
from opsdk.norman.schema_parts import Scope
from tests.norman.mappers.kit import NO_SCHEMAS, inward, outward, registry, schema, types


def test_a_condition_decides_for_each_object() -> None:
    """Objects of both forms are declared, in the schema and in nested ones."""
    site, spec = schema(kind="string", spec="spec"), schema("spec", size="int", other="int")
    mapper = ConditionMapper(field="kind", value="x", mapper=Move(source="spec/size", to="size"))
    mapper.modify_schema(site, registry(spec))
    assert types(site) == {"kind": "string", "spec": "spec", "size": "int"}
    assert types(spec) == {"size": "int", "other": "int"}
    assert outward(mapper, {"kind": "x", "spec": {"size": 1, "other": 2}}) == {
        "kind": "x",
        "spec": {"other": 2},
        "size": 1,
    }
    assert outward(mapper, {"kind": "y", "spec": {"size": 1}}) == {"kind": "y", "spec": {"size": 1}}
    assert inward(mapper, {"kind": "y", "size": 1}) == {"kind": "y", "size": 1}


def test_listable_only_runs_for_schemas_that_are_listed() -> None:
    """A nested schema has no GET, so the mapper does not run for it."""
    for methods, expected in (((), {"a": 1}), (("GET",), {"b": 1})):
        mapper, site = ListableOnly(mapper=Move(source="a", to="b")), schema(methods=methods, a="int")
        mapper.modify_schema(site, NO_SCHEMAS)
        assert outward(mapper, {"a": 1}) == expected
        assert set(types(site)) == set(expected)
        assert inward(mapper, expected) == {"a": 1}


def test_scope_runs_for_schemas_of_a_scope() -> None:
    """`if_scope` and `if_not_scope` compare with the scope of the schema."""
    for mapper, scope, runs in (
        (ScopeMapper(if_scope=Scope.NAMESPACE, mappers=[Drop(field="a")]), Scope.NAMESPACE, True),
        (ScopeMapper(if_scope=Scope.NAMESPACE, mappers=[Drop(field="a")]), Scope.CLUSTER, False),
        (ScopeMapper(if_not_scope=Scope.NAMESPACE, mappers=[Drop(field="a")]), Scope.NAMESPACE, False),
        (ScopeMapper(if_not_scope=Scope.NAMESPACE, mappers=[Drop(field="a")]), Scope.CLUSTER, True),
    ):
        site = schema(scope=scope, a="int")
        mapper.modify_schema(site, NO_SCHEMAS)
        assert outward(mapper, {"a": 1}) == ({} if runs else {"a": 1})
        assert bool(types(site)) is not runs
