"""Converts OpenAPI 3 documents to version 2, for kubectl and generators. Pure.

Upstream: k8s.io/kube-openapi/pkg/builder/openapi.go (v1.36).
"""

from __future__ import annotations

from opsdk.structured_merge.value import JsonObject, JsonValue

_REF = "#/components/schemas/"
_UNSAID = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable", "default"})
"""Keywords that version 2 lacks, or that its clients misinterpret."""
_SHAPE = ("type", "properties", "items", "additionalProperties", "required")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_GVK = "x-kubernetes-group-version-kind"


def definition(schema: JsonObject) -> JsonObject:
    """Convert a named schema."""
    if schema.get(_PRESERVE):
        # A schema that allows unknown fields has no properties in v2.
        return {"type": "object", _GVK: schema[_GVK]} if _GVK in schema else {"type": "object"}
    converted: JsonObject = _schema(schema)
    return converted


def _schema(schema: JsonValue) -> JsonValue:
    """Return an OpenAPI v3 schema as one of v2."""
    if not isinstance(schema, dict):
        return schema
    whole = schema.get("allOf")
    if isinstance(whole, list) and len(whole) == 1 and "$ref" in whole[0]:
        return _schema(whole[0])
    converted: JsonObject = {key: value for key, value in schema.items() if key not in _UNSAID}
    if isinstance(converted.get("$ref"), str):
        converted["$ref"] = converted["$ref"].replace(_REF, "#/definitions/")
    if isinstance(converted.get("properties"), dict):
        converted["properties"] = {name: _schema(inner) for name, inner in converted["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in converted:
            converted[key] = _schema(converted[key])
    if schema.get("nullable"):
        converted.pop("type", None)  # v2 has no null type
    for key in _SHAPE if schema.get(_PRESERVE) else ():
        converted.pop(key, None)
    return converted


def path_item(item: JsonObject) -> JsonObject:
    """Convert the operations of a path."""
    converted: JsonObject = {
        method: _operation(operation) for method, operation in item.items() if method != "parameters"
    }
    if "parameters" in item:
        converted["parameters"] = [_parameter(parameter) for parameter in item["parameters"]]
    return converted


def _operation(operation: JsonObject) -> JsonObject:
    """Return an OpenAPI v3 operation as one of v2, where the body is a parameter."""
    converted = {key: value for key, value in operation.items() if key != "requestBody"}
    answers = converted.get("responses", {})
    body = operation.get("requestBody") or {}
    converted["consumes"] = list(body.get("content") or ["*/*"])
    converted["produces"] = sorted({media for answer in answers.values() for media in answer.get("content") or ()})
    converted["schemes"] = ["https"]
    parameters = [_parameter(parameter) for parameter in converted.get("parameters", ())]
    for media in list(body.get("content", ()))[:1]:
        # In v2 the body is a parameter.
        required = {"required": True} if body.get("required") else {}
        parameters.insert(
            0, {"name": "body", "in": "body", **required, "schema": _schema(body["content"][media]["schema"])}
        )
    converted["parameters"] = parameters
    converted["responses"] = {}
    for code, answer in answers.items():
        response = {key: value for key, value in answer.items() if key != "content"}
        if answer.get("content"):
            response["schema"] = _schema(answer["content"]["application/json"]["schema"])
        converted["responses"][code] = response
    return converted


def _parameter(parameter: JsonObject) -> JsonObject:
    """Inline the schema; in v2 only body parameters have one."""
    converted = {key: value for key, value in parameter.items() if key != "schema"}
    return {**converted, **parameter.get("schema", {})}
