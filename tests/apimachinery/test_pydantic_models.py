"""pydantic models as specs: their schema, their JSON, and what is refused."""

from __future__ import annotations

import types
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.crd import crd_for, schema_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.object import Object, deep_copy, to_dict
from opsdk.errors import DecodeError, UsageError
from opsdk.structured_merge.value import JsonObject

pydantic = pytest.importorskip("pydantic", reason="needs opsdk[pydantic]")
aliases = pytest.importorskip("pydantic.alias_generators", reason="needs opsdk[pydantic]")
structural = pytest.importorskip("opsdk.apiserver.structural.schema", reason="needs opsdk[envtest]")


class Part(pydantic.BaseModel):
    """Names in camelCase in JSON."""

    model_config = pydantic.ConfigDict(alias_generator=aliases.to_camel, populate_by_name=True)


class Backup(Part):
    """When backups are made.

    Not in the schema.
    """

    every_hours: int = pydantic.Field(24, gt=0, le=100, description="Hours between two backups.")
    labels: dict[str, str] = pydantic.Field(default_factory=dict)


class DatabaseSpec(Part):
    """What a database is."""

    engine: Literal["postgres", "mysql"]
    size: int | str = "1Gi"
    backup: Backup | None = None
    copies: list[Backup] = pydantic.Field([], max_length=2)
    names: set[str] = pydantic.Field(default_factory=set)
    since: datetime | None = None
    extra: Any = None
    role: Literal["main"] = "main"
    tuning: dict[str, Any] = pydantic.Field({}, json_schema_extra={"x-kubernetes-map-type": "atomic"})


class DatabaseStatus(Part):
    """What is known of it."""

    ready: bool = False


class Database(Object[DatabaseSpec, DatabaseStatus]):
    """A database."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Database")


HEAD = {"apiVersion": "demo.opsdk.dev/v1", "kind": "Database", "metadata": {"name": "a"}}


def test_the_schema_is_structural() -> None:
    """References are inlined, None means absent, and the keywords are those of a structural schema."""
    backup = {
        "type": "object",
        "description": "When backups are made.",
        "properties": {
            "everyHours": {
                "type": "integer", "format": "int64", "minimum": 0, "exclusiveMinimum": True, "maximum": 100,
                "default": 24, "description": "Hours between two backups.",
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }  # fmt: skip
    assert schema_for(Database)["properties"]["spec"] == {
        "type": "object",
        "description": "What a database is.",
        "required": ["engine"],
        "properties": {
            "engine": {"type": "string", "enum": ["postgres", "mysql"]},
            "size": {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
                "default": "1Gi",
            },
            "backup": backup,
            "copies": {"type": "array", "items": backup, "maxItems": 2},
            "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "since": {"type": "string", "format": "date-time"},
            "extra": {"x-kubernetes-preserve-unknown-fields": True},
            "role": {"type": "string", "enum": ["main"], "default": "main"},
            "tuning": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-map-type": "atomic",
            },
        },
    }
    assert crd_for(Database)["spec"]["versions"][0]["subresources"] == {"status": {}}


_BACKUPS = st.fixed_dictionaries(
    {},
    optional={
        "everyHours": st.integers(-1, 101),
        "labels": st.dictionaries(st.sampled_from("ab"), st.text(max_size=2)),
        "unknown": st.integers(),
    },
)
_SPECS = st.fixed_dictionaries(
    {"engine": st.sampled_from(["postgres", "mysql", "other"])},
    optional={
        "size": st.sampled_from([1, "2Gi"]),
        "backup": _BACKUPS,
        "copies": st.lists(_BACKUPS, max_size=3),
        "names": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "extra": st.sampled_from([1, "a", [1], {"b": None}]),
        "role": st.sampled_from(["main", "other"]),
        "unknown": st.sampled_from([1, [2]]),
        "tuning": st.dictionaries(st.sampled_from("ab"), st.integers()),
    },
)


@given(_SPECS)
def test_class_and_server_agree(spec: JsonObject) -> None:
    """A spec decodes into the class exactly if the server accepts it."""
    schema = structural.StructuralSchema(schema_for(Database))
    tree = {**HEAD, "spec": spec}
    stored = schema.default(schema.prune(tree)[0])
    errors = schema.validate(stored)
    with pytest.raises(DecodeError) if errors else nullcontext():
        decode(msgspec.json.encode(tree), kind_of(Database))


@given(_SPECS)
def test_a_read_and_write_changes_nothing(spec: JsonObject) -> None:
    """Fields that the models do not know survive, also in parts and items; a change of one field is one change."""
    tree = {**HEAD, "spec": spec}
    try:
        obj = decode(msgspec.json.encode(tree), kind_of(Database))
    except DecodeError:
        return
    again = decode(encode(obj), kind_of(Database))
    assert again == obj
    assert to_dict(obj)["spec"].get("unknown") == spec.get("unknown")
    for item, sent in zip(spec.get("copies", ()), to_dict(obj)["spec"].get("copies", ()), strict=True):
        assert item.get("unknown") == sent.get("unknown")
    changed = deep_copy(obj)
    changed.spec.size = 7
    assert {**to_dict(changed)["spec"], "size": 0} == {**to_dict(obj)["spec"], "size": 0}


def test_an_error_names_the_field() -> None:
    """Pydantic's text with the place in the object."""
    with pytest.raises(DecodeError, match=r"(?s)Database a: spec: .*engine\n.*'postgres' or 'mysql'.*: correct"):
        decode(msgspec.json.encode({**HEAD, "spec": {"engine": "x"}}), kind_of(Database))


class _Tree(Part):
    children: list[_Tree] = pydantic.Field(default_factory=list)


class _Either(Part):
    value: int | list[int] = 1


class _Wait(Part):
    time: timedelta = timedelta(0)


class _Pair(Part):
    value: tuple[int, str] = (1, "a")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (_Tree, r"^Bad\.spec(\.children\[\])+: _Tree contains itself.*use dict\[str, Any\]"),
        (_Either, r"^Bad\.spec\.value: a union of 2 types has no structural schema: only `X \| None`"),
        (_Wait, r"^Bad\.spec\.time: timedelta has no structural schema: use a str"),
        (_Pair, r"^Bad\.spec\.value: 'prefixItems' of Value has no structural schema: use a field of one type"),
    ],
)
def test_what_has_no_schema_is_refused(model: type, message: str) -> None:
    """A type without schema raises an error with the field's path and an alternative."""
    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Bad")
    base = Object[model, None]  # type: ignore[valid-type]
    bad = types.new_class("Bad", (base,), exec_body=lambda namespace: namespace.update(gvk=gvk))
    with pytest.raises(UsageError, match=message):
        crd_for(bad)
