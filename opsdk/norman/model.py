"""Schemas, the context of a request, and the ports of mappers, stores and access control.

They refer to each other: a schema has a store and handlers, which get a context, which has the schemas.

Upstream: github.com/rancher/norman/types/types.go, types/server_types.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from opsdk.api.authentication.v1 import UserInfo
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.schema_parts import Action, ApiVersion, Field, Filter, SchemaNames, Scope
from opsdk.norman.store_results import ResourceEvents, ResourceList
from opsdk.norman.urls import RequestUrls
from opsdk.structured_merge.value import JsonObject

__all__ = [
    "AccessControl",
    "ApiContext",
    "GenericCollection",
    "Mapper",
    "RawResource",
    "RequestResult",
    "Schema",
    "SchemaLookup",
    "Store",
]


class Mapper(Protocol):
    """Maps between the internal form of an object, as Kubernetes stores it, and the external one of clients.

    *Outward* means to the external form (`from_internal`), *inward* to the internal one (`to_internal`).
    """

    def from_internal(self, data: JsonObject) -> None:
        """Change an internal object to its external form, in place."""
        ...

    def to_internal(self, data: JsonObject) -> None:
        """Change an external object to its internal form, in place. Raises `NormanError` where that is not possible."""
        ...

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the fields of a schema as the data changes. Raises `UsageError` for a missing field."""
        ...


class Store(Protocol):
    """Stores the objects of a schema. All methods take and return external objects, which the caller owns."""

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object. Raises `NormanError` NotFound."""
        ...

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return the objects that match, or all of them (see `ResourceList`)."""
        ...

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object and return it."""
        ...

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Change the fields in `data`, and return the object. Raises `NormanError` NotFound or Conflict."""
        ...

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Delete an object. Returns it if it still exists, as while finalizers run. Raises `NormanError` NotFound."""
        ...

    def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceEvents:
        """Yield changes from now on, until closed. Ends if the caller reads too slowly."""
        ...


class AccessControl(Protocol):
    """Authorizes the requests of a client. The ``can_`` methods raise `NormanError` PermissionDenied."""

    async def can_list(self, context: ApiContext, schema: Schema) -> None:
        """Check a list."""
        ...

    async def can_get(self, context: ApiContext, schema: Schema) -> None:
        """Check a read of one object."""
        ...

    async def can_create(self, context: ApiContext, schema: Schema, data: JsonObject | None = None) -> None:
        """Check a create; of any object if `data` is None."""
        ...

    async def can_update(self, context: ApiContext, schema: Schema, data: JsonObject | None) -> None:
        """Check an update; of any object if `data` is None."""
        ...

    async def can_delete(self, context: ApiContext, schema: Schema, data: JsonObject | None) -> None:
        """Check a delete; of any object if `data` is None."""
        ...

    async def can_do(self, context: ApiContext, group: str, resource: str, verb: str, namespace: str = "") -> None:
        """Check a verb of a Kubernetes resource."""
        ...

    async def visible(self, context: ApiContext, schema: Schema) -> VisibleObjects:
        """Return the objects that the client may list and watch."""
        ...


@dataclass(slots=True, kw_only=True)
class RawResource:
    """An object in a response. Formatters change it.

    Attributes:
        id: the id, or empty for an object without one.
        type: the id of the schema.
        schema: the schema.
        values: the fields.
        links: names and URLs.
        actions: names and URLs of the actions that the client can run now.
    """

    id: str
    type: str
    schema: Schema
    values: JsonObject
    links: dict[str, str] = field(default_factory=dict)
    actions: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class GenericCollection:
    """A collection in a response. Collection formatters change it.

    Attributes:
        schema: the schema of the objects.
        data: the objects.
        links: names and URLs.
        actions: names and URLs.
        create_types: ids of schemas that a POST accepts, and the URLs for it.
        pagination: as on the wire.
        sort: as on the wire.
        filters: as on the wire.
    """

    schema: Schema
    data: list[RawResource]
    links: dict[str, str] = field(default_factory=dict)
    actions: dict[str, str] = field(default_factory=dict)
    create_types: dict[str, str] = field(default_factory=dict)
    pagination: JsonObject = field(default_factory=dict)
    sort: JsonObject = field(default_factory=dict)
    filters: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContext:
    """Describes a request. Each step of the server returns a new context with its results.

    Attributes:
        request: the HTTP request.
        schemas: all schemas.
        access: the access control.
        urls: builds links.
        method: the HTTP method, after ``_method`` and ``?action=remove``.
        version: of the URL; None at the root.
        type: the name of a type in the URL, or empty.
        schema: of the type in the URL; None without one.
        id: of the URL; empty for a collection.
        link: of the URL, or empty.
        action: of the query, or empty.
        sub_context: the full path of the schema of the sub-context, and the id in the URL.
        response_format: ``json``, ``yaml`` or ``html``.
        user: the authenticated user, or None if the server does not authenticate.
        attributes: for handlers, formatters and access control.
    """

    request: HttpRequest
    schemas: SchemaLookup
    access: AccessControl
    urls: RequestUrls
    method: str = "GET"
    version: ApiVersion | None = None
    type: str = ""
    schema: Schema | None = None
    id: str = ""
    link: str = ""
    action: str = ""
    sub_context: Mapping[str, str] = field(default_factory=dict)
    response_format: str = "json"
    user: UserInfo | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def client(self) -> str:
        """The name of the user, or the address of a client without one: limits count by it."""
        return (self.user.username if self.user is not None else "") or self.request.client

    def option(self, name: str) -> str:
        """Return the parameter ``_name`` of the query, or an empty string."""
        return self.request.query.get(f"_{name}")


RequestResult = HttpResponse | RawResource | GenericCollection | JsonObject | None
"""The result of a handler: a response, or a value for the writer of the request's format; None for 204."""

RequestHandler = Callable[[ApiContext, "NextHandler"], Awaitable[RequestResult]]
"""Handles a request; ``await next_handler(context)`` calls the default handler."""

NextHandler = Callable[[ApiContext], Awaitable[RequestResult]]
"""The default handler."""

ActionHandler = Callable[[ApiContext, str, JsonObject], Awaitable[RequestResult]]
"""Runs an action; gets its name and the input, which is checked against the schema of the action."""

Formatter = Callable[[ApiContext, RawResource], None]
"""Changes an object before it is written."""

CollectionFormatter = Callable[[ApiContext, GenericCollection], None]
"""Changes a collection before it is written."""

InputFormatter = Callable[[ApiContext, "Schema", JsonObject, bool], None]
"""Changes a body before a create (True) or an update (False)."""

Validator = Callable[[ApiContext, "Schema", JsonObject], None]
"""Checks a body after the checks of its fields. Raises `NormanError`."""

ErrorHandler = Callable[[ApiContext, Exception], HttpResponse | None]
"""Returns the response for an error, or None for the default one."""


@dataclass(slots=True, kw_only=True)
class Schema(SchemaNames):
    """A type of the API: its fields, methods, actions and filters, and its request handlers.

    Attributes:
        id: the name in singular, such as ``catalog``.
        version: the API version.
        plural_name: the name in URLs; guessed from the id if empty.
        base_type: the id of the schema of which this schema is a special case; its own id if empty.
        description: one sentence for people.
        embed: its fields are merged into the schema `embed_type`.
        embed_type: the id of that schema.
        resource_methods: HTTP methods of one object.
        resource_fields: by name.
        resource_actions: by name.
        collection_methods: HTTP methods of the collection.
        collection_fields: by name.
        collection_actions: by name.
        collection_filters: the fields that a query may filter and sort by.
        dynamic_schema_version: changes when the fields of a schema that was created at run time change.
        scope: whether objects have a namespace.
        status: the Kubernetes kind has a status subresource.
        enabled: returns False while the schema is disabled.
        internal: the fields as Kubernetes has them, or None.
        mapper: maps objects, or None.
        store: the store of the objects, or None.
        action_handler: runs all actions.
        link_handler: serves ``/<type>/<id>/<link>``.
        list_handler: serves GET.
        create_handler: serves POST.
        update_handler: serves PUT.
        delete_handler: serves DELETE.
        formatter: changes each object before it is written.
        collection_formatter: changes each collection before it is written.
        input_formatter: changes each body before it is checked.
        validator: checks each body.
        error_handler: returns the response for an error.
        attributes: for stores and formatters, such as the GroupVersionResource.
    """

    base_type: str = ""
    description: str = ""
    embed: bool = False
    embed_type: str = ""
    resource_methods: tuple[str, ...] = ()
    resource_fields: dict[str, Field] = field(default_factory=dict)
    resource_actions: dict[str, Action] = field(default_factory=dict)
    collection_methods: tuple[str, ...] = ()
    collection_fields: dict[str, Field] = field(default_factory=dict)
    collection_actions: dict[str, Action] = field(default_factory=dict)
    collection_filters: dict[str, Filter] = field(default_factory=dict)
    dynamic_schema_version: str = ""
    scope: Scope = Scope.CLUSTER
    status: bool = False
    enabled: Callable[[], bool] | None = None
    internal: Schema | None = None
    mapper: Mapper | None = None
    store: Store | None = None
    action_handler: ActionHandler | None = None
    link_handler: RequestHandler | None = None
    list_handler: RequestHandler | None = None
    create_handler: RequestHandler | None = None
    update_handler: RequestHandler | None = None
    delete_handler: RequestHandler | None = None
    formatter: Formatter | None = None
    collection_formatter: CollectionFormatter | None = None
    input_formatter: InputFormatter | None = None
    validator: Validator | None = None
    error_handler: ErrorHandler | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def full_type(self) -> str:
        """The full path, such as ``/v3/schemas/catalog``."""
        return self.version.full_type(self.id)

    @property
    def is_enabled(self) -> bool:
        """Whether the schema is enabled now."""
        return self.enabled is None or self.enabled()

    def __repr__(self) -> str:
        return f"<Schema {self.full_type} with {len(self.resource_fields)} fields>"


class BackReference(msgspec.Struct, frozen=True):
    """A field that refers to a schema.

    Attributes:
        field_name: the field.
        schema: the schema with the field.
    """

    field_name: str
    schema: Schema


class SchemaLookup:
    """Finds schemas, by version and id. A `SchemaRegistry` adds them."""

    def __init__(self) -> None:
        self._versions: dict[str, ApiVersion] = {}
        self._schemas: dict[str, dict[str, Schema]] = {}
        self._by_plural: dict[str, dict[str, Schema]] = {}
        self._references: dict[str, list[BackReference]] = {}

    def schema(self, version: ApiVersion | None, name: str) -> Schema | None:
        """Return a schema by id, plural or full path (``/v3/schemas/catalog``); None if it does not exist.

        Letter case does not matter if no schema has the exact name.
        """
        path, slash, schema_id = name.rpartition("/schemas/")
        if not slash:
            path, schema_id = (version.path if version is not None else "core"), name
        schemas = self._schemas.get(path)
        if not schemas:
            return None
        if (schema := schemas.get(schema_id) or self._by_plural[path].get(schema_id)) is not None:
            return schema
        lower = schema_id.lower()
        return next((s for s in schemas.values() if lower in (s.id.lower(), s.plural_name.lower())), None)

    def schemas_for_version(self, version: ApiVersion) -> Sequence[Schema]:
        """Return all schemas of a version, in the order in which they were added."""
        return tuple(self._schemas.get(version.path, {}).values())

    def schemas(self) -> Sequence[Schema]:
        """Return all schemas, by version in the order in which they were added."""
        return [schema for schemas in self._schemas.values() for schema in schemas.values()]

    def versions(self) -> Sequence[ApiVersion]:
        """Return all versions, in the order in which they were added."""
        return tuple(self._versions.values())

    def references(self, schema: Schema) -> Sequence[BackReference]:
        """Return the fields of other schemas that refer to a schema."""
        return tuple(self._references.get(schema.full_type, ()))
