"""One version of a custom resource: decoding, defaulting, validation, storage.

Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource (v1.36)
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property

from envtest.codec.decode_context import DecodeContext
from envtest.codec.decoder import Decoders
from envtest.extensions.jsonpath import find
from envtest.extensions.printer_columns import ColumnPrinter, text
from envtest.extensions.scale_paths import ScalePaths
from opsdk.apimachinery.serializer.documents import json_kind
from opsdk.apiserver import api_errors
from opsdk.apiserver.field_errors import FieldError
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.resources import DecodedBody, Printer
from opsdk.apiserver.schema_model import SchemaModel, schema_name
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.apiserver.structural.strategy import SchemaStrategy
from opsdk.errors import ApiError, Cause, DecodeError
from opsdk.http.server.response import encode_json
from opsdk.structured_merge.go_format import go_json, whole_numbers
from opsdk.structured_merge.identity_cache import IdentityCache
from opsdk.structured_merge.value import JsonObject

_SHOWN = 1024
"""Size of the cache of pruned and defaulted objects of one version; most requests concern recently written objects."""

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class CustomModel(SchemaModel):
    """Decodes request bodies by the schema of one CRD version."""

    typed = False

    def __init__(
        self, definition: JsonObject, version: JsonObject, decoders: Decoders, schema: StructuralSchema | None = None
    ) -> None:
        spec = definition["spec"]
        self._single_version = len(spec["versions"]) == 1
        super().__init__(version["schema"]["openAPIV3Schema"], schema)
        self.api_version = f"{spec['group']}/{version['name']}"
        self.schema_name = schema_name(spec["group"], version["name"], spec["names"]["kind"])
        self._group = spec["group"]
        self._versions: dict[str, JsonObject] = {v["name"]: v["schema"]["openAPIV3Schema"] for v in spec["versions"]}
        self.selectable = tuple(field["jsonPath"] for field in version.get("selectableFields") or ())
        self._decoders = decoders
        self._shown = IdentityCache[JsonObject](limit=_SHOWN)
        self._printer = ColumnPrinter(version.get("additionalPrinterColumns") or ())

    def __repr__(self) -> str:
        return f"<CustomModel {self.api_version} {self.schema_name}>"

    @cached_property
    def digest(self) -> str:
        """Changes with the schema and the selectable fields."""
        return hashlib.sha512(encode_json([self.raw, self.selectable])).hexdigest()

    @property
    def printer(self) -> Printer:
        return self._printer

    def type_named(self, api_version: str, kind: str) -> str:
        """See `Model`; custom types are not looked up."""
        return ""

    def decode(self, body: JsonObject, *, memory: bool = False) -> DecodedBody:
        reading = DecodeContext(path=["metadata"], skipped_path_parts=1, struct="ObjectMeta")
        metadata = body.get("metadata")
        meta = self._decoders.read(_META, {} if metadata is None else metadata, reading)
        api_version = body.get("apiVersion", "")
        schema = self.schema if api_version == self.api_version else self._schema_of(api_version)
        pruned, unknown = schema.prune({**body, "metadata": meta}) if schema is not None else (body, [])
        inner: list[str] = []
        decoded = self.schema.change_embedded(pruned, lambda obj, place: self._decode_inner(obj, place, inner))
        warnings = [*sorted(f'unknown field "{path}"' for path in unknown), *sorted(inner)]
        return DecodedBody(decoded, [*reading.problems, *warnings])

    def _schema_of(self, api_version: str) -> StructuralSchema | None:
        """Return the schema that decodes a body of another version, which the server refuses after it.

        The schema of an undefined version has no fields. Objects of another group are not pruned: None.
        """
        group, _, version = api_version.rpartition("/")
        return StructuralSchema(self._versions.get(version, {"type": "object"})) if group == self._group else None

    def _decode_inner(self, obj: JsonObject, path: str, warnings: list[str]) -> JsonObject:
        """Decode an embedded object. Its metadata has the schema of ObjectMeta."""
        for key in ("apiVersion", "kind"):
            if obj.get(key) is not None and not isinstance(obj[key], str):
                raise DecodeError(f"{path}.{key}: Invalid value: {go_json(obj[key])}: must be a string")
        metadata = obj.get("metadata")
        if metadata is None:
            return obj
        prefix = f"{path}.metadata: Invalid value: {go_json(metadata)}"
        if not isinstance(metadata, dict):
            raise DecodeError(
                f"{prefix}: json: cannot unmarshal {json_kind(metadata)} into Go value of type v1.ObjectMeta"
            )
        reading = DecodeContext(path=[path, "metadata"], skipped_path_parts=2, struct="ObjectMeta")
        try:
            meta = self._decoders.read(_META, metadata, reading)
        except DecodeError as error:
            raise DecodeError(f"{prefix}: {error}") from error
        warnings += reading.problems
        return {**obj, "metadata": meta}

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """See `Model`: prunes and defaults by the current schema, which may differ from the schema of the write.

        With several versions, the store does this.
        """
        if not self._single_version:
            return obj
        if not obj["metadata"].get("resourceVersion"):
            return self._show(obj)  # a new object that the create still changes, so it is not cached
        defaulted = self._shown.get(obj)
        if defaulted is None:
            defaulted = self._show(obj)
            self._shown.put(obj, defaulted)
        return defaulted

    def _show(self, obj: JsonObject) -> JsonObject:
        pruned, _ = self.schema.prune({**obj, "apiVersion": self.api_version})
        defaulted: JsonObject = self.schema.default(pruned)
        return defaulted


Gone = Callable[[Context], Awaitable[None]]


class CustomStrategy(SchemaStrategy):
    """The strategy of custom resources: pruning, defaulting and validation by the schema."""

    custom = True
    core_metadata = False
    allow_unconditional_update = False

    def __init__(
        self,
        definition: JsonObject,
        version: JsonObject,
        model: CustomModel,
        *,
        gone: Gone,
        refuse: Callable[[str], None],
    ) -> None:
        spec = definition["spec"]
        has_status = (version.get("subresources") or {}).get("status") is not None
        super().__init__(model.schema, namespaced=spec["scope"] == "Namespaced", has_status=has_status)
        self._types = {"kind": spec["names"]["kind"], "apiVersion": f"{spec['group']}/{version['name']}"}
        self._shown = model.from_storage
        self._gone = gone
        self._refuse_create = refuse
        scale = (version.get("subresources") or {}).get("scale")
        self._scale = ScalePaths(scale) if scale else None
        self.selectable = {
            field["jsonPath"].removeprefix("."): _selectable(field["jsonPath"])
            for field in version.get("selectableFields") or ()
        }

    def unknown_field(self, key: str) -> ApiError:
        """Return the message of strict decoding for custom resources."""
        return api_errors.bad_request(f"field label not supported: {key}")

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Drop the status if it is a subresource; a terminating CRD refuses new objects."""
        self._refuse_create(obj["metadata"].get("name", ""))
        super().prepare_for_create(context, obj)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate by the schema; a wrong apiVersion or kind is the only error reported."""
        self._check_type(obj)
        return super().validate(context, obj)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate by the schema; a wrong apiVersion or kind is the only error reported."""
        self._check_type(obj)
        return super().validate_update(context, obj, old)

    def _check_type(self, obj: JsonObject) -> None:
        causes = [
            api_errors.invalid_value(key, obj.get(key, ""), f"must be {expected}")
            for key, expected in self._types.items()
            if obj.get(key, "") != expected
        ]
        if causes:
            group = str(obj.get("apiVersion", "")).rpartition("/")[0]
            raise api_errors.invalid(str(obj.get("kind", "")), group, obj["metadata"].get("name", ""), causes)

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate by the schema; a wrong apiVersion or kind is the only error reported."""
        self._check_type(obj)
        return super().validate_status(context, obj, old)

    def additional_errors(self, obj: JsonObject, *, status_only: bool = False) -> Sequence[FieldError]:
        """Validate the fields that the scale subresource reads."""
        return () if self._scale is None else list(self._scale.check(obj, status_only=status_only))

    def as_read(self, obj: JsonObject) -> JsonObject:
        """Return a stored object, pruned and defaulted by the current schema."""
        return self._shown(obj)

    def canonicalize(self, obj: JsonObject) -> None:
        """Write floats without a fraction as integers."""
        obj.update(whole_numbers(obj))

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Warn of finalizers without a path."""
        before = ((old or {}).get("metadata") or {}).get("finalizers") or []
        return [
            f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name'
            f"{' including a path (/)' if '.' in name else ''}"
            " to avoid accidental conflicts with other finalizer writers"
            for name in obj["metadata"].get("finalizers") or ()
            if name not in before and "/" not in name and name not in ("orphan", "foregroundDeletion", "kubernetes")
        ]

    async def after_delete(self, context: Context, obj: JsonObject) -> None:
        """Notify the server of a deleted instance; a terminating CRD may wait for it."""
        await self._gone(context)


def _selectable(path: str) -> Callable[[JsonObject], str]:
    def read(obj: JsonObject) -> str:
        values = find(obj, path)
        return text(values[0]) if values and values[0] is not None else ""

    return read
