"""Schemas, the context of a request, and the protocols of mappers, stores, access control and URLs.

Upstream: github.com/rancher/norman/types/types.go, types/server_types.go
Deviates: a store returns `ResourceList`, so that a store with its own paging need not return all objects;
a watch yields `ResourceEvent` instead of maps with the key ``.removed``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import msgspec

from opsdk.api.authentication.v1 import UserInfo
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.query import ObjectQuery
from opsdk.structured_merge.value import JsonObject, JsonValue


class Modifier(Enum):
    """The comparison of a filter."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    NOT_IN = "notin"
    NULL = "null"
    NOT_NULL = "notnull"


class Scope(Enum):
    """The scope of the objects of a schema."""

    NAMESPACE = "namespace"
    CLUSTER = ""


class ApiVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A version of the API.

    Attributes:
        group: the API group; the URL does not show it.
        version: the name, such as ``v3``.
        path: the prefix of its URLs, such as ``/v3`` or ``/v3/clusters``.
        sub_context: the next segment of the URL is an id that all schemas of the version are filtered by.
        sub_context_schema: the full path of the schema of that id, such as ``/v3/schemas/cluster``.
    """

    group: str = ""
    version: str = ""
    path: str = ""
    sub_context: bool = False
    sub_context_schema: str = msgspec.field(default="", name="filterField")

    def full_type(self, schema_id: str) -> str:
        """Return the full path of a schema.

        >>> ApiVersion(version="v3", path="/v3").full_type("cluster")
        '/v3/schemas/cluster'
        """
        return f"{self.path}/schemas/{schema_id}"


class Field(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A field of a schema.

    Attributes:
        type: see `opsdk.norman.type_expression`.
        default: set on create where the body has no value; None for none.
        nullable: null is a value.
        create: a create may set it.
        update: an update may set it.
        required: a create must set it.
        write_only: never returned.
        min_length: of a text, in characters.
        max_length: of a text, in characters.
        min: of a number.
        max: of a number.
        options: the texts that are allowed; empty for all.
        valid_chars: the characters that are allowed; empty for all.
        invalid_chars: the characters that are not allowed.
        description: one sentence for people.
        code_name: the name in the class that the schema was imported from.
        dynamic_field: embedded by another schema; removed with it.
        pointer: absent and null differ from the zero value.
    """

    type: str
    default: JsonValue = None
    nullable: bool = False
    create: bool = True
    update: bool = True
    required: bool = False
    write_only: bool = False
    min_length: int | None = None
    max_length: int | None = None
    min: int | None = None
    max: int | None = None
    options: tuple[str, ...] = ()
    valid_chars: str = ""
    invalid_chars: str = ""
    description: str = ""
    code_name: str = ""
    dynamic_field: bool = False
    pointer: bool = False


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action of a resource or collection.

    Attributes:
        input: the id of the schema of the body, or empty.
        output: the id of the schema of the result, or empty.
    """

    input: str = ""
    output: str = ""


class Filter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The modifiers that a collection accepts for a field."""

    modifiers: tuple[Modifier, ...] = (Modifier.EQ, Modifier.NE, Modifier.IN, Modifier.NOT_IN)


# ------------------------------------------------------------------ queries
class PageMarkers(msgspec.Struct, frozen=True, kw_only=True):
    """Markers of the adjacent pages: the id of their first object, ``""`` for the start, None without such a page.

    Attributes:
        previous: of the page before.
        next: of the page after.
        last: of the last page.
        total: the number of objects on all pages.
    """

    previous: str | None = None
    next: str | None = None
    last: str | None = None
    total: int = 0


class ResourceList(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a list.

    Attributes:
        items: external objects.
        markers: set by a store that filters, sorts and pages itself; with None, the caller does all three.
    """

    items: Sequence[JsonObject]
    markers: PageMarkers | None = None


class ResourceEventType(Enum):
    """The type of an event."""

    CHANGE = "resource.change"
    REMOVE = "resource.remove"


class ResourceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an object in a store.

    Attributes:
        type: the type of the change.
        data: the external object; after a removal its last state.
        revision: the value of `since` that resumes after it; empty if the store cannot resume.
    """

    type: ResourceEventType
    data: JsonObject
    revision: str = ""


class ResourceEvents(Protocol):
    """An iterator over the changes of a store, such as an asynchronous generator. Close it to end the watch."""

    def __aiter__(self) -> AsyncIterator[ResourceEvent]:
        """Return itself."""
        ...

    def __anext__(self) -> Awaitable[ResourceEvent]:
        """Return the next change. Raises ``StopAsyncIteration`` at the end."""
        ...

    def aclose(self) -> Awaitable[object]:
        """End the watch."""
        ...


# ------------------------------------------------------------------ protocols
class Mapper(Protocol):
    """Maps between the internal form of an object, as Kubernetes stores it, and the external one of clients."""

    def from_internal(self, data: JsonObject) -> None:
        """Change an internal object to its external form, in place."""
        ...

    def to_internal(self, data: JsonObject) -> None:
        """Change an external object to its internal form, in place. Raises `NormanError` where that is not possible."""
        ...

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the fields of a schema as the data changes. Raises `UsageError` for a missing field."""
        ...


class SchemaLookup(Protocol):
    """Finds schemas."""

    def schema(self, version: ApiVersion | None, name: str) -> Schema | None:
        """Return a schema by id, plural or full path; None if there is none."""
        ...

    def schemas_for_version(self, version: ApiVersion) -> Sequence[Schema]:
        """Return all schemas of a version."""
        ...

    def versions(self) -> Sequence[ApiVersion]:
        """Return all versions, in the order in which they were added."""
        ...

    def references(self, schema: Schema) -> Sequence[BackReference]:
        """Return the fields that refer to a schema."""
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


class UrlBuilder(Protocol):
    """Builds the URLs of links and actions, behind proxies too."""

    def current(self) -> str:
        """Return the URL of the request without its query."""
        ...

    def with_query(self, **changes: str | None) -> str:
        """Return the URL of the request with some parameters changed; None removes one."""
        ...

    def relative_to_root(self, path: str) -> str:
        """Return the URL of a path of this server."""
        ...

    def version(self, version: ApiVersion) -> str:
        """Return the URL of a version."""
        ...

    def collection(self, schema: Schema, *, filters: Mapping[str, str] | None = None) -> str:
        """Return the URL of a collection, filtered by fields."""
        ...

    def collection_action(self, schema: Schema, action: str) -> str:
        """Return the URL of an action of a collection."""
        ...

    def resource(self, schema: Schema, object_id: str) -> str:
        """Return the URL of an object."""
        ...

    def link(self, schema: Schema, object_id: str, name: str) -> str:
        """Return the URL of a link of an object."""
        ...

    def action(self, schema: Schema, object_id: str, action: str) -> str:
        """Return the URL of an action of an object."""
        ...

    def schema(self, schema: Schema) -> str:
        """Return the URL of a schema."""
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
        actions: names and URLs of what the client can do now.
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


@dataclass(slots=True, kw_only=True)
class ApiContext:
    """One request, parsed.

    Attributes:
        request: the HTTP request.
        schemas: all schemas.
        access: the access control.
        urls: builds links.
        method: the HTTP method, after ``_method`` and ``?action=remove``.
        version: of the URL; None at the root.
        schema: of the URL; None if it names none.
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
    urls: UrlBuilder
    method: str = "GET"
    version: ApiVersion | None = None
    schema: Schema | None = None
    id: str = ""
    link: str = ""
    action: str = ""
    sub_context: Mapping[str, str] = field(default_factory=dict)
    response_format: str = "json"
    user: UserInfo | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    def option(self, name: str) -> str:
        """Return the parameter ``_name`` of the query, or an empty text."""
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
class Schema:
    """A type of the API: its fields, methods, actions and filters, and its request handlers.

    Attributes:
        id: the name in singular, such as ``catalog``.
        version: the API version.
        plural_name: the name in URLs; guessed from the id if empty.
        base_type: the id of the schema that this one is a kind of; its own id if empty.
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
        dynamic_schema_version: changes when the fields of a schema that was made at run time change.
        scope: whether objects have a namespace.
        status: the Kubernetes kind has a status subresource.
        enabled: returns False while the schema is switched off.
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

    id: str
    version: ApiVersion
    plural_name: str = ""
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
