"""Mappers that change values."""

from __future__ import annotations

import pytest

from opsdk.errors import UsageError
from opsdk.norman.mappers.values import AnnotationField, Base64, JsonEncode, LabelField, PendingStatus, SetValue
from opsdk.norman.model import Mapper
from tests.norman.mappers.kit import NO_SCHEMAS, inward, outward, registry, round_trip, schema, types


def test_a_field_is_kept_in_an_annotation() -> None:
    """The annotation is ``field.cattle.io/<field>``; JSON is decoded if declared; null removes it."""
    text, structured = AnnotationField(field="note"), AnnotationField(field="note", object=True, list=True)
    internal = {"annotations": {"field.cattle.io/note": '{"a":1}'}}
    assert outward(text, internal) == {"annotations": {}, "note": '{"a":1}'}
    assert outward(structured, internal) == {"annotations": {}, "note": {"a": 1}}
    assert inward(structured, {"note": ["a"]}) == {"annotations": {"field.cattle.io/note": '["a"]'}}
    assert inward(text, {"note": None}) == {}
    assert inward(text, {"note": 5}) == {"annotations": {"field.cattle.io/note": "5"}}
    assert outward(structured, {"annotations": {"field.cattle.io/note": "{"}}) == {"annotations": {}, "note": "{"}


def test_a_field_is_kept_in_a_label() -> None:
    """The label is ``field.cattle.io/<field>``, and the field is not stored twice."""
    assert outward(LabelField(field="note"), {"labels": {"field.cattle.io/note": "x"}}) == {"labels": {}, "note": "x"}
    assert inward(LabelField(field="note"), {"note": "x"}) == {"labels": {"field.cattle.io/note": "x"}}


def test_base64_is_decoded_outward() -> None:
    """Text that is not base64 of UTF-8 is shown as it is, and encoded inward: that is lost."""
    mapper = Base64(field="data.key", separator=".")
    assert outward(mapper, {"data": {"key": "w6Q="}}) == {"data": {"key": "ä"}}
    assert inward(mapper, {"data": {"key": "ä"}}) == {"data": {"key": "w6Q="}}
    for value in ("no base64!", "/w=="):
        assert outward(mapper, {"data": {"key": value}}) == {"data": {"key": value}}
        assert round_trip(mapper, {"data": {"key": value}}) != {"data": {"key": value}}
    assert round_trip(mapper, {"data": {"key": None}}) == {"data": {"key": None}}


def test_json_is_a_text_inside() -> None:
    """Strings of JSON objects and lists are decoded; other strings stay; white space is lost."""
    site = schema(config="string")
    mapper = JsonEncode(field="config")
    mapper.modify_schema(site, NO_SCHEMAS)
    assert types(site) == {"config": "json"}
    assert outward(mapper, {"config": '{"b": 1, "a": [2]}'}) == {"config": {"b": 1, "a": [2]}}
    assert round_trip(mapper, {"config": '{"b": 1, "a": [2]}'}) == {"config": '{"b":1,"a":[2]}'}
    assert outward(mapper, {"config": "5"}) == {"config": "5"}
    assert inward(mapper, {"config": None}) == {}
    nested, spec = schema(spec="spec"), schema("spec", config="string")
    JsonEncode(field="spec/config").modify_schema(nested, registry(spec))
    assert types(spec) == {"config": "json"}
    JsonEncode(field="a", ignore_definition=True).modify_schema(schema(), NO_SCHEMAS)


def test_a_constant_is_set_outward_and_undone_inward() -> None:
    """A constant is set always, or if a field has a value; the schema must declare both fields."""
    always = SetValue(field="state", value="active")
    assert outward(always, {}) == {"state": "active"}
    assert inward(always, {"state": "active"}) == {}
    paused = SetValue(field="spec/paused", to="state", value="paused", if_eq=True)
    assert outward(paused, {"spec": {"paused": True}})["state"] == "paused"
    assert outward(paused, {"spec": {"paused": False}}) == {"spec": {"paused": False}}
    assert inward(paused, {"state": "paused"})["spec"] == {"paused": True}
    schemas = registry(schema("spec", paused="boolean"))
    paused.modify_schema(schema(state="string", spec="spec"), schemas)
    for site in (schema(spec="spec"), schema(state="string")):
        with pytest.raises(UsageError, match="missing on schema site"):
            paused.modify_schema(site, schemas)
    SetValue(field="x", value=1, ignore_definition=True).modify_schema(schema(), NO_SCHEMAS)


def test_what_a_conditional_constant_loses() -> None:
    """A field that has the shown value already is taken for the mapped one."""
    assert round_trip(SetValue(field="a", value="on", if_eq="yes"), {"a": "on"}) == {"a": "yes"}


def test_an_object_without_conditions_is_pending() -> None:
    """Only active becomes pending, and pending stays inward."""
    mapper = PendingStatus()
    assert round_trip(mapper, {"state": "active"}) == {"state": "pending"}
    with_conditions = {"state": "active", "status": {"conditions": [{"type": "Ready"}]}}
    assert outward(mapper, with_conditions) == with_conditions
    assert outward(mapper, {"state": "error"}) == {"state": "error"}


@pytest.mark.parametrize(
    "mapper",
    [AnnotationField(field="a"), LabelField(field="a"), Base64(field="a"), JsonEncode(field="a"), SetValue(field="a")],
)
def test_the_schema_must_have_the_field(mapper: Mapper) -> None:
    """A mapper of a value names the field that the schema lacks."""
    with pytest.raises(UsageError, match="field a missing on schema site"):
        mapper.modify_schema(schema(), NO_SCHEMAS)
