"""From OpenAPI 3 to 2, as far as kubectl and generators look. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opsdk.structured_merge.value import JsonObject

_REF = "#/components/schemas/"
_UNSAID = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable", "default"})
"""Keywords that version 2 does not have, or that its readers take for something else."""
_SHAPE = ("type", "properties", "items", "additionalProperties", "required")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_GVK = "x-kubernetes-group-version-kind"


def definition(schema: JsonObject) -> JsonObject:
    """A schema with a name."""
    if schema.get(_PRESERVE):
        # Who allows anything at all has nothing that could be looked up.
        return {"type": "object", _GVK: schema[_GVK]} if _GVK in schema else {"type": "object"}
    made: JsonObject = _schema(schema)
    return made


def _schema(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    whole = schema.get("allOf")
    if isinstance(whole, list) and len(whole) == 1 and "$ref" in whole[0]:
        return _schema(whole[0])
    made: JsonObject = {key: value for key, value in schema.items() if key not in _UNSAID}
    if isinstance(made.get("$ref"), str):
        made["$ref"] = _reference(made["$ref"])
    if isinstance(made.get("properties"), dict):
        made["properties"] = {name: _schema(inner) for name, inner in made["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = _schema(made[key])
    if schema.get("nullable"):
        made.pop("type", None)  # null is no value of any type there
    for key in _SHAPE if schema.get(_PRESERVE) else ():
        made.pop(key, None)
    return made


def _reference(target: str) -> str:
    return target.replace(_REF, "#/definitions/")


def path_item(item: JsonObject) -> JsonObject:
    """The operations on one path."""
    made: JsonObject = {method: _operation(operation) for method, operation in item.items() if method != "parameters"}
    if "parameters" in item:
        made["parameters"] = [_parameter(parameter) for parameter in item["parameters"]]
    return made


def _operation(operation: JsonObject) -> JsonObject:
    made = {key: value for key, value in operation.items() if key != "requestBody"}
    answers = made.get("responses", {})
    body = operation.get("requestBody") or {}
    made["consumes"] = list(body.get("content") or ["*/*"])
    made["produces"] = sorted({media for answer in answers.values() for media in answer.get("content") or ()})
    made["schemes"] = ["https"]
    made["parameters"] = [*_body(body), *(_parameter(parameter) for parameter in made.get("parameters", ()))]
    made["responses"] = {code: _response(answer) for code, answer in answers.items()}
    return made


def _body(body: JsonObject) -> Iterator[JsonObject]:
    """The body is a parameter there."""
    for media in list(body.get("content", ()))[:1]:
        required = {"required": True} if body.get("required") else {}
        yield {"name": "body", "in": "body", **required, "schema": _schema(body["content"][media]["schema"])}


def _parameter(parameter: JsonObject) -> JsonObject:
    """Only bodies have schemas there."""
    made = {key: value for key, value in parameter.items() if key != "schema"}
    return {**made, **parameter.get("schema", {})}


def _response(answer: JsonObject) -> JsonObject:
    made = {key: value for key, value in answer.items() if key != "content"}
    content = answer.get("content") or {}
    if content:
        made["schema"] = _schema(content["application/json"]["schema"])
    return made
