"""Decodes Kubernetes protobuf bodies to JSON values, by tables of messages. Pure.

A body is four magic bytes and a ``runtime.Unknown``, which holds the kind and the bytes of the object.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go (v1.36).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from opsdk.errors import DecodeError
from opsdk.structured_merge.value import JsonObject, JsonValue

MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
META = "k8s.io.apimachinery.pkg.apis.meta.v1"
VARINTS = frozenset({"int32", "int64", "uint32", "uint64", "bool"})


class ProtobufField(msgspec.Struct, frozen=True):
    """A field of a message; the type of a map is its key and value types with a comma between.

    The fields of an `inline` message are members of the outer JSON object.
    """

    name: str
    type: str
    repeated: bool = False
    map: bool = False
    inline: bool = False


Messages = Callable[[str], Mapping[int, ProtobufField] | None]
"""Returns the fields of a message by number; None for an unknown message."""


class RuntimeUnknown(msgspec.Struct, frozen=True):
    """The envelope ``runtime.Unknown``."""

    api_version: str
    kind: str
    raw: bytes


def _varint(data: bytes, at: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        if at >= len(data) or shift > 63:
            raise DecodeError("proto: unexpected end of a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _parts(data: bytes) -> Iterator[tuple[int, int, JsonValue]]:
    """Yield field number, wire type and value of each part."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        value: JsonValue
        match wire:
            case 0:
                value, position = _varint(data, position)
            case 1:
                value, position = data[position : position + 8], position + 8
            case 2:
                size, position = _varint(data, position)
                value, position = data[position : position + size], position + size
                if len(value) != size:
                    raise DecodeError("proto: unexpected end of a field")
            case 5:
                value, position = data[position : position + 4], position + 4
            case _:
                raise DecodeError(f"proto: illegal wire type {wire}")
        yield number, wire, value


def _chunk(value: JsonValue, field: str) -> bytes:
    """Return the value. Raises `DecodeError` unless it is bytes."""
    if isinstance(value, bytes):
        return value
    raise DecodeError(f"proto: wrong wireType = 0 for field {field}")


def _text(value: JsonValue, field: str) -> str:
    # Go strings may hold any bytes; its JSON encoder replaces invalid UTF-8.
    return _chunk(value, field).decode(errors="replace")


def _number(value: JsonValue, field: str) -> int:
    """Return a number as signed int64. Raises `DecodeError` for bytes."""
    if isinstance(value, int):
        return value - (1 << 64) if value >= 1 << 63 else value
    raise DecodeError(f"proto: wrong wireType = 2 for field {field}")


def envelope(body: bytes) -> RuntimeUnknown:
    """Decode the envelope of a body. Raises `DecodeError`."""
    if not body.startswith(MAGIC):
        raise DecodeError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    api_version = kind = ""
    raw = b""
    for number, _, value in _parts(body[len(MAGIC) :]):
        if number == 1:
            for inner, _, text in _parts(_chunk(value, "TypeMeta")):
                if inner == 1:
                    api_version = _text(text, "APIVersion")
                elif inner == 2:
                    kind = _text(text, "Kind")
        elif number == 2:
            raw = _chunk(value, "Raw")
    return RuntimeUnknown(api_version, kind, raw)


def _stamp(data: bytes, *, micro: bool) -> str | None:
    seconds = nanos = 0
    for number, _, value in _parts(data):
        if number == 1:
            seconds = _number(value, "Seconds")
        elif number == 2:
            nanos = _number(value, "Nanos")
    if not data:
        return None
    try:
        text = (_EPOCH + timedelta(seconds=seconds)).isoformat().removesuffix("+00:00")
    except OverflowError as error:
        raise DecodeError("Time.MarshalJSON: year outside of range [0,9999]") from error
    return f"{text}.{nanos // 1000:06d}Z" if micro else f"{text}Z"


def _int_or_string(data: bytes) -> JsonValue:
    fields = {number: value for number, _, value in _parts(data)}
    return _text(fields.get(3, b""), "StrVal") if fields.get(1) == 1 else _number(fields.get(2, 0), "IntVal")


def _raw_json(data: bytes) -> JsonValue:
    raw = next((value for number, _, value in _parts(data) if number == 1), b"")
    try:
        return json.loads(_chunk(raw, "Raw")) if raw else None
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"proto: a field holds no JSON: {error}") from error


def _items(data: bytes) -> list[str]:
    return [_text(value, "Items") for number, _, value in _parts(data) if number == 1]


_SPECIAL: Mapping[str, Callable[[bytes], JsonValue]] = {
    f"{META}.Time": lambda data: _stamp(data, micro=False),
    f"{META}.MicroTime": lambda data: _stamp(data, micro=True),
    f"{META}.Verbs": _items,
    f"{META}.FieldsV1": _raw_json,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda data: next(
        (_text(value, "String_") for number, _, value in _parts(data) if number == 1), ""
    ),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw_json,
}


class ProtobufReader:
    """Decodes messages by a table.

    Args:
        messages: returns the fields of a message by number.
        is_plain: reports whether a zero in a field of a message is omitted; otherwise it is kept.
    """

    def __init__(
        self, messages: Messages, is_plain: Callable[[str, str], bool] = lambda _message, _field: True
    ) -> None:
        self._messages = messages
        self._is_plain = is_plain

    def read(self, data: bytes, message: str) -> JsonObject:
        """Decode one message; unknown fields are skipped.

        Raises:
            DecodeError: the bytes are not this message.
        """
        try:
            return self._read(data, message)
        except RecursionError as error:
            raise DecodeError("proto: messages are nested too deeply") from error

    def _read(self, data: bytes, message: str) -> JsonObject:
        """Return a message as a tree. Unknown fields are skipped. Raises `DecodeError`."""
        fields = self._messages(message)
        if fields is None:
            raise DecodeError(f"proto: unknown message {message}")
        tree: JsonObject = {}
        for number, wire, raw in _parts(data):
            field = fields.get(number)
            if field is None:
                continue
            if field.map:
                key, value = self._entry(_chunk(raw, field.name), field.type)
                tree.setdefault(field.name, {})[key] = value
            elif field.repeated:
                tree.setdefault(field.name, []).extend(self._values(raw, wire, field))
            elif field.inline:
                tree.update(self._read(_chunk(raw, field.name), field.type))
            else:
                value = self._value(raw, field.type, field.name)
                if value or isinstance(value, (dict, str)) or not self._is_plain(message, field.name):
                    tree[field.name] = value
        return tree

    def _values(self, raw: JsonValue, wire: int, known: ProtobufField) -> Iterator[JsonValue]:
        """Yield one element, or all numbers of a packed field."""
        if wire != 2 or known.type not in VARINTS:
            yield self._value(raw, known.type, known.name)
            return
        position = 0
        while position < len(raw):
            value, position = _varint(raw, position)
            yield self._value(value, known.type, known.name)

    def _entry(self, raw: bytes, types: str) -> tuple[str, JsonValue]:
        _, _, kind = types.partition(",")
        key: str = ""
        value = self._value(0 if kind in VARINTS else b"", kind, "value")
        for number, _, part in _parts(raw):
            if number == 1:
                key = _text(part, "key")
            elif number == 2:
                value = self._value(part, kind, "value")
        return key, value

    def _value(self, raw: JsonValue, kind: str, field: str) -> JsonValue:
        """Return one value of a scalar, a message, or a type with a JSON form of its own."""
        if kind in VARINTS:
            return bool(_number(raw, field)) if kind == "bool" else _number(raw, field)
        data = _chunk(raw, field)
        match kind:
            case "string":
                return _text(data, field)
            case "bytes":
                return base64.b64encode(data).decode()
            case "double":
                if len(data) != 8:
                    raise DecodeError(f"proto: wrong wireType = 2 for field {field}")
                number = struct.unpack("<d", data)[0]
                # Go's JSON prints whole floats without a fraction below 1e21.
                return int(number) if number.is_integer() and abs(number) < 1e21 else number
        special = _SPECIAL.get(kind)
        return special(data) if special is not None else self._message(data, kind)

    def _message(self, raw: bytes, kind: str) -> JsonValue:
        """Return a message, with the forms of the types of CustomResourceDefinitions."""
        short = kind.rpartition(".")[2]
        if short == "JSON":
            return _raw_json(raw)
        if short == "ExtraValue":
            return _items(raw)
        if not short.startswith("JSONSchemaPropsOr"):
            return self._read(raw, kind)
        parts = list(_parts(raw))
        props = kind.replace(short, "JSONSchemaProps")
        schemas = [_chunk(v, "Schema") for n, _, v in parts if n == (2 if short == "JSONSchemaPropsOrBool" else 1)]
        match short:
            case "JSONSchemaPropsOrBool":
                return self._read(schemas[0], props) if schemas else any(v for n, _, v in parts if n == 1)
            case "JSONSchemaPropsOrArray":
                many: list[JsonValue] = [self._read(_chunk(v, "JSONSchemas"), props) for n, _, v in parts if n == 2]
            case _:
                many = [_text(v, "Property") for n, _, v in parts if n == 2]
        return many or self._read(schemas[0] if schemas else b"", props)
