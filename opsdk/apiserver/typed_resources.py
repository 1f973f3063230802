"""Resources of an extension API server with typed classes; the schema comes from the class."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from opsdk.apimachinery.crd import schema_for
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Object
from opsdk.apimachinery.plurals import plural_of
from opsdk.apiserver.registry.store import GenericStore
from opsdk.apiserver.registry.subresources import StatusStore
from opsdk.apiserver.resources import DecodedBody, InstalledResource, Printer, ResourceInfo, TableColumn
from opsdk.apiserver.schema_model import SchemaModel, schema_name
from opsdk.apiserver.storage.ports import Storage
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.apiserver.structural.strategy import SchemaStrategy
from opsdk.errors import DecodeError
from opsdk.http.server.response import encode_json
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["FieldPrinter", "KindModel", "KindSchemas", "KindStrategy", "info_of", "resources_of"]

Kind = type[Object[Any, Any]]
_META_FIELDS = frozenset(ObjectMeta.__struct_encode_fields__)


def info_of(kind: Kind) -> ResourceInfo:
    """Return the resource names of a kind."""
    gvk = kind.gvk
    return ResourceInfo(
        group=gvk.group,
        version=gvk.version,
        resource=plural_of(kind),
        kind=gvk.kind,
        namespaced=kind.namespaced,
        singular=gvk.kind.lower(),
        short_names=tuple(kind.short_names),
        categories=tuple(kind.categories),
    )


class FieldPrinter(Printer):
    """Prints the name, some fields by their paths (``spec.title``), and the creation time."""

    columns: Sequence[TableColumn] = ()

    def __init__(self, *fields: tuple[str, str]) -> None:
        self._paths = [path.strip(".").split(".") for _, path in fields]
        columns = [TableColumn(name=name, description=f"The field {path}.") for name, path in fields]
        first = TableColumn(name="Name", format="name", description="The name of the object.")
        last = TableColumn(name="Created At", type="date", description="When the object was created.")
        self.columns = [first, *columns, last]

    def cells(self, obj: JsonObject, now: float) -> list[JsonValue]:
        meta = obj.get("metadata") or {}
        values: list[JsonValue] = []
        for path in self._paths:
            value: JsonValue = obj
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            values.append(value)
        return [meta.get("name", ""), *values, meta.get("creationTimestamp")]


class KindModel(SchemaModel):
    """The `ResourceModel` of a typed class."""

    typed = True

    def __init__(self, kind: Kind, *, printer: Printer | None = None) -> None:
        gvk = kind.gvk
        super().__init__(schema_for(kind))
        self.name = schema_name(gvk.group, gvk.version, gvk.kind)
        self.printer: Printer = printer or FieldPrinter()
        self._kind = kind

    def __repr__(self) -> str:
        return f"<KindModel of {self._kind.gvk}>"

    def type_named(self, api_version: str, kind: str) -> str:
        """See `ResourceModel`; only this kind is known."""
        gvk = self._kind.gvk
        return f"{gvk.version}.{kind}" if (api_version, kind) == (gvk.api_version, gvk.kind) else ""

    def decode(self, body: JsonObject, *, memory: bool = False) -> DecodedBody:
        metadata = body.get("metadata")
        if metadata is None:
            metadata = {}
        if not isinstance(metadata, dict):
            raise DecodeError("json: cannot unmarshal metadata into Go struct field of type v1.ObjectMeta")
        present = {key: value for key, value in metadata.items() if value is not None}
        try:
            msgspec.convert(present, ObjectMeta)
        except msgspec.ValidationError as error:
            raise DecodeError(f"metadata: {error}") from None
        meta = {key: value for key, value in present.items() if key in _META_FIELDS}
        strange = sorted(f"metadata.{key}" for key in present.keys() - meta.keys())
        pruned, unknown = self.schema.prune({**body, "metadata": meta})
        return DecodedBody(pruned, [f'unknown field "{path}"' for path in (*strange, *unknown)])

    def from_storage(self, obj: JsonObject) -> JsonObject:
        return obj


class KindStrategy(SchemaStrategy):
    """The strategy of a typed class; subclasses add rules."""

    def __init__(self, kind: Kind) -> None:
        raw = schema_for(kind)
        super().__init__(StructuralSchema(raw), namespaced=kind.namespaced, has_status="status" in raw["properties"])


def resources_of(
    kind: Kind, storage: Storage, *, strategy: KindStrategy | None = None, printer: Printer | None = None
) -> list[InstalledResource]:
    """Return a kind's resource and its status subresource, stored in `storage`, for a `ResourceServer`."""
    info = info_of(kind)
    model = KindModel(kind, printer=printer)
    rules = strategy or KindStrategy(kind)
    store = GenericStore(storage, info, rules)
    installed = [InstalledResource(info, store, model)]
    if rules.has_status:
        installed.append(InstalledResource(replace(info, subresource="status"), StatusStore(store), model))
    return installed


class KindSchemas:
    """The OpenAPI schemas of typed classes."""

    def __init__(self) -> None:
        self._known: dict[str, JsonObject] = {}

    def __repr__(self) -> str:
        return f"<KindSchemas of {', '.join(self._known) or 'nothing'}>"

    def schema(self, name: str) -> JsonObject | None:
        return self._known.get(name)

    def name_of(self, served: InstalledResource) -> str | None:
        if not isinstance(served.model, KindModel):
            return None
        info = served.info
        gvk = {"group": info.group, "version": info.version, "kind": info.kind}
        self._known[served.model.name] = {**served.model.raw, "x-kubernetes-group-version-kind": [gvk]}
        return served.model.name

    def digest_of(self, served: InstalledResource) -> str | None:
        model = served.model
        return hashlib.sha512(encode_json(model.raw)).hexdigest() if isinstance(model, KindModel) else None
