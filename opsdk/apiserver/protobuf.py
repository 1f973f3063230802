"""Reads Kubernetes' protobuf bodies into JSON trees, by tables of messages. Pure.

A body is four magic bytes and a ``runtime.Unknown``: the kind, and the bytes of the object. Go's typed clients send
their objects so; answers may be JSON.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opsdk.errors import DecodeError

MAGIC = b"k8s\x00"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message; `key` is the type of a map's values."""

    name: str
    type: str
    repeated: bool = False
    map: bool = False


Messages = Callable[[str], Mapping[int, Field] | None]
"""The fields of a message by number; None where there is no such message."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The envelope."""

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


def _parts(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Field number, wire type and value of each part."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        match wire:
            case 0:
                value, at = _varint(data, at)
            case 1:
                value, at = data[at : at + 8], at + 8
            case 2:
                size, at = _varint(data, at)
                value, at = data[at : at + size], at + size
                if len(value) != size:
                    raise DecodeError("proto: unexpected end of a field")
            case 5:
                value, at = data[at : at + 4], at + 4
            case _:
                raise DecodeError(f"proto: illegal wire type {wire}")
        yield number, wire, value


def envelope(body: bytes) -> Unknown:
    """The envelope of a body; `DecodeError` where it is none."""
    if not body.startswith(MAGIC):
        raise DecodeError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    api_version = kind = ""
    raw = b""
    for number, _, value in _parts(body[len(MAGIC) :]):
        if number == 1:
            for inner, _, text in _parts(value):
                if inner == 1:
                    api_version = text.decode()
                elif inner == 2:
                    kind = text.decode()
        elif number == 2:
            raw = value
    return Unknown(api_version, kind, raw)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _stamp(data: bytes, *, micro: bool) -> str | None:
    seconds = nanos = 0
    for number, _, value in _parts(data):
        if number == 1:
            seconds = _signed(value)
        elif number == 2:
            nanos = _signed(value)
    if not data:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{nanos // 1000:06d}Z" if micro else f"{text}Z"


def _int_or_string(data: bytes) -> Any:
    found = {number: value for number, _, value in _parts(data)}
    return found.get(3, b"").decode() if found.get(1) == 1 else _signed(found.get(2, 0))


def _first_text(data: bytes) -> str:
    return next((value.decode() for number, _, value in _parts(data) if number == 1), "")


def _raw_json(data: bytes) -> Any:
    raw = next((value for number, _, value in _parts(data) if number == 1), b"")
    return json.loads(raw) if raw else None


def _items(data: bytes) -> list[str]:
    return [value.decode() for number, _, value in _parts(data) if number == 1]


_SPECIAL: Mapping[str, Callable[[bytes], Any]] = {
    f"{_META}.Time": lambda data: _stamp(data, micro=False),
    f"{_META}.MicroTime": lambda data: _stamp(data, micro=True),
    f"{_META}.Verbs": _items,
    f"{_META}.FieldsV1": _raw_json,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": _first_text,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw_json,
}


class Reader:
    """Reads messages by a table.

    Args:
        messages: the fields of a message by their numbers.
        is_plain: whether zero in a field of a message means that nothing was given; elsewhere a zero is kept.
    """

    def __init__(
        self, messages: Messages, is_plain: Callable[[str, str], bool] = lambda _message, _field: True
    ) -> None:
        self._messages = messages
        self._is_plain = is_plain

    def read(self, data: bytes, message: str) -> dict[str, Any]:
        """One message as a tree; fields that the table does not know are passed over."""
        fields = self._messages(message)
        if fields is None:
            raise DecodeError(f"proto: unknown message {message}")
        made: dict[str, Any] = {}
        short = message.rpartition(".")[2]
        for number, wire, raw in _parts(data):
            known = fields.get(number)
            if known is None:
                continue
            if known.map:
                key, value = self._entry(raw, known.type)
                made.setdefault(known.name, {})[key] = value
            elif known.repeated:
                made.setdefault(known.name, []).extend(self._values(raw, wire, known.type))
            else:
                value = self._value(raw, known.type)
                if value or isinstance(value, (dict, str)) or not self._is_plain(short, known.name):
                    made[known.name] = value
        return made

    def _values(self, raw: Any, wire: int, kind: str) -> Iterator[Any]:
        """One element, or several numbers packed into one field."""
        if wire != 2 or kind not in ("int32", "int64", "bool", "uint32"):
            yield self._value(raw, kind)
            return
        at = 0
        while at < len(raw):
            value, at = _varint(raw, at)
            yield self._value(value, kind)

    def _entry(self, raw: bytes, types: str) -> tuple[str, Any]:
        _, _, kind = types.partition(",")
        key: str = ""
        value: Any = "" if kind == "string" else {}
        for number, _, part in _parts(raw):
            if number == 1:
                key = part.decode()
            elif number == 2:
                value = self._value(part, kind)
        return key, value

    def _value(self, raw: Any, kind: str) -> Any:
        match kind:
            case "string":
                return raw.decode(errors="replace")
            case "bytes":
                return base64.b64encode(raw).decode()
            case "bool":
                return bool(raw)
            case "int32" | "int64" | "uint32" | "uint64":
                return _signed(raw)
            case "double":
                return struct.unpack("<d", raw)[0]
        special = _SPECIAL.get(kind)
        if special is not None:
            return special(raw)
        return self._message(raw, kind)

    def _message(self, raw: bytes, kind: str) -> Any:
        short = kind.rpartition(".")[2]
        if short == "JSON":
            return _raw_json(raw)
        if short == "ExtraValue":
            return _items(raw)
        if not short.startswith("JSONSchemaPropsOr"):
            return self.read(raw, kind)
        found = list(_parts(raw))
        props = kind.replace(short, "JSONSchemaProps")
        match short:
            case "JSONSchemaPropsOrBool":
                schemas = [v for n, _, v in found if n == 2]
                return self.read(schemas[0], props) if schemas else any(v for n, _, v in found if n == 1)
            case "JSONSchemaPropsOrArray":
                many = [self.read(v, props) for n, _, v in found if n == 2]
                return many or self.read(next((v for n, _, v in found if n == 1), b""), props)
            case _:
                texts = [v.decode() for n, _, v in found if n == 2]
                return texts or self.read(next((v for n, _, v in found if n == 1), b""), props)
