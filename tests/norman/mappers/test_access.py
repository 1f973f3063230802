"""Mappers that change only declarations."""

from __future__ import annotations

import pytest

from opsdk.errors import UsageError
from opsdk.norman.mappers.access import Access, ChangeTypeMapper, EnumMapper, ReadOnly, Required
from opsdk.norman.model import Mapper
from tests.norman.mappers.kit import NO_SCHEMAS, registry, schema


def test_access_sets_the_permissions_of_fields() -> None:
    """c, u and o set create, update and write-only; a missing letter takes the permission away."""
    site = schema(name="string", secret="password", size="int")
    Access(fields={"name": "cr", "secret": "cuo", "size": ""}).modify_schema(site, NO_SCHEMAS)
    permissions = {n: (f.create, f.update, f.write_only) for n, f in site.resource_fields.items()}
    assert permissions == {"name": (True, False, False), "secret": (True, True, True), "size": (False, False, False)}


def test_optional_access_skips_missing_fields() -> None:
    """Without `optional` a missing field is an error, and so is an unknown letter."""
    Access(fields={"missing": "c"}, optional=True).modify_schema(schema(), NO_SCHEMAS)
    with pytest.raises(UsageError, match="field missing missing"):
        Access(fields={"missing": "c"}).modify_schema(schema(), NO_SCHEMAS)
    with pytest.raises(UsageError, match=r"letters \['x'\]"):
        Access(fields={"name": "cx"}).modify_schema(schema(name="string"), NO_SCHEMAS)


def test_types_options_and_required() -> None:
    """ChangeTypeMapper sets the type, EnumMapper type and options, Required the flag."""
    site = schema(name="string", color="string")
    ChangeTypeMapper(field="name", type="dnsLabel").modify_schema(site, NO_SCHEMAS)
    EnumMapper(field="color", options=("red", "blue")).modify_schema(site, NO_SCHEMAS)
    Required(fields=("name",)).modify_schema(site, NO_SCHEMAS)
    name, color = site.resource_fields["name"], site.resource_fields["color"]
    assert (name.type, name.required, color.required) == ("dnsLabel", True, False)
    assert (color.type, color.options) == ("enum", ("red", "blue"))
    with pytest.raises(UsageError, match="does not parse"):
        ChangeTypeMapper(field="name", type="array[").modify_schema(site, NO_SCHEMAS)


@pytest.mark.parametrize(
    "mapper",
    [
        ChangeTypeMapper(field="missing", type="int"),
        EnumMapper(field="missing", options=()),
        ReadOnly(field="missing"),
        Required(fields=("missing",)),
    ],
)
def test_a_missing_field_is_an_error(mapper: Mapper) -> None:
    """Every mapper of declarations names the field that the schema lacks."""
    with pytest.raises(UsageError, match="field missing missing on schema site"):
        mapper.modify_schema(schema(name="string"), NO_SCHEMAS)


def test_read_only_reaches_fields_and_their_fields() -> None:
    """``*`` means all fields; `sub_fields` the fields of the nested schema too; `optional` a missing field."""
    status, site = schema("status", phase="string"), schema(status="status", name="string")
    ReadOnly(field="missing", optional=True).modify_schema(site, NO_SCHEMAS)
    ReadOnly(field="status", sub_fields=True).modify_schema(site, registry(status))
    assert not status.resource_fields["phase"].update
    assert not site.resource_fields["status"].create
    assert site.resource_fields["name"].create
    ReadOnly(field="*").modify_schema(site, NO_SCHEMAS)
    assert not any(field.create or field.update for field in site.resource_fields.values())
