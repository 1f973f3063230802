"""Schema definitions: the fields of a type, from the OpenAPI document of its group.

Upstream: github.com/rancher/steve/pkg/schema/definitions/converter.go, visitor.go, schema.go
Deviates: read from OpenAPI v3, which the server changes with a CustomResourceDefinition; steve reads v2.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from opsdk.norman.codes import ErrorCode
from opsdk.norman.steve.cluster_schemas import SteveSchema
from opsdk.rest.request import RestRequest
from opsdk.rest.response import raise_for_status
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JsonObject

_REFERENCE = "#/components/schemas/"
_KINDS = "x-kubernetes-group-version-kind"
_SIMPLE = {"integer": "int", "number": "float", "boolean": "boolean", "string": "string"}


async def definitions_of(transport: Transport, schema: SteveSchema) -> JsonObject:
    """Return the definitions of a type. Raises `NormanError` (404) if the document has no such kind."""
    group = f"apis/{schema.group}/{schema.version}" if schema.group else f"api/{schema.version}"
    request = RestRequest("GET", f"/openapi/v3/{group}", headers={"Accept": "application/json"})
    response = await transport.send(request)
    raise_for_status(response, request)
    components = (msgspec.json.decode(response.body).get("components") or {}).get("schemas") or {}
    name = _component_of(components, schema)
    if name is None:
        raise ErrorCode.NOT_FOUND.error(f"the OpenAPI document of {group} has no kind {schema.kind}")
    return {"definitionType": name, "definitions": convert(components, name)}


def _component_of(components: Mapping[str, JsonObject], schema: SteveSchema) -> str | None:
    """Return the name of the component of a kind."""
    kind = {"group": schema.group, "version": schema.version, "kind": schema.kind}
    return next((name for name, component in components.items() if kind in (component.get(_KINDS) or ())), None)


def convert(components: Mapping[str, JsonObject], root: str) -> dict[str, JsonObject]:
    """Return the definitions of a component and of all that it refers to.

    >>> definitions = convert({"a": {"properties": {"size": {"type": "integer"}}, "required": ["size"]}}, "a")
    >>> definitions["a"]["resourceFields"]
    {'size': {'type': 'int', 'required': True}}
    """
    definitions: dict[str, JsonObject] = {}
    waiting = [(root, components.get(root) or {})]
    while waiting:
        name, component = waiting.pop()
        if name in definitions:
            continue
        required = component.get("required") or ()
        fields: JsonObject = {}
        definitions[name] = {"type": name, "resourceFields": fields, "description": component.get("description", "")}
        for field, own in (component.get("properties") or {}).items():
            field_type, inner = _field(f"{name}.{field}", own, components)
            if inner is not None:
                waiting.append(inner)
            if own.get("description"):
                field_type["description"] = own["description"]
            if field in required:
                field_type["required"] = True
            fields[field] = field_type
    return definitions


Inner = tuple[str, JsonObject] | None


def _field(path: str, schema: JsonObject, components: Mapping[str, JsonObject]) -> tuple[JsonObject, Inner]:
    """Return the type of a field, and the definition that it refers to."""
    options = schema.get("allOf") or []
    reference = schema.get("$ref") or (options[0].get("$ref") if len(options) == 1 else None)
    if reference:
        name = str(reference).removeprefix(_REFERENCE)
        component = components.get(name) or {}
        if not component.get("properties"):
            return {"type": _SIMPLE.get(component.get("type", ""), "string")}, None
        return {"type": name}, (name, component)
    if schema.get("type") == "array":
        field_type, inner = _field(path, schema.get("items") or {}, components)
        return {"type": "array", "subtype": field_type["type"]}, inner
    if schema.get("properties"):
        return {"type": path}, (path, schema)
    if schema.get("type") == "object" or "additionalProperties" in schema:
        values = schema.get("additionalProperties")
        field_type, inner = _field(path, values if isinstance(values, dict) else {}, components)
        return {"type": "map", "subtype": field_type["type"]}, inner
    return {"type": _SIMPLE.get(schema.get("type", ""), "string")}, None
