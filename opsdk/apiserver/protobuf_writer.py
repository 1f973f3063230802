"""Writes JSON trees as Kubernetes' protobuf, by tables of messages; `opsdk.apiserver.protobuf` is the way back. Pure.

What is nothing in a tree is not written. Readers take a field that is missing for its zero, so they see the same.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from opsdk.apiserver.protobuf import MAGIC, META, VARINTS, Field, Messages
from opsdk.errors import EncodeError


def varint(value: int) -> bytes:
    """Seven bits to a byte; what is negative counts from 2**64 down."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def chunk(number: int, value: bytes) -> bytes:
    """A field of bytes: a text or a message."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    # Half of a surrogate pair has no bytes.
    return chunk(number, value.encode(errors="replace"))


def enveloped(api_version: str, kind: str, raw: bytes) -> bytes:
    """A body: the magic bytes and a ``runtime.Unknown``."""
    meta = _text(1, api_version) + _text(2, kind)
    return MAGIC + chunk(1, meta) + chunk(2, raw) + chunk(3, b"") + chunk(4, b"")


def watch_frame(kind: str, body: bytes) -> bytes:
    """One event of a stream: its length in four bytes, then a ``WatchEvent`` with an enveloped object."""
    event = _text(1, kind) + chunk(2, chunk(1, body))
    return len(event).to_bytes(4, "big") + event


def _stamp(text: str) -> bytes:
    moment = datetime.fromisoformat(text).astimezone(UTC)
    seconds, nanos = int(moment.timestamp() // 1), moment.microsecond * 1000
    return varint(1 << 3) + varint(seconds) + varint(2 << 3) + varint(nanos)


def _int_or_string(value: int | str) -> bytes:
    number = isinstance(value, int)
    shown = varint(1 << 3) + varint(0 if number else 1) + varint(2 << 3) + varint(int(value) if number else 0)
    return shown + _text(3, "" if number else str(value))


def _raw_json(value: Any) -> bytes:
    return _text(1, json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _items(value: list[str]) -> bytes:
    return b"".join(_text(1, item) for item in value)


_SPECIAL: Mapping[str, Callable[[Any], bytes]] = {
    f"{META}.Time": _stamp,
    f"{META}.MicroTime": _stamp,
    f"{META}.Verbs": _items,
    f"{META}.FieldsV1": _raw_json,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda value: _text(1, str(value)),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw_json,
}
_SPECIAL_SHORT: Mapping[str, Callable[[Any], bytes]] = {"JSON": _raw_json, "ExtraValue": _items}


class Writer:
    """Writes messages by a table: the fields of a message by their numbers."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def write(self, tree: Mapping[str, Any], message: str) -> bytes:
        """The bytes of one message, fields in the order of their numbers.

        Raises:
            EncodeError: the table does not know the message, or a value does not fit its field.
        """
        fields = self._messages(message)
        if fields is None:
            raise EncodeError(f"proto: unknown message {message}")
        made = []
        for number in sorted(fields):
            known = fields[number]
            if known.inline:
                made.append(chunk(number, self.write(tree, known.type)))
            elif (value := tree.get(known.name)) is not None:
                try:
                    made.extend(self._field(number, known, value))
                except (TypeError, ValueError, AttributeError) as error:
                    raise EncodeError(f"proto: {message}.{known.name} cannot be {value!r}") from error
        return b"".join(made)

    def _field(self, number: int, known: Field, value: Any) -> Iterator[bytes]:
        if known.map:
            _, _, kind = known.type.partition(",")
            for key in sorted(value):
                yield chunk(number, _text(1, key) + self._in_map(kind, value[key]))
        elif known.repeated:
            for item in value:
                yield self._one(number, known.type, item)
        else:
            yield self._one(number, known.type, value)

    def _in_map(self, kind: str, value: Any) -> bytes:
        """A value of a map: what is null there is there all the same, and empty."""
        if value is None:
            return varint(2 << 3) + varint(0) if kind in VARINTS else chunk(2, b"")
        return self._one(2, kind, value)

    def _one(self, number: int, kind: str, value: Any) -> bytes:
        if kind in VARINTS:
            return varint(number << 3) + varint(int(value))
        match kind:
            case "double":
                return varint(number << 3 | 1) + struct.pack("<d", value)
            case "string":
                return _text(number, value)
            case "bytes":
                return chunk(number, base64.b64decode(value))
        return chunk(number, self._message(kind, value))

    def _message(self, kind: str, value: Any) -> bytes:
        package, _, short = kind.rpartition(".")
        special = _SPECIAL.get(kind) or _SPECIAL_SHORT.get(short)
        if special is not None:
            return special(value)
        if not short.startswith("JSONSchemaPropsOr"):
            return self.write(value, kind)
        props = f"{package}.JSONSchemaProps"
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
