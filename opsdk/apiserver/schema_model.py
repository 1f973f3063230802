"""What models of resources with a structural schema share: custom resources, and typed classes."""

from __future__ import annotations

from functools import cached_property

from opsdk.apiserver.endpoints.body import unsupported_media
from opsdk.apiserver.endpoints.negotiation import JSON, YAML
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.structured_merge.schema import Schema, structural_schema
from opsdk.structured_merge.value import JsonObject


class SchemaModel:
    """The part of a `ResourceModel` that follows from a structural schema.

    Args:
        raw: the schema as JSON.
        schema: the parsed schema; default: from `raw`.
    """

    def __init__(self, raw: JsonObject, schema: StructuralSchema | None = None) -> None:
        self.raw = raw
        self.schema = schema or StructuralSchema(raw)

    @cached_property
    def shape(self) -> Schema:
        return structural_schema(self.raw)

    @property
    def blank(self) -> JsonObject:
        return {}

    def from_protobuf(self, body: bytes) -> JsonObject:
        """See `ResourceModel`; structural schemas have no protobuf field numbers."""
        raise unsupported_media(f"{JSON}, {YAML}")

    def default(self, obj: JsonObject, *, nulls: bool = False) -> JsonObject:
        defaulted: JsonObject = self.schema.default(obj, nulls=nulls)
        return defaulted

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """See `ResourceModel`. Returns the object as it is: a store with several versions converts it."""
        return obj


def schema_name(group: str, version: str, kind: str) -> str:
    """Return the name of a schema in OpenAPI documents: the group is reversed."""
    return ".".join([*reversed(group.split(".")), version, kind])
