"""Creates the CustomResourceDefinitions of schemas, and assigns stores to the schemas.

Upstream: github.com/rancher/norman/store/crd/init.go (Factory, BatchCreateCRDs, AssignStores)
Deviates: the definitions are applied with server-side apply, so that a later version of a program can change its own;
the kinds can have structural schemas; rejected names are an error at once, not after 60 seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.crd_markers import INT_OR_STRING, PRESERVE
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.apimachinery.plurals import guess_plural
from opsdk.client.client import Client
from opsdk.errors import NoMatchError, UsageError
from opsdk.norman.mappers.kubernetes import GVK, gvk_of_schema
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.rbac_access import RESOURCE
from opsdk.norman.schema_parts import Field, Scope
from opsdk.norman.stores.proxy import ClientFor, ProxyStore
from opsdk.norman.type_expression import TypeExpression
from opsdk.recipes.definitions import apply_definitions, wait_established
from opsdk.structured_merge.value import JsonObject

__all__ = ["assign_stores", "create_definitions", "definition_for"]

FIELD_OWNER: Final = "opsdk-norman"
"""The field manager of the definitions."""

_DEFINITION: Final = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")

# Kubernetes declares some of these, and norman adds the others to each object.
_NOT_DECLARED: Final = frozenset({"apiVersion", "kind", "metadata", "id", "type", "links", "actions"})

_TYPES: Final[Mapping[str, JsonObject]] = {
    "base64": {"type": "string", "format": "byte"},
    "boolean": {"type": "boolean"},
    "byte": {"type": "integer"},
    "date": {"type": "string", "format": "date-time"},
    "float": {"type": "number"},
    "int": {"type": "integer", "format": "int64"},
    "intOrString": {INT_OR_STRING: True},
    "json": {PRESERVE: True},
}


async def assign_stores(
    client: Client,
    schemas: SchemaLookup,
    assigned: Sequence[Schema],
    *,
    client_for: ClientFor | None = None,
    structural: bool = False,
    within: float = 60.0,
) -> list[Unstructured]:
    """Create the definitions of schemas, wait until the server serves them, and give each schema a `ProxyStore`.

    Call it before the server of the API starts. A definition of another program is not changed; its schema also gets
    a store. No schema gets a store if one definition fails.

    >>> async def start(cluster: Cluster, registry: SchemaRegistry, version: ApiVersion) -> None:
    ...     sites = registry.schema(version, "sites")
    ...     assert sites is not None
    ...     await assign_stores(cluster.uncached, registry, [sites])

    Args:
        client: creates the definitions; needs the permission to get and patch them.
        schemas: the registry of nested schemas.
        assigned: the schemas; each version has a group.
        client_for: the client of the stores for each request, such as `ImpersonatingClients`; default: `client`.
        structural: see `definition_for`.
        within: seconds for all definitions.

    Returns:
        The definitions, established, in the order of the schemas.

    Raises:
        UsageError: a schema has no group.
        NoMatchError: the server rejects the names of a definition; the message has its name.
        DeadlineError: a definition is not established in time; the message has its name.
        ApiError: the server rejected a definition.
    """
    definitions = await create_definitions(client, schemas, assigned, structural=structural, within=within)
    for schema, definition in zip(assigned, definitions, strict=True):
        gvk = gvk_of_schema(schema)
        names = to_dict(definition)["spec"]["names"]
        schema.attributes[GVK] = gvk
        schema.attributes[RESOURCE] = GroupVersionResource(gvk.group, gvk.version, names["plural"])
        schema.store = ProxyStore(client_for or client, unstructured_kind(gvk.api_version, names["kind"]))
    return definitions


async def create_definitions(
    client: Client, schemas: SchemaLookup, defined: Sequence[Schema], *, structural: bool = False, within: float = 60.0
) -> list[Unstructured]:
    """Create the definitions of schemas, and return them when all are established; polls every 0.5 s.

    Arguments and errors are those of `assign_stores`.
    """
    start = monotonic()
    trees = [definition_for(schema, schemas, structural=structural) for schema in defined]
    names = [tree["metadata"]["name"] for tree in trees]
    existing = {name: await client.get_or_none(_DEFINITION, name, uncached=True) for name in names}
    own = [tree for tree in trees if _is_own(existing[tree["metadata"]["name"]])]
    await apply_definitions(client, own, field_owner=FIELD_OWNER, within=within)
    remaining = within - (monotonic() - start)
    definitions = await wait_established(client, names, within=remaining)
    for schema, definition in zip(defined, definitions, strict=True):
        version = gvk_of_schema(schema).version
        if version not in {each["name"] for each in to_dict(definition)["spec"]["versions"] if each["served"]}:
            raise NoMatchError(
                f"{definition.metadata.name} does not serve the version {version}: another program created the"
                f" definition; import its own version, or delete it"
            )
    return definitions


def definition_for(schema: Schema, schemas: SchemaLookup, *, structural: bool = False) -> JsonObject:
    """Return the CustomResourceDefinition of a schema, as a JSON tree. Pure.

    >>> from opsdk.norman.schema_parts import ApiVersion
    >>> from opsdk.norman.registry import SchemaRegistry
    >>> version = ApiVersion(group="example.com", version="v3", path="/v3")
    >>> definition_for(Schema(id="site", version=version), SchemaRegistry())["metadata"]["name"]
    'sites.example.com'

    Args:
        schema: the schema.
        schemas: the registry of nested schemas.
        structural: declare the internal fields with their types and limits, so that the API server checks and prunes
            objects. Otherwise, as in norman, the kind accepts any fields.

    Raises:
        UsageError: the schema has no group.
    """
    gvk = gvk_of_schema(schema)
    if not gvk.group:
        raise UsageError(f"{schema.full_type} has no group, which a definition needs: set ApiVersion.group")
    resource = schema.attributes.get(RESOURCE)
    known_plural = resource.resource if isinstance(resource, GroupVersionResource) else schema.plural_name
    plural = (known_plural or guess_plural(schema.id)).lower()
    node: JsonObject = {"type": "object", PRESERVE: True}
    if structural:
        node = _object(schema.internal or schema, schemas, root=True, parents=frozenset())
    version: JsonObject = {"name": gvk.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": node}}
    if schema.status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{gvk.group}"},
        "spec": {
            "group": gvk.group,
            "names": {
                "kind": gvk.kind,
                "listKind": f"{gvk.kind}List",
                "plural": plural,
                "singular": gvk.kind.lower(),
            },
            "scope": "Namespaced" if schema.scope is Scope.NAMESPACE else "Cluster",
            "versions": [version],
        },
    }


def _is_own(existing: Unstructured | None) -> bool:
    """Whether a definition is missing or was created by this package. Those of other programs are not changed."""
    return existing is None or any(entry.manager == FIELD_OWNER for entry in existing.metadata.managed_fields)


def _object(schema: Schema, schemas: SchemaLookup, *, root: bool, parents: frozenset[str]) -> JsonObject:
    properties: JsonObject = {}
    required: list[str] = []
    for name, field in sorted(schema.resource_fields.items()):
        if root and name in _NOT_DECLARED:
            continue
        properties[name] = _field(field, schema, schemas, parents | {schema.full_type})
        if field.required:
            required.append(name)
    node: JsonObject = {"type": "object", "properties": properties}
    if schema.description:
        node["description"] = schema.description
    return {**node, "required": required} if required else node


def _field(field: Field, schema: Schema, schemas: SchemaLookup, parents: frozenset[str]) -> JsonObject:
    """Return a field as a node of a structural schema, with the limits that its type has."""
    node = _type(TypeExpression.parse(field.type), schema, schemas, parents)
    limits: JsonObject = {}
    if node.get("type") in ("integer", "number"):
        limits = {"minimum": field.min, "maximum": field.max}
    elif node.get("type") == "string":
        limits = {"minLength": field.min_length, "maxLength": field.max_length, "enum": list(field.options) or None}
    node |= {name: limit for name, limit in limits.items() if limit is not None}
    if field.nullable:
        node["nullable"] = True
        if "enum" in node:
            # Kubernetes also validates null against the enum.
            node["enum"] = [*node["enum"], None]
    if field.description:
        node["description"] = field.description
    return node


def _type(expression: TypeExpression, schema: Schema, schemas: SchemaLookup, parents: frozenset[str]) -> JsonObject:
    if expression.element is not None and not expression.is_reference:
        element = _type(expression.element, schema, schemas, parents)
        if expression.is_map:
            return {"type": "object", "additionalProperties": element}
        return {"type": "array", "items": element}
    if expression.is_simple:
        return dict(_TYPES.get(expression.name, {"type": "string"}))
    nested = schemas.schema(schema.version, expression.target)
    if nested is None or nested.full_type in parents:
        # A structural schema cannot be recursive.
        return {"type": "object", PRESERVE: True}
    return _object(nested.internal or nested, schemas, root=False, parents=parents)
