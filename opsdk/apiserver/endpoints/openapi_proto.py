"""The OpenAPI v2 document in its protobuf form (``openapi.v2.Document``), which kubectl asks for. Pure.

Only what clients read is encoded: paths with their operations, query parameters and extensions. kubectl looks there
whether a kind takes ``fieldValidation``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from opsdk.apiserver.protobuf_writer import chunk

MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients ask for. The @ is not allowed in a media type, so it is never answered.
_ASKED = (MEDIA, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def is_asked(accept: str) -> bool:
    """Whether an Accept header names the protobuf form."""
    return any(media in accept for media in _ASKED)


def encode_document(document: Mapping[str, Any]) -> bytes:
    """The bytes of a v2 document."""
    info = document["info"]
    made = _text(1, document["swagger"])
    made += chunk(2, _text(1, info.get("title", "")) + _text(2, info.get("version", "")))
    paths = b"".join(chunk(2, _named(path, _path_item(item))) for path, item in document["paths"].items())
    return made + chunk(8, paths)


def _path_item(item: Mapping[str, Any]) -> bytes:
    return b"".join(chunk(number, _operation(item[name])) for name, number in _METHODS.items() if name in item)


def _operation(operation: Mapping[str, Any]) -> bytes:
    made = _text(5, operation.get("operationId", ""))
    made += b"".join(chunk(8, _query_parameter(p)) for p in operation.get("parameters", ()) if p.get("in") == "query")
    return made + b"".join(chunk(13, e) for e in _extensions(operation))


def _query_parameter(parameter: Mapping[str, Any]) -> bytes:
    """ParametersItem -> Parameter -> NonBodyParameter -> QueryParameterSubSchema."""
    schema = _text(2, "query") + _text(4, parameter["name"]) + _text(6, "string")
    return chunk(1, chunk(2, chunk(3, schema)))


def _extensions(operation: Mapping[str, Any]) -> Iterator[bytes]:
    """NamedAny, whose value is given as YAML; JSON is YAML."""
    for name, value in operation.items():
        if name.startswith("x-"):
            yield _named(name, _text(2, json.dumps(value)))


# ------------------------------------------------------------------ the wire
def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + chunk(2, value)


def _text(number: int, value: str) -> bytes:
    return chunk(number, value.encode()) if value else b""
