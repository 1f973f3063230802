"""Decode the bodies of built-in kinds as the server's JSON decoder does, from the generated tables. Pure.

A *decoder* is a compiled schema: a function from a value to the value as it would be after decoding and encoding once.
Unknown fields are dropped and reported; nulls and empty optional lists, maps and strings vanish; a wrong type is a
`DecodeError` with the message of Go's decoder.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json (v1.36)
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final

import msgspec

from envtest.codec.decode_context import INSIDE, DecodeContext, GoKind, PathStep
from envtest.codec.quantities import canonical
from envtest.codec.timestamps import read_micro_time, read_time
from envtest.data.fields import NULL, PLAIN, SHOWN, embedded, forms, go_types
from envtest.data.schemas import Types
from opsdk.errors import DecodeError
from opsdk.structured_merge.go_format import whole_numbers
from opsdk.structured_merge.value import JsonObject, JsonValue

_OWNERS = ["metadata", "managedFields"]
_REF = "#/components/schemas/"
_GO_TYPES = {"integer:int32": "int32", "integer:int64": "int64", "integer": "int64", "number:double": "float64"}


Decoder = Callable[[JsonValue, DecodeContext], JsonValue]
_GONE = object()


@cache
def _text(go_type: str) -> Decoder:
    def read(value: JsonValue, context: DecodeContext) -> JsonValue:
        if not isinstance(value, str):
            context.fail_type(value, go_type, GoKind.TEXT)
        return value

    return read


_SIXTY_FOUR = "[A-Za-z0-9+/]"
_BASE64 = re.compile(f"(?:{_SIXTY_FOUR}{{4}})*(?:{_SIXTY_FOUR}{{2}}==|{_SIXTY_FOUR}{{3}}=)?")
_LETTER = re.compile(_SIXTY_FOUR)


def _corrupt(text: str) -> int | None:
    """Return the offset at which Go's base64 decoder fails; None if it does not. It skips line ends."""
    position = have = 0
    while position < len(text):
        letter, position = text[position], position + 1
        if _LETTER.match(letter):
            have = (have + 1) % 4
        elif letter == "=" and have >= 2:
            return _after_padding(text, position, have)
        elif letter not in "\r\n":
            return position - 1
    return position - have if have else None


def _after_padding(text: str, at: int, have: int) -> int | None:
    rest = at + len(text[at:]) - len(text[at:].lstrip("\r\n"))
    if have == 2:
        if rest == len(text):
            return rest
        if text[rest] != "=":
            return rest - 1
        return _after_padding(text, rest + 1, 3)
    return rest if rest < len(text) else None


def _bytes(value: JsonValue, context: DecodeContext) -> JsonValue:
    """Decode a byte slice: base64, or an array of numbers."""
    if isinstance(value, list):
        # A byte slice may also be an array of numbers.
        for part in value:
            if isinstance(part, bool) or not isinstance(part, int) or not 0 <= part < 256:
                context.fail_type(part, "uint8", GoKind.WHOLE)
                return ""
        return base64.b64encode(bytes(value)).decode()
    if not isinstance(value, str):
        context.fail_type(value, "[]uint8", GoKind.LIST)
    elif _BASE64.fullmatch(value) is None:
        bad = _corrupt(value)
        if bad is not None:
            context.fail(f"illegal base64 data at input byte {bad}")
    return value


def _boolean(value: JsonValue, context: DecodeContext) -> JsonValue:
    if not isinstance(value, bool):
        context.fail_type(value, "bool", GoKind.TRUTH)
    return value


@cache
def _integer(go_type: str) -> Decoder:
    limit = 2**31 if go_type == "int32" else 2**63

    def read(value: JsonValue, context: DecodeContext) -> JsonValue:
        if context.from_memory:
            value = _wrapped(value, limit)
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            context.fail_type(value, go_type, GoKind.WHOLE)
        return value

    return read


def _wrapped(value: JsonValue, limit: int) -> JsonValue:
    """Wrap an integer in memory to the width of its Go type, as Go's conversion does."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and not (isinstance(value, float) and value.is_integer()):
        return value
    number = int(value) if -(2**63) <= value < 2**63 else -(2**63)
    return (number + limit) % (2 * limit) - limit


def _number(value: JsonValue, context: DecodeContext) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        context.fail_type(value, "float64", GoKind.REAL)
        return value
    return whole_numbers(value)


def _unchanged(value: JsonValue, context: DecodeContext) -> JsonValue:
    return value


def _object(value: JsonValue, context: DecodeContext) -> JsonValue:
    if not isinstance(value, dict):
        context.fail_type(value, "map[string]interface {}", GoKind.MAP)
    return value


def _array(item: Decoder, go_type: str, nothing: Decoder) -> Decoder:
    """Return the decoder of a list of type `go_type`; `nothing` decodes its nulls."""

    def read(value: JsonValue, context: DecodeContext) -> JsonValue:
        if not isinstance(value, list):
            context.fail_type(value, go_type, GoKind.LIST)
            return []
        items = []
        for index, part in enumerate(value):
            context.path.append(f"[{index}]")
            items.append((nothing if part is None else item)(part, context))
            context.path.pop()
        return items

    return read


def _map(item: Decoder, go_type: str, nothing: Decoder, plain_type: type | None) -> Decoder:
    """Return the decoder of a map; values of `plain_type` are used unchanged."""

    def read(value: JsonValue, context: DecodeContext) -> JsonValue:
        if not isinstance(value, dict):
            context.fail_type(value, go_type, GoKind.MAP)
            return {}
        if plain_type is not None and {*map(type, value.values())} == {plain_type}:
            return dict(value)
        entries = {}
        for key, part in value.items():
            context.path.append(INSIDE if context.from_memory else PathStep(key))
            entries[key] = (nothing if part is None else item)(part, context)
            context.path.pop()
        return entries

    return read


def _referred(schema: Mapping[str, JsonValue]) -> str:
    """Return the name of the type that a schema refers to; empty for an inline schema."""
    ref: str = schema["allOf"][0]["$ref"] if "allOf" in schema else schema.get("$ref", "")
    return ref.removeprefix(_REF)


class _LazyStruct:
    """A struct's decoder, compiled when it is first used."""

    def __init__(self, decoders: Decoders, name: str) -> None:
        self._decoders = decoders
        self._name = name
        self._decoder: StructDecoder | None = None

    def __call__(self, value: JsonValue, context: DecodeContext) -> JsonValue:
        if self._decoder is None:
            self._decoder = self._decoders.struct(self._name)
        return self._decoder(value, context)


class Decoders:
    """Compiles decoders by type name, lazily."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self.version = types.version
        self._structs: dict[str, StructDecoder] = {}

    def struct(self, name: str) -> StructDecoder:
        """Return the decoder of a struct type."""
        decoder = self._structs.get(name)
        if decoder is None:
            decoder = self._structs[name] = StructDecoder(name, self._types.schema(name) or {}, self)
        return decoder

    def read(self, name: str, body: JsonValue, context: DecodeContext) -> JsonValue:
        """Decode a document of a type; raises `DecodeError`."""
        value = self.struct(name)(body, context)
        if context.first_error is not None:
            raise context.first_error
        return value

    def of(self, schema: Mapping[str, JsonValue], default_go_type: str = "") -> tuple[Decoder, str]:
        """Return the decoder of a schema and its Go type; `default_go_type` is used if the schema has none."""
        ref = _referred(schema)
        if ref:
            return self._reference(ref)
        match schema.get("type"):
            case "string":
                if schema.get("format") == "byte":
                    return _bytes, "[]uint8"
                return _text(default_go_type or "string"), default_go_type or "string"
            case "boolean":
                return _boolean, "bool"
            case "integer":
                go_type = _GO_TYPES.get(f"integer:{schema.get('format', 'int64')}", "int64")
                return _integer(go_type), go_type
            case "number":
                return _number, "float64"
            case "array":
                below = schema["items"]
                item, part = self.of(
                    below, default_go_type.removeprefix("[]") if default_go_type.startswith("[]") else ""
                )
                whole = default_go_type or f"[]{part}"
                return _array(item, whole, _null_item(below, item)), whole
            case "object" if "additionalProperties" in schema:
                below = schema["additionalProperties"]
                item, part = self.of(below, default_go_type.partition("]")[2])
                whole = default_go_type or f"map[string]{part}"
                return _map(item, whole, _null_item(below, item), _plain_type(below)), whole
            case "object":
                return _object, "map[string]interface {}"
            case _:
                return _unchanged, "interface {}"

    def _reference(self, name: str) -> tuple[Decoder, str]:
        """Return the decoder of a named type, and its Go name."""
        schema = self._types.schema(name) or {}
        short = name.rpartition(".")[2]
        if "properties" in schema or short in _EMPTY_STRUCTS:
            # Resolved at the first use: types may be recursive.
            return _LazyStruct(self, name), go_name(name)
        if short.startswith("JSONSchemaPropsOr"):
            # A union: a struct, or by `go_type` a boolean, a list of structs or a list of strings.
            struct = _LazyStruct(self, name[: name.index("Or", name.rindex("."))])
            go_type = go_name(name)
            structs = _array(struct, "[]v1.JSONSchemaProps", lambda _, context: struct({}, context))
            texts = _array(_text("string"), "[]string", lambda *_: "")

            def read(value: JsonValue, _: DecodeContext) -> JsonValue:
                # The content is decoded on its own, without warnings for its unknown fields.
                inner = DecodeContext()
                if isinstance(value, dict):
                    decoded = struct(value, inner)
                elif go_type.endswith("OrBool"):
                    if not isinstance(value, bool):
                        raise DecodeError("boolean or JSON schema expected")
                    decoded = value
                elif not isinstance(value, list):
                    decoded = None
                elif go_type.endswith("OrArray"):
                    decoded = structs(value, inner)
                else:
                    decoded = texts(value, inner)
                if inner.first_error is not None:
                    raise inner.first_error
                return decoded

            return read, go_name(name)
        special = SPECIAL.get(short)
        return (special, go_name(name)) if special is not None else (_unchanged, go_name(name))


_EMPTY_STRUCTS = frozenset({"CustomResourceSubresourceStatus"})
"""Structs without any field."""


def go_name(name: str) -> str:
    """Return the Go name of a type: ``v1.Pod`` for ``io.k8s.api.core.v1.Pod``."""
    package, _, short = name.rpartition(".")
    return f"{package.rpartition('.')[2]}.{short}"


def _time(value: JsonValue, context: DecodeContext) -> JsonValue:
    if not isinstance(value, str):
        context.fail_type(value, "string", GoKind.OWN)
    return read_time(value)


def _micro_time(value: JsonValue, context: DecodeContext) -> JsonValue:
    if not isinstance(value, str):
        context.fail_type(value, "string", GoKind.OWN)
    return read_micro_time(value)


def _json(value: JsonValue, context: DecodeContext) -> JsonValue:
    return value


def _int_or_string(value: JsonValue, context: DecodeContext) -> JsonValue:
    if context.from_memory and isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31
    if not isinstance(value, str) and not whole:
        context.fail_type(value, "int32", GoKind.OWN)
    return value


def _quantity(value: JsonValue, context: DecodeContext) -> JsonValue:
    return canonical(value.strip() if isinstance(value, str) else json.dumps(value))


SPECIAL: dict[str, Decoder] = {
    "Time": _time,
    "MicroTime": _micro_time,
    "IntOrString": _int_or_string,
    "JSON": _json,
    "Quantity": _quantity,
}
"""Decoders of types with custom JSON marshalling."""


class _Field(msgspec.Struct, frozen=True):
    decode: Decoder
    mark: str
    """See `envtest.data.fields`."""
    zero: JsonValue
    """The value that the encoder writes for an absent field; `_GONE` if it omits the field."""
    is_collection: bool
    """A list or a map."""
    plain_type: type | None
    """Values of exactly this type are used unchanged."""

    def is_written(self, value: JsonValue) -> bool:
        """Whether the encoder writes the value; structs are pointers, so they are written if they are set."""
        return value is not None and (
            bool(value) or self.mark != PLAIN or (isinstance(value, dict) and not self.is_collection)
        )


_PLAIN_TYPES: Mapping[str, type] = {"string": str, "boolean": bool}


def _plain_type(schema: Mapping[str, JsonValue]) -> type | None:
    """Return the Python type whose values a schema leaves unchanged; None if each value must be decoded."""
    return None if schema.get("format") == "byte" else _PLAIN_TYPES.get(schema.get("type", ""))


_ZEROS: Mapping[str, JsonValue] = {"string": "", "integer": 0, "number": 0, "boolean": False}
_SPECIAL_ZEROS: Mapping[str, JsonValue] = {"IntOrString": 0, "Quantity": "0"}


def _null_item(schema: Mapping[str, JsonValue], decode: Decoder) -> Decoder:
    """Return the zero value that Go's decoder stores for a null in a list or map, in its JSON form."""
    if isinstance(decode, _LazyStruct):
        return lambda _, context: decode({}, context)
    short = _referred(schema).rpartition(".")[2]
    kind = "" if schema.get("format") == "byte" else schema.get("type", "")
    zero = _SPECIAL_ZEROS.get(short, _ZEROS.get(kind))
    return lambda *_: zero


_IN_JSON: Final = "io.k8s.apiextensions-apiserver."
"""The types that the server stores as JSON; Protobuf does not distinguish empty lists from absent ones."""


class StructDecoder:
    """The decoder of an object with named fields."""

    def __init__(self, name: str, schema: Mapping[str, JsonValue], decoders: Decoders) -> None:
        self.name = name
        self._short = name.rpartition(".")[2]
        self._in_json = name.startswith(_IN_JSON)
        version = decoders.version
        marks, types = forms(name, version), go_types(name, version)
        self._steps = {key: PathStep(key, f"{above}.{key}") for key, above in embedded(name, version).items()}
        self._fields = {
            key: self._field(inner, decoders, marks.get(key, PLAIN), types.get(key, ""))
            for key, inner in schema.get("properties", {}).items()
        }
        self._order = [*(key for key in marks if key in self._fields), *(k for k in self._fields if k not in marks)]
        self._always = [key for key, f in self._fields.items() if f.zero is not _GONE]

    @staticmethod
    def _field(schema: Mapping[str, JsonValue], decoders: Decoders, mark: str, declared_go_type: str) -> _Field:
        decode, go_type = decoders.of(schema, declared_go_type)
        zero = _GONE
        if mark == NULL:
            zero = None
        elif mark == SHOWN:
            zero = _SPECIAL_ZEROS.get(go_type.rpartition(".")[2], _ZEROS.get(schema.get("type", ""), {}))
        many = "additionalProperties" in schema or schema.get("type") == "array"
        return _Field(decode, mark, zero, many, _plain_type(schema))

    def __call__(self, value: JsonValue, context: DecodeContext) -> JsonValue:
        """Decode one object."""
        if not isinstance(value, dict):
            context.fail_type(value, go_name(self.name), GoKind.STRUCT)
            value = {}
        result: JsonObject = {}
        outer, path = context.struct, context.path
        for key, part in self._inside(value) if context.from_memory else value.items():
            field = self._fields.get(key)
            if field is not None and type(part) is field.plain_type:
                # No warning is possible here, so the path is not built.
                if part or field.mark:
                    result[key] = part
                continue
            path.append(self._steps.get(key, key))
            context.struct = self._short
            if field is None:
                context.problems.append(f'unknown field "{context.at()}"')
            elif part is not None:
                self._keep(result, key, field.decode(part, context), context)
            path.pop()
        context.struct = outer
        for key in self._always:
            if key not in result:
                zero = self._fields[key].zero
                result[key] = self._fields[key].decode({}, DecodeContext()) if zero == {} else zero
        return result

    def _keep(self, result: JsonObject, key: str, read: JsonValue, context: DecodeContext) -> None:
        field = self._fields[key]
        if field.is_written(read):
            # Protobuf storage does not distinguish an empty list from an absent one.
            result[key] = read if read or not field.is_collection or self._in_json else None
        elif read is not None and context.path == _OWNERS:
            result[key] = read  # an empty list here is a request to remove the owners

    def _inside(self, value: JsonObject) -> Iterator[tuple[str, JsonValue]]:
        """Yield the entries of an object in memory in the order of the struct's fields; unknown fields come last."""
        yield from ((key, value[key]) for key in self._order if key in value)
        yield from ((key, part) for key, part in value.items() if key not in self._fields)
