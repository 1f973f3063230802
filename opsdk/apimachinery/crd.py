"""Generates CustomResourceDefinitions from typed classes.

Constraints come from ``msgspec.Meta``, as in ``Annotated[int, msgspec.Meta(ge=0)]``; defaults come from the fields;
descriptions come from ``Meta(description=...)`` and from the docstrings of the classes.

Upstream: sigs.k8s.io/controller-tools/pkg/crd (the same task for Go types)
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect as types

from opsdk.apimachinery.meta import Condition, ObjectMeta
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import Object
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.time import MicroTime
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
# Constraint of msgspec -> keyword of the schema.
_CONSTRAINTS = {
    "ge": "minimum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "min_length": "minLength",
    "max_length": "maxLength",
}


class PrinterColumn(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A column of ``kubectl get`` (``additionalPrinterColumns``).

    Attributes:
        name: the column's header.
        json_path: the path of the value, such as ``.status.phase``.
        type: string, integer, number, boolean or date.
        description: shown by ``kubectl explain`` tools.
        priority: 0 is always shown; greater values only with ``-o wide``.
    """

    name: str
    json_path: str = msgspec.field(name="jsonPath")
    type: str = "string"
    description: str = ""
    priority: int = 0


def crd_for(*versions: type[Object[Any, Any]]) -> JsonObject:
    """Return the CustomResourceDefinition of a kind, as a JSON tree to create or apply.

    Args:
        versions: one class for each version. The first one is the storage version.

    Names come from the class: ``plural`` (default: the kind in lower case plus "s"), ``short_names``, ``categories``,
    ``namespaced``, ``printer_columns``. A class with a typed ``status`` gets the status subresource.

    Raises:
        UsageError: the classes are not versions of one kind, or a type has no structural schema.
    """
    if not versions:
        raise UsageError("crd_for needs at least one class")
    storage = versions[0]
    gvk = storage.gvk
    if not gvk.group or not gvk.kind:
        raise UsageError(
            f"{storage.__name__} needs a `gvk` with a group: a custom resource cannot be in the core group"
        )
    if len({v.gvk.group_kind for v in versions}) > 1:
        raise UsageError(f"{[str(v.gvk) for v in versions]} are not versions of one kind")
    plural = storage.plural or f"{gvk.kind.lower()}s"
    names: JsonObject = {
        "plural": plural,
        "singular": gvk.kind.lower(),
        "kind": gvk.kind,
        "listKind": f"{gvk.kind}List",
    }
    if storage.short_names:
        names["shortNames"] = list(storage.short_names)
    if storage.categories:
        names["categories"] = list(storage.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{gvk.group}"},
        "spec": {
            "group": gvk.group,
            "names": names,
            "scope": "Namespaced" if storage.namespaced else "Cluster",
            "versions": [_version(v, storage=v is storage) for v in versions],
        },
    }


def _version(kind: type[Object[Any, Any]], *, storage: bool) -> JsonObject:
    version: JsonObject = {
        "name": kind.gvk.version,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema_for(kind)},
    }
    if "status" in version["schema"]["openAPIV3Schema"]["properties"]:
        version["subresources"] = {"status": {}}
    if kind.printer_columns:
        version["additionalPrinterColumns"] = [{**to_builtins(c), "type": c.type} for c in kind.printer_columns]
    return version


def schema_for(kind: type[Object[Any, Any]]) -> JsonObject:
    """Return the structural schema of a kind. Raises `UsageError` if a type has none."""
    schema = _Schemas().of(types.type_info(kind))
    properties = schema["properties"]
    # The server sets these schemas itself, and rejects most constraints on them.
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    return {**schema, "properties": properties}


class _Schemas:
    """Converts msgspec types to structural schemas. A recursive type raises `UsageError`."""

    def __init__(self) -> None:
        self._inside: list[type] = []

    def of(self, info: types.Type) -> JsonObject:
        match info:
            case types.Metadata():
                extra = dict(info.extra_json_schema or {})
                if examples := extra.pop("examples", None):
                    extra["example"] = examples[0]  # a structural schema has one example
                return {**self.of(info.type), **extra}
            case types.StructType():
                return self._struct(info)
            case types.UnionType():
                return self._union(info)
            case types.CustomType():
                return self._custom(info.cls)
            case types.ListType() | types.SetType() | types.VarTupleType():
                return {"type": "array", "items": self.of(info.item_type), **_sizes(info, "Items")}
            case types.DictType():
                return self._mapping(info)
            case types.LiteralType():
                return {"type": "integer" if isinstance(info.values[0], int) else "string", "enum": list(info.values)}
            case types.EnumType():
                values = [member.value for member in info.cls]
                return {"type": "integer" if isinstance(values[0], int) else "string", "enum": values}
            case _:
                return self._scalar(info)

    def _scalar(self, info: types.Type) -> JsonObject:
        limits = {word: v for name, word in _CONSTRAINTS.items() if (v := getattr(info, name, None)) is not None}
        match info:
            case types.StrType():
                return {"type": "string", **limits}
            case types.BoolType():
                return {"type": "boolean"}
            case types.IntType():
                return {"type": "integer", "format": "int64", **limits, **_exclusive(info)}
            case types.FloatType():
                return {"type": "number", **limits, **_exclusive(info)}
            case types.BytesType():
                return {"type": "string", "format": "byte"}
            case types.DateTimeType():
                return {"type": "string", "format": "date-time"}
            case types.AnyType():
                return {"x-kubernetes-preserve-unknown-fields": True}
        raise UsageError(f"{type(info).__name__} has no structural schema: use a simpler type")

    def _custom(self, cls: type) -> JsonObject:
        if cls is Quantity:
            return {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": _QUANTITY,
                "x-kubernetes-int-or-string": True,
            }
        if cls is MicroTime:
            return {"type": "string", "format": "date-time"}
        raise UsageError(f"{cls.__name__} has no structural schema: use a Model, or a simpler type")

    def _union(self, info: types.UnionType) -> JsonObject:
        parts = [t for t in info.types if not isinstance(t, types.NoneType)]
        if len(parts) == 1:
            return self.of(parts[0])
        if {type(p) for p in parts} == {types.IntType, types.StrType}:
            return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
        raise UsageError(f"a union of {len(parts)} types has no structural schema: only `X | None` and `int | str` do")

    def _mapping(self, info: types.DictType) -> JsonObject:
        if isinstance(info.value_type, types.AnyType):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return {"type": "object", "additionalProperties": self.of(info.value_type), **_sizes(info, "Properties")}

    def _struct(self, info: types.StructType) -> JsonObject:
        cls = info.cls
        if cls is ObjectMeta:
            return {"type": "object"}
        if cls in self._inside:
            raise UsageError(f"{cls.__name__} contains itself: that has no structural schema")
        self._inside.append(cls)
        try:
            # A field of type None, such as the status of a kind without status, is left out.
            fields = [f for f in info.fields if not isinstance(f.type, types.NoneType)]
            properties = {f.encode_name: self._field(f) for f in fields}
        finally:
            self._inside.pop()
        schema: JsonObject = {"type": "object"}
        if text := cls.__dict__.get("__doc__"):
            schema["description"] = inspect.cleandoc(text).partition("\n\n")[0].replace("\n", " ")
        schema["properties"] = properties
        required = [f.encode_name for f in info.fields if f.required]
        if cls is Condition:
            required = ["type", "status", "lastTransitionTime", "reason", "message"]
        if required:
            schema["required"] = required
        return schema

    def _field(self, field: types.Field) -> JsonObject:
        schema = self.of(field.type)
        if _is_list_of(field.type, Condition):
            schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        default = field.default
        # The server rejects "" as a default for `format: byte`, so omit it.
        if default not in (msgspec.NODEFAULT, None) and default not in ("", b""):
            schema["default"] = to_builtins(default)
        return schema


def _is_list_of(info: types.Type, cls: type) -> bool:
    if isinstance(info, types.Metadata):
        return _is_list_of(info.type, cls)
    item = info.item_type if isinstance(info, types.ListType) else None
    return isinstance(item, types.StructType) and item.cls is cls


def _exclusive(info: types.IntType | types.FloatType) -> Mapping[str, Any]:
    bounds: JsonObject = {}
    if info.gt is not None:
        bounds |= {"minimum": info.gt, "exclusiveMinimum": True}
    if info.lt is not None:
        bounds |= {"maximum": info.lt, "exclusiveMaximum": True}
    return bounds


def _sizes(info: Any, what: str) -> Mapping[str, int]:
    bounds = {}
    if info.min_length:
        bounds[f"min{what}"] = info.min_length
    if info.max_length is not None:
        bounds[f"max{what}"] = info.max_length
    return bounds


def printer_columns(*columns: tuple[str, str] | tuple[str, str, str]) -> Sequence[PrinterColumn]:
    """Return columns from tuples ``(name, json_path)`` or ``(name, json_path, type)``."""
    return tuple(PrinterColumn(name=c[0], json_path=c[1], type=c[2] if len(c) == 3 else "string") for c in columns)
