"""The model of a built-in kind, from the generated tables."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Self

from envtest.codec.decode_context import DecodeContext
from envtest.codec.decoder import Decoders
from envtest.data.messages import message_of, reader
from envtest.data.schemas import Types, types
from envtest.data.versions import DEFAULT
from envtest.groups.common.defaulting import Defaults
from envtest.groups.common.printing import DefaultPrinter
from opsdk.apiserver.resources import DecodedBody, Printer
from opsdk.apiserver.serializer.protobuf import envelope
from opsdk.structured_merge.schema import Schema, SchemaSet
from opsdk.structured_merge.value import JsonObject

_OLD_VERSIONS = {
    "apps": ("v1beta1", "v1beta2"),
    "autoscaling": ("v2beta1", "v2beta2"),
    "batch": ("v1beta1",),
    "policy": ("v1beta1",),
    "networking.k8s.io": ("v1beta1",),
    "rbac.authorization.k8s.io": ("v1alpha1", "v1beta1"),
    "storage.k8s.io": ("v1alpha1", "v1beta1"),
    "scheduling.k8s.io": ("v1alpha1", "v1beta1"),
    "coordination.k8s.io": ("v1beta1",),
    "admissionregistration.k8s.io": ("v1alpha1", "v1beta1"),
    "certificates.k8s.io": ("v1alpha1", "v1beta1"),
    "discovery.k8s.io": ("v1beta1",),
    "events.k8s.io": ("v1beta1",),
    "node.k8s.io": ("v1alpha1", "v1beta1"),
    "flowcontrol.apiserver.k8s.io": ("v1beta1", "v1beta2", "v1beta3"),
}
"""Versions that the decoder recognizes, but that the server does not serve."""


class Typing:
    """The generated schemas with their decoders, shared by all models."""

    def __init__(self, types: Types) -> None:
        self.types = types
        self.decoders = Decoders(types)
        self.shapes = SchemaSet(types)


@cache
def generated_typing(version: str = DEFAULT) -> Typing:
    """Return the typing of a version's schemas: compiled once in a process, for all its servers."""
    return Typing(types(version))


class TypedModel:
    """Decodes bodies by the generated schemas; the stored and the served version are the same."""

    typed = True

    def __init__(
        self, typing: Typing, name: str, *, defaults: Defaults | None = None, printer: Printer | None = None
    ) -> None:
        self.name = name
        self._typing = typing
        self._defaults = defaults
        self._printer = printer or DefaultPrinter()

    def __repr__(self) -> str:
        return f"<TypedModel of {self.name}>"

    @cached_property
    def shape(self) -> Schema:
        return self._typing.shapes.of(self.name)

    def printed_by(self, printer: Printer) -> Self:
        """Return the model with other columns."""
        return type(self)(self._typing, self.name, defaults=self._defaults, printer=printer)

    @property
    def printer(self) -> Printer:
        return self._printer

    @cached_property
    def blank(self) -> JsonObject:
        obj: JsonObject = self._typing.decoders.struct(self.name)({}, DecodeContext())
        return {k: v for k, v in obj.items() if k not in ("metadata", "kind", "apiVersion")}

    def type_named(self, api_version: str, kind: str) -> str:
        group, _, version = api_version.rpartition("/")
        item = kind.removesuffix("List")
        versions = (version, "v1") if version in _OLD_VERSIONS.get(group, ()) else (version,)
        exists = any(self._typing.types.name_of(group, v, name) for name in (kind, item) for v in versions)
        return f"{version}.{kind}" if exists else ""

    def decode(self, body: JsonObject, *, memory: bool = False) -> DecodedBody:
        reading = DecodeContext(from_memory=memory)
        obj: JsonObject = self._typing.decoders.read(self.name, body, reading)
        return DecodedBody(obj, reading.problems)

    def from_protobuf(self, body: bytes) -> JsonObject:
        """See `Model`. DeleteOptions are decoded here too."""
        unknown = envelope(body)
        options = unknown.kind == "DeleteOptions"
        name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions" if options else self.name
        tree = reader(self._typing.types.version).read(unknown.raw, message_of(name))
        return {"kind": unknown.kind, "apiVersion": unknown.api_version, **tree}

    def default(self, obj: JsonObject, *, nulls: bool = False) -> JsonObject:
        if self._defaults is not None:
            self._defaults(obj)
        return obj

    def to_storage(self, obj: JsonObject) -> JsonObject:
        return obj

    def from_storage(self, obj: JsonObject) -> JsonObject:
        return obj
