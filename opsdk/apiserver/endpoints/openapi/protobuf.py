"""Encode the OpenAPI v2 document as protobuf (``openapi.v2.Document``), which kubectl and helm request. Pure.

The encoder writes the fields that clients read: schemas, and paths with operations, query parameters and
extensions. kubectl checks there whether a kind supports ``fieldValidation``.

Upstream: github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto.
Deviates: the other parts of the document are left out.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

from opsdk.apiserver.serializer.protobuf_writer import chunk, varint
from opsdk.structured_merge.value import JsonValue

MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# The media types of client-go. One has an @, which is invalid in a media type, so responses use `MEDIA`.
_ASKED = (MEDIA, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def is_asked(accept: str) -> bool:
    """Report whether an Accept header requests the protobuf form."""
    return any(media in accept for media in _ASKED)


def encode_document(document: Mapping[str, JsonValue]) -> bytes:
    """Encode a v2 document."""
    info = document["info"]
    encoded = _text(1, document["swagger"])
    encoded += chunk(2, _text(1, info.get("title", "")) + _text(2, info.get("version", "")))
    paths: list[bytes] = []
    for path, item in document["paths"].items():
        operations = [chunk(number, _operation(item[name])) for name, number in _METHODS.items() if name in item]
        paths.append(chunk(2, _named_value(path, b"".join(operations))))
    schemas = b"".join(
        chunk(1, _named_value(name, _schema(schema))) for name, schema in document["definitions"].items()
    )
    return encoded + chunk(8, b"".join(paths)) + chunk(9, schemas)


def _operation(operation: Mapping[str, JsonValue]) -> bytes:
    encoded = _text(5, operation.get("operationId", ""))
    for parameter in operation.get("parameters", ()):
        if parameter.get("in") == "query":
            # ParametersItem -> Parameter -> NonBodyParameter -> QueryParameterSubSchema
            schema = _text(2, "query") + _text(4, parameter["name"]) + _text(6, "string")
            encoded += chunk(8, chunk(1, chunk(2, chunk(3, schema))))
    return encoded + _extensions(13, operation)


# ------------------------------------------------------------------ schemas
_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_FLAGS = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16}
_COUNTS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}


def _schema(schema: Mapping[str, JsonValue]) -> bytes:
    """Encode a ``Schema``; keywords that OpenAPI v2 lacks are omitted."""
    encoded = b"".join(_scalar(name, value) or _keyword(name, value) for name, value in schema.items())
    if "items" in schema:
        encoded += chunk(23, chunk(1, _schema(schema["items"])))
    if "properties" in schema:
        properties = (chunk(1, _named_value(name, _schema(part))) for name, part in schema["properties"].items())
        encoded += chunk(25, b"".join(properties))
    return encoded + _extensions(31, schema)


def _scalar(name: str, value: JsonValue) -> bytes:
    if name in _TEXTS:
        return _text(_TEXTS[name], value)
    if name in _DOUBLES:
        return varint(_DOUBLES[name] << 3 | 1) + struct.pack("<d", value)
    if name in _FLAGS or name in _COUNTS:
        return varint((_FLAGS.get(name) or _COUNTS[name]) << 3) + varint(int(value))
    return b""


def _keyword(name: str, value: JsonValue) -> bytes:
    """Return a keyword of a schema as protobuf; empty for one that gnostic does not know."""
    match name:
        case "default":
            return chunk(5, _any(value))
        case "required":
            return b"".join(_text(19, key) for key in value)
        case "enum":
            return b"".join(chunk(20, _any(one)) for one in value)
        case "additionalProperties" if isinstance(value, bool):
            return chunk(21, varint(2 << 3) + varint(value))
        case "additionalProperties":
            return chunk(21, chunk(1, _schema(value)))
        case "type":
            return chunk(22, _text(1, value))
        case "allOf":
            return b"".join(chunk(24, _schema(part)) for part in value)
        case _:
            return b""


def _extensions(number: int, holder: Mapping[str, JsonValue]) -> bytes:
    return b"".join(chunk(number, _named_value(k, _any(v))) for k, v in holder.items() if k.startswith("x-"))


def _any(value: JsonValue) -> bytes:
    """Encode a value as YAML, of which JSON is a subset."""
    return _text(2, json.dumps(value))


# ------------------------------------------------------------------ encoding
def _named_value(name: str, value: bytes) -> bytes:
    return _text(1, name) + chunk(2, value)


def _text(number: int, value: str) -> bytes:
    return chunk(number, value.encode()) if value else b""
