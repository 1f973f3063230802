"""Form inputs of the page."""

from __future__ import annotations

import yaml
from normankit import V3

from opsdk.norman.model import Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Field
from opsdk.norman.web.cells import form_yaml, inputs_of


def test_the_editor_of_a_nested_object_starts_with_what_the_object_needs() -> None:
    """The editor of a required object has its required fields; that of an optional one is empty."""
    schemas = SchemaRegistry()
    port = {"number": Field(type="int", required=True), "protocol": Field(type="string", required=True, default="TCP")}
    schemas.add(Schema(id="port", version=V3, resource_fields=port))
    listener = {
        "host": Field(type="string", required=True),
        "ports": Field(type="array[port]", required=True),
        "parent": Field(type="listener", required=True),
        "certificateId": Field(type="reference[port]", required=True),
        "note": Field(type="string"),
        "state": Field(type="string", required=True, create=False),
    }
    schemas.add(Schema(id="listener", version=V3, resource_fields=listener))
    fields = {
        "name": Field(type="string"),
        "spare": Field(type="listener"),
        "byName": Field(type="map[listener]"),
        "main": Field(type="listener", required=True),
        "all": Field(type="array[listener]", required=True),
    }
    site = schemas.add(Schema(id="site", version=V3, resource_fields=fields))
    outline = "host:\nports:\n- number:\n  protocol: TCP\nparent:\ncertificateId:\n"
    inputs = {each.name: each for each in inputs_of(schemas, site, {}, create=True)}
    assert list(inputs) == ["main", "all", "name", "spare", "byName"]
    assert [inputs["spare"].value, inputs["spare"].placeholder] == ["", outline]
    assert [inputs["main"].value, inputs["main"].placeholder] == [outline, ""]
    assert yaml.safe_load(inputs["all"].value) == [yaml.safe_load(outline)]
    assert inputs["byName"].placeholder == inputs["name"].placeholder == ""
    edited = {each.name: each.value for each in inputs_of(schemas, site, {"main": {"host": "a"}}, create=False)}
    assert (edited["main"], edited["all"]) == (form_yaml({"host": "a"}), "")
