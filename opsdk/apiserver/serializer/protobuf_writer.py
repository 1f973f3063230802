"""Encodes JSON values as Kubernetes protobuf, by tables of messages. Pure.

The encoder omits absent fields; a decoder takes the zero value for them.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go (v1.36).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from opsdk.apiserver.serializer.protobuf import MAGIC, META, VARINTS, Messages, ProtobufField
from opsdk.errors import EncodeError
from opsdk.structured_merge.value import JsonValue


def varint(value: int) -> bytes:
    """Encode a varint; negative numbers as two's complement of 64 bits."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_SMALL = [bytes([n]) for n in range(128)]


def chunk(number: int, value: bytes) -> bytes:
    """Encode a length-delimited field: a string or a message."""
    size = len(value)
    head = _SMALL[number << 3 | 2] if number < 16 else varint(number << 3 | 2)
    return head + (_SMALL[size] if size < 128 else varint(size)) + value


_ENVELOPE_END = chunk(3, b"") + chunk(4, b"")


def _text(number: int, value: str) -> bytes:
    # A lone surrogate has no UTF-8 form.
    return chunk(number, value.encode(errors="replace"))


def enveloped(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return a body: the magic bytes and a ``runtime.Unknown``."""
    head, tail = envelope_around(api_version, kind, len(raw))
    return head + raw + tail


def envelope_around(api_version: str, kind: str, size: int) -> tuple[bytes, bytes]:
    """Return what comes before and after the `size` bytes of a message in its body."""
    meta = _text(1, api_version) + _text(2, kind)
    return MAGIC + chunk(1, meta) + _SMALL[2 << 3 | 2] + varint(size), _ENVELOPE_END


def watch_frame(kind: str, body: bytes) -> bytes:
    """Return one watch event: its length in four bytes, then a ``WatchEvent`` with an enveloped object."""
    event = _text(1, kind) + chunk(2, chunk(1, body))
    return len(event).to_bytes(4, "big") + event


def _stamp(text: str) -> bytes:
    moment = datetime.fromisoformat(text).astimezone(UTC)
    seconds, nanos = int(moment.timestamp() // 1), moment.microsecond * 1000
    return varint(1 << 3) + varint(seconds) + varint(2 << 3) + varint(nanos)


def _int_or_string(value: int | str) -> bytes:
    number = isinstance(value, int)
    encoded = varint(1 << 3) + varint(0 if number else 1) + varint(2 << 3) + varint(int(value) if number else 0)
    return encoded + _text(3, "" if number else str(value))


def _raw_json(value: JsonValue) -> bytes:
    # In Go, a null cannot be a string.
    return b"" if value is None else _text(1, json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _items(value: list[str]) -> bytes:
    return b"".join(_text(1, item) for item in value)


_SPECIAL: Mapping[str, Callable[[JsonValue], bytes]] = {
    f"{META}.Time": _stamp,
    f"{META}.MicroTime": _stamp,
    f"{META}.Verbs": _items,
    f"{META}.FieldsV1": _raw_json,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda value: _text(1, str(value)),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw_json,
}
_SPECIAL_SHORT: Mapping[str, Callable[[JsonValue], bytes]] = {"JSON": _raw_json, "ExtraValue": _items}


Encode = Callable[[JsonValue], bytes]
"""Encodes a value as a field, or a list as a repeated field."""


class ProtobufWriter:
    """Encodes messages by a table of their fields. The encoder of a message is built once."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._known: dict[str, _Message] = {}

    def write(self, tree: Mapping[str, JsonValue], message: str) -> bytes:
        """Encode one message, with its fields in numerical order.

        Raises:
            EncodeError: the message is unknown, or a value does not fit its field.
        """
        compiled = self._known.get(message)
        if compiled is None:
            table = self._messages(message)
            if table is None:
                raise EncodeError(f"proto: unknown message {message}")
            encoders = {f.name: (number, self._field(number, f)) for number, f in table.items() if not f.inline}
            inline = tuple((number, f.type) for number, f in table.items() if f.inline)
            compiled = self._known[message] = _Message(encoders, inline)
        chunks = [(number, chunk(number, self.write(tree, kind))) for number, kind in compiled.inline]
        fields = compiled.fields
        for name, value in tree.items():
            field = fields.get(name)
            if field is not None and value is not None:
                try:
                    chunks.append((field[0], field[1](value)))
                except (TypeError, ValueError, AttributeError) as error:
                    raise EncodeError(f"proto: {message}.{name} cannot be {value!r}") from error
        chunks.sort()
        return b"".join([part for _, part in chunks])

    def _field(self, number: int, known: ProtobufField) -> Encode:
        """Return the function that encodes a field: a map, a list, or one value."""
        if known.map:
            kind = known.type.partition(",")[2]
            one = self._single_field(2, kind)
            # A null map value is encoded as an empty value.
            empty = varint(2 << 3) + varint(0) if kind in VARINTS else chunk(2, b"")

            def write(value: Mapping[str, JsonValue]) -> bytes:
                parts = ((key, value[key]) for key in sorted(value))
                return b"".join(chunk(number, _text(1, k) + (empty if v is None else one(v))) for k, v in parts)

            return write
        one = self._single_field(number, known.type)
        if known.repeated:
            return lambda value: b"".join(map(one, value))
        return one

    def _single_field(self, number: int, kind: str) -> Encode:
        tag = varint(number << 3)
        if kind in VARINTS:
            return lambda value: tag + varint(int(value))
        match kind:
            case "double":
                return lambda value: varint(number << 3 | 1) + struct.pack("<d", value)
            case "string":
                return lambda value: _text(number, value)
            case "bytes":
                return lambda value: chunk(number, base64.b64decode(value))
        message = self._message(kind)
        return lambda value: chunk(number, message(value))

    def _message(self, kind: str) -> Encode:
        package, _, short = kind.rpartition(".")
        special = _SPECIAL.get(kind) or _SPECIAL_SHORT.get(short)
        if special is not None:
            return special
        if short.startswith("JSONSchemaPropsOr"):
            return lambda value: self._schema_or_value(f"{package}.JSONSchemaProps", short, value)
        return lambda value: self.write(value, kind)

    def _schema_or_value(self, props: str, short: str, value: JsonValue) -> bytes:
        match value:
            case bool():
                return varint(1 << 3) + varint(value)
            case dict() if short == "JSONSchemaPropsOrBool":
                return varint(1 << 3) + varint(True) + chunk(2, self.write(value, props))
            case dict():
                return chunk(1, self.write(value, props))
            case _ if short == "JSONSchemaPropsOrArray":
                return b"".join(chunk(2, self.write(item, props)) for item in value)
        return b"".join(_text(2, item) for item in value)


class _Message(msgspec.Struct, frozen=True):
    """The encoder of a message."""

    fields: Mapping[str, tuple[int, Encode]]
    inline: tuple[tuple[int, str], ...]
    """Numbers and messages of the inlined fields."""
