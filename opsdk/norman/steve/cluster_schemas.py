"""The schemas of the types of a cluster, and the visible schemas of a user. Pure.

Upstream: github.com/rancher/steve/pkg/schema/converter/discovery.go, k8stonorman.go, crd.go, pkg/schema/factory.go,
collection.go
Deviates: a user without permissions on Namespaces sees no synthetic ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.norman.collections.access_set import AccessPlace, AccessSet
from opsdk.norman.steve.built_in_columns import built_in_columns
from opsdk.rest.discovery import ApiResource
from opsdk.structured_merge.value import JsonObject

_READ_VERBS = frozenset({"get", "list"})
# The verbs of which one permits a method.
_COLLECTION_METHODS = {"GET": _READ_VERBS, "POST": frozenset({"create"})}
_RESOURCE_METHODS = {
    "GET": _READ_VERBS,
    "PUT": frozenset({"update"}),
    "PATCH": frozenset({"patch"}),
    "DELETE": frozenset({"delete"}),
}


class SteveColumn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A column of a table of objects.

    Attributes:
        name: for people.
        type: as in a CustomResourceDefinition.
        json_path: the path of the value; empty for a computed one.
        field: the path of the value in an object of ``/v1``; queries use it without ``$.``.
    """

    name: str
    type: str = "string"
    json_path: str = ""
    field: str = ""


class SteveSchema(msgspec.Struct, frozen=True, kw_only=True):
    """One type of the API.

    Attributes:
        id: ``<group>.<kind>`` in lower case, or the kind alone in the core group.
        plural_name: ``<group>.<resource>``, which URLs have.
        group: the API group.
        version: the version of the objects.
        kind: the kind.
        resource: the plural of the Kubernetes API.
        namespaced: whether objects have namespaces.
        verbs: the verbs that the cluster serves.
        columns: of its table.
        crd: whether a CustomResourceDefinition defines it.
        access: where each verb is granted to the user; empty before `visible_schemas`.
        collection_methods: HTTP methods of the collection.
        resource_methods: HTTP methods of an object.
        description: for people.
        actions: names of the actions of an object.
    """

    id: str
    plural_name: str
    group: str
    version: str
    kind: str
    resource: str
    namespaced: bool
    verbs: Sequence[str] = ()
    columns: Sequence[SteveColumn] = ()
    crd: bool = False
    access: Mapping[str, frozenset[AccessPlace]] = {}
    collection_methods: Sequence[str] = ()
    resource_methods: Sequence[str] = ()
    description: str = ""
    actions: Sequence[str] = ()

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind of the objects."""
        return GroupVersionKind(self.group, self.version, self.kind)

    @property
    def watchable(self) -> bool:
        """Whether a cache can follow the objects."""
        return {"list", "watch"} <= set(self.verbs)

    def as_json(self, base: str) -> JsonObject:
        """Return the schema as ``/v1/schemas`` shows it. `base` is the URL of the API."""
        access = {
            verb: [{"namespace": a.namespace or "*", "resourceName": a.name or "*"} for a in sorted(places, key=repr)]
            for verb, places in self.access.items()
        }
        attributes: JsonObject = {
            "group": self.group,
            "version": self.version,
            "kind": self.kind,
            "resource": self.resource,
            "namespaced": self.namespaced,
            "verbs": list(self.verbs),
            "columns": msgspec.to_builtins(list(self.columns)),
            "access": access,
        }
        body: JsonObject = {
            "id": self.id,
            "type": "schema",
            "links": {"self": f"{base}/schemas/{self.id}", "collection": f"{base}/{self.plural_name}"},
            "pluralName": self.plural_name,
            "collectionMethods": list(self.collection_methods),
            "resourceMethods": list(self.resource_methods),
            "resourceFields": {},
            "resourceActions": {name: {} for name in self.actions},
            "attributes": attributes,
        }
        return {**body, "description": self.description} if self.description else body


def schema_id(group: str, kind: str) -> str:
    """Return the id of the schema of a kind.

    >>> schema_id("apps", "Deployment"), schema_id("", "Pod")
    ('apps.deployment', 'pod')
    """
    return f"{group}.{kind}".lower() if group else kind.lower()


def cluster_schemas(resources: Iterable[ApiResource], definitions: Iterable[JsonObject] = ()) -> dict[str, SteveSchema]:
    """Return the schemas of a cluster by id.

    Args:
        resources: the resources of discovery, the preferred version of each group first; it is used.
        definitions: the CustomResourceDefinitions, which have the columns and descriptions.
    """
    by_resource = {(d["spec"]["group"], d["spec"]["names"]["plural"]): d for d in definitions}
    schemas: dict[str, SteveSchema] = {}
    for resource in resources:
        identity = schema_id(resource.group, resource.kind)
        if identity in schemas or not resource.kind:
            continue
        definition = by_resource.get((resource.group, resource.plural))
        plural = f"{resource.group}.{resource.plural}" if resource.group else resource.plural
        schemas[identity] = SteveSchema(
            id=identity,
            plural_name=plural,
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            resource=resource.plural,
            namespaced=resource.namespaced,
            verbs=tuple(resource.verbs),
            columns=_columns(definition, resource),
            crd=definition is not None,
            description=_description(definition, resource.version),
        )
    return schemas


def _version(definition: JsonObject | None, version: str) -> JsonObject:
    versions = definition["spec"].get("versions") or () if definition is not None else ()
    return next((v for v in versions if v["name"] == version), {})


def _description(definition: JsonObject | None, version: str) -> str:
    schema = (_version(definition, version).get("schema") or {}).get("openAPIV3Schema") or {}
    return str(schema.get("description") or "")


def _columns(definition: JsonObject | None, resource: ApiResource) -> tuple[SteveColumn, ...]:
    """Return the columns of the kind: the name, then those of the definition or of the built-in kind, or the age."""
    declared = _version(definition, resource.version).get("additionalPrinterColumns")
    printed = declared or built_in_columns(resource.group, resource.kind)
    name = SteveColumn(name="Name", json_path=".metadata.name", field="$.metadata.fields[0]")
    others = [
        SteveColumn(name=c["name"], type=c["type"], json_path=c["jsonPath"], field=f"$.metadata.fields[{number}]")
        for number, c in enumerate(printed, 1)
    ]
    return (name, *others)


def visible_schemas(schemas: Mapping[str, SteveSchema], access: AccessSet) -> dict[str, SteveSchema]:
    """Return the schemas on which a user has any permission, with their methods."""
    visible = {}
    for identity, schema in schemas.items():
        places_of = partial(access.granted, group=schema.group, resource=schema.resource, namespaced=schema.namespaced)
        granted = {verb: places for verb in schema.verbs if (places := places_of(verb))}
        if granted:
            visible[identity] = replace(
                schema,
                access=granted,
                collection_methods=_methods(_COLLECTION_METHODS, granted),
                resource_methods=_methods(_RESOURCE_METHODS, granted),
            )
    return visible


def _methods(verbs_of: Mapping[str, frozenset[str]], granted: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(method for method, verbs in verbs_of.items() if granted.keys() & verbs)


def lookup(schemas: Mapping[str, SteveSchema], name: str) -> SteveSchema | None:
    """Return the schema with an id or plural name, in any case; None without one.

    >>> lookup({}, "pods") is None
    True
    """
    lowered = name.lower()
    if (schema := schemas.get(lowered)) is not None:
        return schema
    return next((schema for schema in schemas.values() if schema.plural_name.lower() == lowered), None)
