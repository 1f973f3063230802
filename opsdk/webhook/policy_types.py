"""The CEL types of what admission policies read: objects and parameters as JSON. Pure.

They differ from the types of the rules in a CustomResourceDefinition, which
`opsdk.apiserver.expressions.schema_types` has: a policy reads plain JSON. So times and quantities have the types that
JSON has, and names of fields are not escaped.

Upstream: k8s.io/apiserver/pkg/admission/plugin/cel/activation.go (objectToResolveVal; v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from opsdk.apimachinery.crd import schema_for
from opsdk.apimachinery.crd_markers import INT_OR_STRING, PRESERVE
from opsdk.apimachinery.crd_schema import Schemas
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import PartialObjectMetadata, TypedObject
from opsdk.cel.types import BOOL, DOUBLE, DYN, INT, STRING, Type, TypeKind, list_of, map_of, object_of
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

_SCALARS: Final = {"string": STRING, "integer": INT, "number": DOUBLE, "boolean": BOOL}
_METADATA: Final = "metadata"


def schema_of_kind(kind: Kind[Any]) -> JsonObject | None:
    """Return the schema of a kind with the fields of its metadata; None for a kind without a class.

    Raises:
        UsageError: the class has no schema, for example because it contains itself.
    """
    representation: type[Any] = kind.representation
    if not issubclass(representation, TypedObject):
        return None
    try:
        return schema_for(representation)
    except UsageError as error:
        unchecked = f'unstructured_kind("{kind.api_version}", "{kind.name}")'
        raise UsageError(f"{error}. To leave the fields of {kind.name} unchecked, pass {unchecked}") from error


def type_of_kind(kind: Kind[Any]) -> Type:
    """Return the type of the objects of a kind: DYN for a kind without a class. Raises as `schema_of_kind`."""
    if kind.representation is PartialObjectMetadata:
        return DYN
    schema = schema_of_kind(kind)
    return DYN if schema is None else type_of_schema(schema, kind.name)


def type_of_schema(schema: Mapping[str, Any], name: str) -> Type:
    """Return the type of the JSON values of a schema.

    Args:
        schema: a structural schema.
        name: of the type, for messages.

    >>> str(type_of_schema({"type": "array", "items": {"type": "string", "format": "date-time"}}, "times"))
    'list(string)'
    """
    if schema.get(INT_OR_STRING) or schema.get(PRESERVE):
        return DYN
    if schema.get("nullable") and (schema.get("type") != "object" or "additionalProperties" in schema):
        return DYN  # CEL compares only objects with null
    match schema.get("type"):
        case "array":
            return list_of(type_of_schema(schema.get("items") or {}, name))
        case "object" if "additionalProperties" in schema:
            values = schema["additionalProperties"]
            return map_of(STRING, type_of_schema(values, name) if isinstance(values, Mapping) else DYN)
        case "object":
            return object_of(name, {key: _type_of_field(key, below, name) for key, below in _fields(schema)})
        case str(word) if word in _SCALARS:
            return _SCALARS[word]
    return DYN


def _fields(schema: Mapping[str, Any]) -> Any:
    return (schema.get("properties") or {}).items()


def _type_of_field(key: str, schema: Mapping[str, Any], parent: str) -> Type:
    """Return the type of a field. The schema of metadata is empty, because the server sets it itself."""
    if key == _METADATA and not schema.get("properties") and schema.get("type") == "object":
        return metadata_type()
    return type_of_schema(schema, f"{parent}.{key}")


@cache
def metadata_type() -> Type:
    """Return the type of ``metadata``."""
    info = msgspec.inspect.type_info(ObjectMeta)
    assert isinstance(info, msgspec.inspect.StructType)
    schemas = Schemas(_METADATA)
    properties = {field.encode_name: schemas.of(field.type) for field in info.fields}
    return type_of_schema({"type": "object", "properties": properties}, _METADATA)


def field_at(type_: Type, path: str) -> Type | None:
    """Return the type of a field; None if it does not exist.

    Args:
        type_: of the object.
        path: names with dots between them, through lists and maps.
    """
    for step in path.split("."):
        while type_.kind is TypeKind.LIST:
            type_ = type_.params[0]
        if type_.kind is TypeKind.MAP:
            type_ = type_.params[1]
        elif type_.kind is TypeKind.OBJECT:
            if step not in type_.fields:
                return None
            type_ = type_.fields[step]
        elif type_.kind is not TypeKind.DYN:
            return None
    return type_
