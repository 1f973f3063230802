"""Structural schemas from typed classes.

Upstream: sigs.k8s.io/controller-tools/pkg/crd (the same task for Go types)
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect as types

from opsdk.apimachinery.crd_markers import EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, PRESERVE, RULES, Rule
from opsdk.apimachinery.duration import Duration
from opsdk.apimachinery.meta import Condition, ObjectMeta
from opsdk.apimachinery.model import Model, decode_hook, to_builtins
from opsdk.apimachinery.object import Object, TypedObject
from opsdk.apimachinery.pydantic_models import is_pydantic, schema_of_pydantic
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.time import MicroTime
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_INT_OR_STRING: JsonObject = {"anyOf": [{"type": "integer"}, {"type": "string"}], INT_OR_STRING: True}
# Constraint of msgspec -> keyword of the schema.
_CONSTRAINTS = {
    "ge": "minimum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "min_length": "minLength",
    "max_length": "maxLength",
}
_CUSTOM: Mapping[type, JsonObject] = {
    Quantity: {**_INT_OR_STRING, "pattern": _QUANTITY},
    MicroTime: {"type": "string", "format": "date-time"},
    Duration: {"type": "string", "format": "duration"},
}
_SIMPLE: Mapping[type[types.Type], JsonObject] = {
    types.BoolType: {"type": "boolean"},
    types.BytesType: {"type": "string", "format": "byte"},
    types.DateTimeType: {"type": "string", "format": "date-time"},
    types.DateType: {"type": "string", "format": "date"},
    types.UUIDType: {"type": "string", "format": "uuid"},
    types.AnyType: {PRESERVE: True},
    types.RawType: {PRESERVE: True},
}
_ADVICE: Mapping[type[types.Type], str] = {
    types.TimeDeltaType: "use opsdk.apimachinery.duration.Duration",
    types.DecimalType: "use Quantity",
    types.TupleType: "use a list",
}
# An entry of an ``Attributes:`` section.
_ATTRIBUTE = re.compile(r"^    (\w+)(?: \([^)]*\))?:\s*(.*)$")


class Schemas:
    """Converts msgspec types to structural schemas. Errors are `UsageError` and name the path of the field."""

    def __init__(self, root: str) -> None:
        """Create a converter; `root` is the first part of the paths in errors."""
        self._path = [root]
        self._inside: list[type] = []

    def of(self, info: types.Type) -> JsonObject:
        """Return the schema of a type."""
        match info:
            case types.Metadata():
                schema = _merged(self.of(info.type), info.extra_json_schema or {})
                if schema.get(LIST_KEYS):
                    _add_key_defaults(schema, info.type)
                return schema
            case types.StructType() | types.DataclassType():
                return self._struct(info)
            case types.UnionType():
                return self._union(info)
            case types.ListType() | types.VarTupleType():
                merged_by = {LIST_TYPE: "map", LIST_KEYS: ["type"]} if _is_class(info.item_type, Condition) else {}
                return {
                    "type": "array",
                    "items": self._below("[]", info.item_type),
                    **_sizes(info, "Items"),
                    **merged_by,
                }
            case types.SetType() | types.FrozenSetType():
                items = self._below("[]", info.item_type)
                return {"type": "array", "items": items, LIST_TYPE: "set", **_sizes(info, "Items")}
            case types.DictType():
                return self._mapping(info)
            case types.LiteralType():
                return self._enum(info.values)
            case types.EnumType():
                return self._enum([member.value for member in info.cls])
        return self._scalar(info)

    # -------------------------------------------------------------- types
    def _scalar(self, info: types.Type) -> JsonObject:
        """Return the schema of a type without parts. Raises `UsageError` if it has none."""
        limits = {word: v for name, word in _CONSTRAINTS.items() if (v := getattr(info, name, None)) is not None}
        match info:
            case types.StrType():
                return {"type": "string", **limits}
            case types.IntType():
                return {"type": "integer", "format": "int64", **limits, **_exclusive(info)}
            case types.FloatType():
                return {"type": "number", **limits, **_exclusive(info)}
            case types.CustomType() if info.cls in _CUSTOM:
                return dict(_CUSTOM[info.cls])
            case types.CustomType() if is_pydantic(info.cls):
                return schema_of_pydantic(info.cls, "".join(self._path))
            case types.CustomType():
                raise self._error(f"{info.cls.__name__} has no structural schema: use a Model, or a simpler type")
        if type(info) in _SIMPLE:
            return dict(_SIMPLE[type(info)])
        advice = _ADVICE.get(type(info), "use a Model, or a simpler type")
        raise self._error(f"{type(info).__name__} has no structural schema: {advice}")

    def _enum(self, values: Sequence[Any]) -> JsonObject:
        for cls, name in ((str, "string"), (int, "integer")):
            if all(type(value) is cls for value in values):
                return {"type": name, "enum": list(values)}
        raise self._error(f"the values {list(values)} have no structural schema: use strings only, or integers only")

    def _union(self, info: types.UnionType) -> JsonObject:
        """Return the schema of ``X | None``, ``int | str`` or ``int | float``. Raises `UsageError` for others."""
        parts = [t for t in info.types if not isinstance(t, types.NoneType)]
        plain = {type(p.type if isinstance(p, types.Metadata) else p) for p in parts}
        if len(parts) == 1:
            schema = self.of(parts[0])
        elif plain == {types.IntType, types.StrType}:
            schema = dict(_INT_OR_STRING)
        elif plain == {types.IntType, types.FloatType}:
            schema = self.of(next(p for p in parts if isinstance(p, types.FloatType)))
        else:
            text = f"a union of {len(parts)} types has no structural schema"
            raise self._error(
                f"{text}: only `X | None`, `int | str` and `int | float` do; use a Model with one field each"
            )
        if len(parts) == len(info.types):
            return schema
        # The server compares null with the enumeration too.
        return {**schema, "nullable": True, **({"enum": [*schema["enum"], None]} if "enum" in schema else {})}

    def _mapping(self, info: types.DictType) -> JsonObject:
        key = info.key_type.type if isinstance(info.key_type, types.Metadata) else info.key_type
        if not isinstance(key, types.StrType):
            raise self._error("keys of a dict are strings in JSON: use dict[str, ...]")
        if isinstance(info.value_type, types.AnyType):
            return {"type": "object", PRESERVE: True}
        return {
            "type": "object",
            "additionalProperties": self._below("{}", info.value_type),
            **_sizes(info, "Properties"),
        }

    # -------------------------------------------------------------- objects
    def _struct(self, info: types.StructType | types.DataclassType) -> JsonObject:
        """Return the schema of a class with fields. Raises `UsageError` if it contains itself."""
        cls = info.cls
        if cls is ObjectMeta:
            return {"type": "object"}
        if cls in self._inside:
            raise self._error(
                f"{cls.__name__} contains itself: recursive types have no structural schema; use JsonObject there"
            )
        self._inside.append(cls)
        try:
            # A field of type None, such as the status of a kind without status, is omitted.
            fields = [f for f in info.fields if not isinstance(f.type, types.NoneType)]
            texts = _attribute_descriptions(cls)
            annotations = _annotations(cls)
            properties = {
                f.encode_name: self._property(f, annotations.get(f.name), texts.get(f.name, "")) for f in fields
            }
        finally:
            self._inside.pop()
        schema: JsonObject = {"type": "object"}
        if text := _class_description(cls):
            schema["description"] = text
        if properties:
            schema["properties"] = properties
        required = [f.encode_name for f in fields if f.required]
        if cls is Condition:
            required = ["type", "status", "lastTransitionTime", "reason", "message"]
        if required:
            schema["required"] = sorted(required)
        # A field of this name, as in PodFailurePolicy, declares no rules.
        declared = () if any(f.name == "rules" for f in info.fields) else getattr(cls, "rules", ())
        if rules := [rule.keywords() for rule in declared if isinstance(rule, Rule)]:
            schema[RULES] = rules
        if issubclass(cls, TypedObject):
            # The server sets these schemas itself, and rejects most constraints on them.
            properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
            schema |= {EMBEDDED: True} if self._inside else {}
        return schema

    def _property(self, field: types.Field, annotation: Any, text: str) -> JsonObject:
        """Return the schema of a field, with its description and its default."""
        self._path.append(f".{field.encode_name}")
        schema = self.of(field.type)
        if text and not _is_described(field.type):
            schema["description"] = text
        if field.default is None and not _is_marked_nullable(field.type):
            # An attribute that is None is not sent, so null means absent.
            schema.pop("nullable", None)
            if "enum" in schema:
                schema["enum"] = [value for value in schema["enum"] if value is not None]
        default = self._default(field, annotation)
        if default is not None and (default != {} or _has_defaults(schema)):
            schema["default"] = default
        self._path.pop()
        return schema

    def _default(self, field: types.Field, annotation: Any) -> JsonValue:
        """Return the default as JSON; None without a default, or if it is empty."""
        value = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            value = field.default_factory()
        # The server rejects "" as a default for `format: byte`, so omit it.
        if value in (msgspec.NODEFAULT, None, [], set()) or (isinstance(value, str | bytes) and not value):
            return None
        tree = to_builtins(value)
        if annotation is None or tree == {}:
            return tree
        try:
            msgspec.convert(tree, annotation, dec_hook=decode_hook)
        except msgspec.ValidationError as error:
            raise self._error(f"the default {tree!r} is not valid: {error}") from error
        return tree

    # -------------------------------------------------------------- paths
    def _below(self, step: str, info: types.Type) -> JsonObject:
        self._path.append(step)
        schema = self.of(info)
        self._path.pop()
        return schema

    def _error(self, text: str) -> UsageError:
        return UsageError(f"{''.join(self._path)}: {text}")


def _merged(schema: JsonObject, extra: Mapping[str, Any]) -> JsonObject:
    """Return `schema` with the keywords of a marker: rules are added, None removes a keyword, the rest replaces."""
    merged = {**schema, **extra}
    if examples := merged.pop("examples", None):
        merged["example"] = examples[0]  # a structural schema has one example
    if RULES in extra:
        merged[RULES] = [*schema.get(RULES, ()), *extra[RULES]]
    if extra.get(EMBEDDED) and not schema.get("properties"):
        merged[PRESERVE] = True
    return {name: value for name, value in merged.items() if value is not None}


def _has_defaults(schema: JsonObject) -> bool:
    return any("default" in part for part in schema.get("properties", {}).values())


def _is_marked_nullable(info: types.Type) -> bool:
    return isinstance(info, types.Metadata) and bool((info.extra_json_schema or {}).get("nullable"))


def _is_described(info: types.Type) -> bool:
    return isinstance(info, types.Metadata) and "description" in (info.extra_json_schema or {})


def _add_key_defaults(schema: JsonObject, info: types.Type) -> None:
    """Write the default "" of the keys of a list of type map: the server wants a default of each optional key.

    Elsewhere it is left out. Built-in classes have such keys, such as the name of an image pull secret.
    """
    info = _plain(info)
    item = _plain(info.item_type) if isinstance(info, types.ListType) else None
    for field in item.fields if isinstance(item, types.StructType) else ():
        if field.encode_name in schema[LIST_KEYS] and field.default == "":
            schema["items"]["properties"][field.encode_name]["default"] = ""


def _plain(info: types.Type) -> types.Type:
    """Return a type without markers and None."""
    while isinstance(info, types.Metadata | types.UnionType):
        info = info.type if isinstance(info, types.Metadata) else info.types[0]
    return info


def _is_class(info: types.Type, cls: type) -> bool:
    return isinstance(info, types.StructType) and info.cls is cls


def _annotations(cls: type) -> Mapping[str, Any]:
    """Return the resolved annotations of the fields, with their constraints."""
    if issubclass(cls, msgspec.Struct):
        return {f.name: f.type for f in msgspec.structs.fields(cls)}
    return typing.get_type_hints(cls, include_extras=True)


# ------------------------------------------------------------------ descriptions
def _class_description(cls: type) -> str:
    """Return the first paragraph of the class's own docstring; base classes describe themselves."""
    text: str = vars(cls).get("__doc__") or ""
    if cls in (Model, TypedObject, Object):
        return ""
    if dataclasses.is_dataclass(cls) and text.startswith(f"{cls.__name__}("):
        return ""  # written by the dataclass decorator
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split("\n"))


def _attribute_descriptions(cls: type) -> Mapping[str, str]:
    """Return attribute -> text of the sections ``Attributes:`` in the docstrings of `cls` and its base classes."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, section = inspect.cleandoc(vars(base).get("__doc__") or "").partition("\nAttributes:\n")
        name = ""
        for line in section.split("\n"):
            if match := _ATTRIBUTE.match(line):
                name, texts[match.group(1)] = match.group(1), match.group(2)
            elif name and line.startswith("     "):
                texts[name] = f"{texts[name]} {line.strip()}".strip()
            elif line:
                break  # the next section
    return texts


# ------------------------------------------------------------------ limits
def _exclusive(info: types.IntType | types.FloatType) -> Mapping[str, Any]:
    bounds: JsonObject = {}
    if info.gt is not None:
        bounds |= {"minimum": info.gt, "exclusiveMinimum": True}
    if info.lt is not None:
        bounds |= {"maximum": info.lt, "exclusiveMaximum": True}
    return bounds


def _sizes(info: Any, noun: str) -> Mapping[str, int]:
    bounds = {}
    if info.min_length:
        bounds[f"min{noun}"] = info.min_length
    if info.max_length is not None:
        bounds[f"max{noun}"] = info.max_length
    return bounds
