"""The protobuf form of the OpenAPI v2 document."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from server_caller import Caller

import envtest
from opsdk.apiserver.endpoints.openapi.protobuf import MEDIA, encode_document
from opsdk.apiserver.serializer.protobuf_writer import varint
from opsdk.structured_merge.value import JsonObject

_TEXTS = {1: "$ref", 2: "format", 3: "title", 4: "description", 13: "pattern"}
_DOUBLES = {6: "multipleOf", 7: "maximum", 9: "minimum"}
_FLAGS = {8: "exclusiveMaximum", 10: "exclusiveMinimum", 16: "uniqueItems"}
_COUNTS = {11: "maxLength", 12: "minLength", 14: "maxItems", 15: "minItems", 17: "maxProperties", 18: "minProperties"}


def number_at(raw: bytes, at: int) -> tuple[int, int]:
    """A varint and what follows it."""
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message as they come."""
    position = 0
    while position < len(raw):
        tag, position = number_at(raw, position)
        match tag & 7:
            case 0:
                value, position = number_at(raw, position)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, struct.unpack("<d", raw[position : position + 8])[0]
                position += 8
            case _:
                size, position = number_at(raw, position)
                yield tag >> 3, raw[position : position + size]
                position += size


def one(raw: bytes, number: int) -> Any:
    """The only field of its number."""
    (result,) = (value for field, value in fields(raw) if field == number)
    return result


def named(raw: bytes) -> tuple[str, bytes]:
    """A NamedAny, NamedSchema, NamedPathItem; what is empty is not written."""
    result = dict(fields(raw))
    return result[1].decode(), result.get(2, b"")


def value_of(raw: bytes) -> Any:
    """An Any given as YAML."""
    return json.loads(one(raw, 2))


def schema_of(raw: bytes) -> JsonObject:
    """A Schema read back."""
    tree: JsonObject = {}
    for number, value in fields(raw):
        if number in _TEXTS:
            tree[_TEXTS[number]] = value.decode()
        elif number in _DOUBLES or number in _COUNTS:
            tree[_DOUBLES.get(number) or _COUNTS[number]] = value
        elif number in _FLAGS:
            tree[_FLAGS[number]] = bool(value)
        elif number == 5:
            tree["default"] = value_of(value)
        elif number == 19:
            tree.setdefault("required", []).append(value.decode())
        elif number == 20:
            tree.setdefault("enum", []).append(value_of(value))
        elif number == 21:
            inner = dict(fields(value))
            tree["additionalProperties"] = bool(inner[2]) if 2 in inner else schema_of(inner[1])
        elif number == 22:
            tree["type"] = one(value, 1).decode()
        elif number == 23:
            tree["items"] = schema_of(one(value, 1))
        elif number == 24:
            tree.setdefault("allOf", []).append(schema_of(value))
        elif number == 25:
            tree["properties"] = {k: schema_of(v) for k, v in (named(part) for _, part in fields(value))}
        elif number == 31:
            name, text = named(value)
            tree[name] = value_of(text)
        else:
            raise AssertionError(number)
    return tree


def definitions(raw: bytes) -> dict[str, JsonObject]:
    """The schemas of a document by name."""
    return {k: schema_of(v) for k, v in (named(part) for _, part in fields(one(raw, 9)))}


_WORDS = st.text(min_size=1, max_size=5)
_JSON = st.one_of(st.booleans(), st.integers(-9, 9), _WORDS, st.lists(_WORDS, max_size=2))
_PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "object", "array"]),
        "format": _WORDS,
        "description": _WORDS,
        "pattern": _WORDS,
        "maximum": st.floats(allow_nan=False),
        "minLength": st.integers(0, 2**40),
        "uniqueItems": st.booleans(),
        "default": _JSON,
        "enum": st.lists(_JSON, min_size=1, max_size=3),
        "required": st.lists(_WORDS, min_size=1, max_size=3),
        "$ref": _WORDS,
        "additionalProperties": st.booleans(),
        "x-kubernetes-list-type": _WORDS,
        "x-kubernetes-group-version-kind": st.just([{"group": "", "version": "v1", "kind": "Pod"}]),
    },
)
_SCHEMAS = st.recursive(
    _PLAIN,
    lambda inner: st.tuples(
        _PLAIN,
        st.fixed_dictionaries(
            {},
            optional={
                "items": inner,
                "properties": st.dictionaries(_WORDS, inner, max_size=3),
                "allOf": st.lists(inner, min_size=1, max_size=2),
                "additionalProperties": inner,
            },
        ),
    ).map(lambda pair: {**pair[0], **pair[1]}),
    max_leaves=8,
)


@given(st.dictionaries(_WORDS, _SCHEMAS, max_size=3))
def test_schemas_can_be_read_back(schemas: JsonObject) -> None:
    """A v2 schema survives the protobuf round trip."""
    document = {"swagger": "2.0", "info": {"title": "t"}, "paths": {}, "definitions": schemas}
    assert definitions(encode_document(document)) == schemas


def test_small_numbers_are_read_as_they_were_written() -> None:
    """The reader of this test agrees with the writer on numbers."""
    assert [number_at(varint(n), 0)[0] for n in (0, 1, 127, 128, 2**40)] == [0, 1, 127, 128, 2**40]


async def test_both_forms_say_the_same() -> None:
    """The protobuf document has the schemas of the JSON document; query parameters are not bodies."""
    async with envtest.Environment() as env:
        binary = await Caller(env)("GET", "/openapi/v2", accept=MEDIA)
        text = (await Caller(env)("GET", "/openapi/v2")).json
        assert definitions(binary.raw) == text["definitions"]
        body, pod, *_ = text["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["delete"]["parameters"]
        assert body["in"] == "body"
        assert pod == {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": True}
        usages = text["definitions"]["io.k8s.api.certificates.v1.CertificateSigningRequestSpec"]["properties"]["usages"]
        assert "client auth" in usages["items"]["enum"]
