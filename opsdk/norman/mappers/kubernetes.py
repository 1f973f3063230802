"""Mappers for objects of Kubernetes: group and kind, metadata, self links, and the usual bundle.

Upstream: github.com/rancher/norman/types/mapper (apigroup.go, metadata.go, object.go, selflink.go)
Deviates: group, kind and resource are those of the schema's Kubernetes kind where it is known; a core kind has the
apiVersion ``v1``, norman writes ``/v1``; a spec with a field of the metadata stays nested, and is an error in norman.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.plurals import guess_plural
from opsdk.norman.mappers.access import Access, ChangeTypeMapper, ReadOnly
from opsdk.norman.mappers.conditional import ScopeMapper
from opsdk.norman.mappers.embeds import Embed
from opsdk.norman.mappers.moves import Drop, Move
from opsdk.norman.mappers.pipe import Mappers
from opsdk.norman.model import Mapper, Schema, SchemaLookup
from opsdk.norman.rbac_access import RESOURCE
from opsdk.norman.schema_parts import Scope
from opsdk.structured_merge.value import JsonObject

__all__ = ["GVK", "ApiGroupMapper", "MetadataMapper", "ObjectMapper", "SelfLink"]

GVK: Final = "gvk"
"""The key in `Schema.attributes` of the GroupVersionKind that the objects have in Kubernetes."""


def gvk_of_schema(schema: Schema) -> GroupVersionKind:
    """Return the kind of a schema's objects: the one in its attributes, or one from its version and id.

    >>> from opsdk.norman.schema_parts import ApiVersion
    >>> gvk_of_schema(Schema(id="site", version=ApiVersion(group="demo.example.com", version="v1", path="/v1")))
    GroupVersionKind(group='demo.example.com', version='v1', kind='Site')
    """
    gvk = schema.attributes.get(GVK)
    if isinstance(gvk, GroupVersionKind):
        return gvk
    return GroupVersionKind(schema.version.group, schema.version.version, schema.id[:1].upper() + schema.id[1:])


@dataclass(slots=True)
class ApiGroupMapper:
    """Sets ``apiVersion`` and ``kind`` inward, where they are absent (``APIGroup`` in norman)."""

    _gvk: GroupVersionKind = field(default=GroupVersionKind("", "", ""), init=False)

    def from_internal(self, data: JsonObject) -> None:
        """Change nothing."""

    def to_internal(self, data: JsonObject) -> None:
        """Set the fields."""
        data.setdefault("apiVersion", self._gvk.api_version)
        data.setdefault("kind", self._gvk.kind)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Read the kind from the schema."""
        self._gvk = gvk_of_schema(schema)


@dataclass(slots=True)
class SelfLink:
    """Sets ``selfLink`` outward: the path of the object in the API of Kubernetes. It needs name and namespace.

    Inward the link is removed, because the server ignores it.
    """

    _resource: str = field(default="", init=False)

    def from_internal(self, data: JsonObject) -> None:
        """Set the link, unless there is one."""
        if not data.get("selfLink"):
            data["selfLink"] = self._link(data)

    def to_internal(self, data: JsonObject) -> None:
        """Remove the link."""
        data.pop("selfLink", None)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Read the resource from the schema."""
        resource = schema.attributes.get(RESOURCE)
        if isinstance(resource, GroupVersionResource):
            self._resource = resource.resource
        else:
            self._resource = guess_plural(schema.id.lower())

    def _link(self, data: JsonObject) -> str:
        name, version, namespace = (data.get(key) for key in ("name", "apiVersion", "namespace"))
        if not name:
            return ""
        root = "/api/v1" if version in (None, "v1") else f"/apis/{version}"
        return f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{self._resource}/{name}"


class MetadataMapper(Mappers):
    """For the schema of the metadata: renames fields and sets their access (``NewMetadataMapper`` in norman).

    ``uid`` becomes ``uuid``, ``creationTimestamp`` becomes ``created``, ``deletionTimestamp`` becomes ``removed``.
    ``name`` and ``namespace`` are DNS labels that a create sets; labels and annotations can be updated. The rest is
    read-only.

    Lost outward: generateName, resourceVersion, generation, deletionGracePeriodSeconds and clusterName.
    """

    def __init__(self) -> None:
        super().__init__(
            ChangeTypeMapper(field="name", type="dnsLabel"),
            Drop(field="generateName"),
            Move(source="uid", to="uuid", code_name="UUID"),
            Drop(field="resourceVersion"),
            Drop(field="generation"),
            Move(source="creationTimestamp", to="created"),
            Move(source="deletionTimestamp", to="removed"),
            Drop(field="deletionGracePeriodSeconds"),
            Drop(field="clusterName", ignore_definition=True),
            ReadOnly(field="*"),
            Access(fields={"name": "c", "namespace": "c", "labels": "cu", "annotations": "cu"}),
        )


class ObjectMapper(Mappers):
    """The mappers for every Kubernetes object (``Object`` in norman), followed by additional mappers.

    The fields of ``metadata`` and ``spec`` are top-level fields, ``status`` is read-only; ``kind``, ``apiVersion`` and
    finalizers are not shown, and ``namespace`` only for namespaced kinds. ``.selfLink`` is for the server.

    The whole ``spec`` stays nested if one of its fields has a name that is taken, such as ``name`` or ``type``. A
    `Move` for the schema of the spec gives the field another name, so that the object is flat.

    Lost outward: finalizers, and the fields that the metadata mappers drop.

    Args:
        mappers: run after the others outward.
    """

    def __init__(self, *mappers: Mapper) -> None:
        super().__init__(
            ApiGroupMapper(),
            Embed(field="metadata"),
            SelfLink(),
            Embed(field="spec", optional=True, unless_clash=True),
            ReadOnly(field="status", optional=True, sub_fields=True),
            Drop(field="kind"),
            Drop(field="apiVersion"),
            Move(source="selfLink", to=".selfLink", dest_defined=True),
            ScopeMapper(if_not_scope=Scope.NAMESPACE, mappers=[Drop(field="namespace")]),
            Drop(field="finalizers", ignore_definition=True),
            *mappers,
        )
