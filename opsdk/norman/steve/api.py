"""The API: maps the requests of users to responses.

Upstream: github.com/rancher/apiserver/pkg/server/server.go, pkg/parse; github.com/rancher/steve/pkg/server
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Self

import msgspec
from cachetools import LRUCache
from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.aio.large_work import compute
from opsdk.aio.slicer import Slicer
from opsdk.aio.tasks import TaskOwner
from opsdk.apiserver.auth.user import User
from opsdk.base.options import Options
from opsdk.cache.entry import StoreEntry, make_entry
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ApiError, CacheError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.request_rules import query_pairs
from opsdk.http.server.response import HttpResponse, json_response
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.access_set import EVERYTHING, VisibleObjects
from opsdk.norman.collections.access_set_store import AccessSetStore
from opsdk.norman.collections.encoded_objects import EncodedObjects
from opsdk.norman.collections.filter import FilterCondition, FilterOperator, OrFilter
from opsdk.norman.collections.indexed_list import Counts, IndexedList, IndexedListOptions, IndexedPage
from opsdk.norman.collections.kind_list import KindList, ListForm
from opsdk.norman.collections.kind_lists import KindLists
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.server.reading import read_body, read_raw
from opsdk.norman.steve.cluster_schemas import SteveSchema, lookup, schema_id, visible_schemas
from opsdk.norman.steve.definitions import definitions_of
from opsdk.norman.steve.parameters import ListParameters, parse_parameters
from opsdk.norman.steve.printer_fields import STATE, decorator
from opsdk.norman.steve.raw_fields import raw_fields
from opsdk.norman.steve.resources import (
    FIELD_PARAMETERS,
    ResourceLinks,
    SteveUrls,
    collection,
    count_resource,
    error_body,
    from_resource,
    own_fields,
    plain_collection,
    select_fields,
    to_resource,
    with_data,
)
from opsdk.norman.steve.schema_catalog import SchemaCatalog
from opsdk.norman.steve.store import ClusterStore, SteveStore, Target
from opsdk.norman.steve.template import SchemaTemplate, SchemaTemplates
from opsdk.norman.user_transports import UserTransports
from opsdk.structured_merge.value import JsonObject

log = logging.getLogger(__name__)

_SINGULAR_NAMES = {"schema": "schemas", "count": "counts", "schemadefinition": "schemadefinitions"}
_RESOURCE_LENGTH = 2
_MAX_BODY = 3 << 20
"""Maximum bytes of a body, as in kube-apiserver."""


class SteveOptions(Options, frozen=True, kw_only=True):
    """Options of the API.

    Attributes:
        templates: customizations of types.
        lists: limits of each list.
        max_users: access sets that are kept.
        project_label: the label of a Namespace with the id of its project.
    """

    templates: Sequence[SchemaTemplate] = ()
    lists: IndexedListOptions = IndexedListOptions()
    max_users: int = 1000
    project_label: str = "field.cattle.io/projectId"


class SteveApi(Closing):
    """Serves every type of a cluster as a REST API. An async context manager over a started cluster.

    Reads of single objects and writes go to the cluster as the user; lists and watches come from a cache of the
    program, filtered by the RBAC permissions of each user.

    Args:
        cluster: its user must be allowed to impersonate, and to list and watch the types and RBAC.
        options: see `SteveOptions`.

    Attributes:
        access: the access sets of users.
        catalog: the schemas for all users.
        transports: connections that impersonate the users.
    """

    def __init__(self, cluster: Cluster, options: SteveOptions | None = None) -> None:
        self.options = options or SteveOptions()
        self.templates = SchemaTemplates(self.options.templates)
        self.access = AccessSetStore(cluster.cache, max_users=self.options.max_users)
        self.catalog = SchemaCatalog(cluster, self.templates.customize)
        self._lists = KindLists(cluster, self.options.lists)
        self.transports = UserTransports(cluster.config)
        self._default_store = ClusterStore(self.transports)
        self._tasks = TaskOwner("steve")
        self._visible: LRUCache[str, Mapping[str, SteveSchema]] = LRUCache(self.options.max_users)

    async def __aenter__(self) -> Self:
        """Read RBAC and the schemas. Raises `OpsdkError` if the cluster denies them."""
        await self.access.__aenter__()
        await self.catalog.__aenter__()
        self.catalog.changes.listen(self._on_schemas)
        return self

    def _on_schemas(self, _: int, schemas: Mapping[str, SteveSchema]) -> None:
        self._visible.clear()
        sources = {identity: _form_source(schema) for identity, schema in schemas.items()}
        self._tasks.start(self._lists.retain(sources), name="close lists")

    def schemas_for(self, user: User) -> Mapping[str, SteveSchema]:
        """Return the schemas that a user sees."""
        access = self.access.access_for(user)
        schemas = self._visible.get(access.id)
        if schemas is None:
            schemas = self._visible[access.id] = visible_schemas(self.catalog.schemas, access)
        return schemas

    def schema_for(self, user: User, name: str) -> SteveSchema:
        """Return the schema with an id or plural name. Raises `NormanError` (404) if the user does not see it."""
        schema = lookup(self.schemas_for(user), name)
        if schema is None:
            # Rancher's UI looks for these words.
            raise ErrorCode.NOT_FOUND.error(f"failed to find schema {name[:200]}")
        return schema

    # -------------------------------------------------------------- requests
    async def handle(self, request: HttpRequest, user: User, urls: SteveUrls) -> HttpResponse:
        """Return the response to the request of a user; errors become responses too. `urls` builds the links."""
        try:
            return await self._route(request, user, urls)
        except Exception as error:  # noqa: BLE001 - templates and stores may raise anything
            return error_response(request, error)

    async def _route(self, request: HttpRequest, user: User, urls: SteveUrls) -> HttpResponse:
        """Call what serves the first segment of the path: a built-in resource, or the type of that name."""
        path = [segment for segment in request.path.removeprefix(urls.prefix).split("/") if segment]
        if not path:
            _require_get(request)
            return json_response(self._root(user, urls))
        kind = _SINGULAR_NAMES.get(path[0].lower(), path[0].lower())
        builtin = {"schemas": self._schemas, "counts": self._counts, "schemadefinitions": self._definition}.get(kind)
        if builtin is not None:
            _require_get(request)
            return json_response(await builtin(user, urls, "/".join(path[1:])))
        schema = self.schema_for(user, path[0])
        namespace, name = _namespace_and_name(schema, path[1:])
        query = tuple(query_pairs(request.query.raw))
        target = Target(user=user, schema=schema, namespace=namespace, name=name, query=query)
        return await (self._on_resource if name else self._on_collection)(request, target, urls)

    def _root(self, user: User, urls: SteveUrls) -> JsonObject:
        base, types = urls.base, self.schemas_for(user).values()
        links = {schema.plural_name: urls.collection(schema) for schema in types}
        links |= {name: f"{base}/{name}" for name in ("schemas", "counts", "subscribe")}
        return {"id": urls.prefix.strip("/"), "type": "apiRoot", "links": {"self": base, **links}}

    async def _schemas(self, user: User, urls: SteveUrls, identity: str) -> JsonObject:
        if identity:
            return self.schema_for(user, identity).as_json(urls.base)
        schemas = self.schemas_for(user)
        return plain_collection("schema", [schema.as_json(urls.base) for schema in schemas.values()], urls)

    async def _definition(self, user: User, urls: SteveUrls, identity: str) -> JsonObject:
        schema = self.schema_for(user, identity)
        async with self.transports.transport(user) as transport:
            definition = await definitions_of(transport, schema)
        links = {"self": f"{urls.base}/schemaDefinitions/{schema.id}"}
        return {"id": schema.id, "type": "schemaDefinition", "links": links, "actions": {}, **definition}

    # -------------------------------------------------------------- counts
    async def _counts(self, user: User, urls: SteveUrls, identity: str) -> JsonObject:
        counts = count_resource(await self.counts(user), urls)
        return counts if identity else plain_collection("count", [counts], urls)

    async def counts(self, user: User, *, of: Sequence[str] | None = None) -> dict[str, Counts]:
        """Return the number of objects that a user may see, by the id of their type.

        The first call starts the cache of every type that the user may list and watch.

        Args:
            user: the user of the request.
            of: only these types.
        """
        schemas = [
            schema
            for schema in self.schemas_for(user).values()
            if schema.watchable and "watch" in schema.access and (of is None or schema.id in of)
        ]
        results = await asyncio.gather(*(self._count(user, schema) for schema in schemas))
        return {schema.id: counts for schema, counts in zip(schemas, results, strict=True) if counts is not None}

    async def _count(self, user: User, schema: SteveSchema) -> Counts | None:
        try:
            opened = await self.list_of(schema)
        except CacheError as error:
            log.warning("cannot count the objects of %s: %s", schema.id, error)
            return None
        return await opened.counts(self.visible(user, schema, "list"), STATE)

    def visible(self, user: User, schema: SteveSchema, verb: str) -> VisibleObjects:
        """Return the objects of a type that a user may list or watch."""
        access = self.access.access_for(user)
        return access.visible(verb, schema.group, schema.resource, namespaced=schema.namespaced)

    # -------------------------------------------------------------- collections
    async def list_of(self, schema: SteveSchema) -> KindList:
        """Return the cached list of a type. Raises `CacheError` if the cluster denies it."""
        return await self._lists.open(schema.id, schema.gvk, _form_of(schema))

    async def _on_collection(self, request: HttpRequest, target: Target, urls: SteveUrls) -> HttpResponse:
        """Create an object, or list: encode the objects of a page in slices, so that other requests can run."""
        _check_method(request, target.schema.collection_methods)
        if request.method == "POST":
            tree = await self._store(target).create(target, from_resource(await _read_object(request)))
            return json_response(self.resource(tree, target, urls), status=201)
        parameters = parse_parameters(target.query)
        page, rows = await self._page(target, parameters)
        encode = self.encoder(rows, target, urls)
        data, slicer = [], Slicer()
        for entry in () if parameters.summary_only else page.entries:
            data.append(await encode(entry))
            if slicer.add(entry.size):
                await asyncio.sleep(0)
        body = with_data(collection(target.schema, page, urls, parameters), data)
        return HttpResponse(200, [("content-type", "application/json")], body)

    def encoder(
        self, rows: EncodedObjects, target: Target, urls: SteveUrls
    ) -> Callable[[StoreEntry], Awaitable[bytes]]:
        """Return the function that encodes cached objects of a type as the user sees them now."""
        links = ResourceLinks(target.schema, self.access.access_for(target.user), urls)
        plain = not self.templates.formatted(target.schema) and not any(
            name in FIELD_PARAMETERS for name, _ in target.query
        )

        async def encode(entry: StoreEntry) -> bytes:
            linked = links.add_to(await rows.get(entry), *entry.key)
            if plain:
                return linked
            resource = await compute(entry.size, msgspec.json.decode, linked)
            return msgspec.json.encode(self._formatted(resource, target))

        return encode

    async def _page(self, target: Target, parameters: ListParameters) -> tuple[IndexedPage, EncodedObjects]:
        schema, filters = target.schema, await self._namespace_filters(target, parameters)
        if not schema.watchable or self.templates.custom_store(schema):
            return await self._uncached_page(target, parameters, filters)
        opened = await self.list_of(schema)
        query = parameters.query(self.visible(target.user, schema, "list"), filters)
        return await opened.page(query), opened.rows

    async def _uncached_page(
        self, target: Target, parameters: ListParameters, filters: tuple[OrFilter, ...] = ()
    ) -> tuple[IndexedPage, EncodedObjects]:
        """List a type that cannot be watched, as the user."""
        form = _form_of(target.schema)
        objects = IndexedList(form.read, self.options.lists)
        for tree in await self._store(target).list(target):
            metadata = {"resourceVersion": "1", **tree["metadata"]}
            objects.put(make_entry(msgspec.json.encode({**tree, "metadata": metadata}))[0])
        query = replace(parameters.query(EVERYTHING, filters), revision=None)
        return objects.page(query), EncodedObjects(form.show, 0)

    async def _namespace_filters(self, target: Target, parameters: ListParameters) -> tuple[OrFilter, ...]:
        """Return the filters of the namespace in the URL, and of the projects and namespaces of the parameters."""
        filters = (_in_namespaces(target.namespace),) if target.namespace else ()
        selected = parameters.projects_or_namespaces
        if selected is None:
            return filters
        of_namespaces = selected.filters(self.options.project_label)
        if (target.schema.group, target.schema.resource) == ("", "namespaces"):
            return of_namespaces
        namespaces = await self.list_of(self.catalog.schemas[schema_id("", "Namespace")])
        page = await namespaces.page(ObjectQuery(filters=of_namespaces))
        return (*filters, _in_namespaces(*(entry.key.name for entry in page.entries)))

    # -------------------------------------------------------------- objects
    async def _on_resource(self, request: HttpRequest, target: Target, urls: SteveUrls) -> HttpResponse:
        """Run an action of an object, or read, replace, patch or delete it by the store of its type."""
        if request.method == "POST" and request.query.get("action"):
            return await self._action(request, target, request.query.get("action"))
        _check_method(request, target.schema.resource_methods)
        store = self._store(target)
        match request.method:
            case "PUT":
                tree = await store.update(target, from_resource(await _read_object(request)))
            case "PATCH":
                tree = await store.patch(target, request.header("content-type"), await read_raw(request, _MAX_BODY))
            case "DELETE":
                remaining = await store.delete(target)
                if remaining is None:
                    return HttpResponse(204)
                tree = remaining
            case _:
                tree = await store.get(target)
        return json_response(self.resource(tree, target, urls))

    async def _action(self, request: HttpRequest, target: Target, action: str) -> HttpResponse:
        handler = self.templates.action(target.schema, action)
        if handler is None:
            raise ErrorCode.INVALID_ACTION.error(f"{target.schema.id} has no action {action!r}")
        await self._store(target).get(target)  # the user must be allowed to see the object
        return json_response(await handler(target, await _read_body(request)))

    def _store(self, target: Target) -> SteveStore:
        return self.templates.store(target.schema, self._default_store)

    def resource(self, tree: JsonObject, target: Target, urls: SteveUrls) -> JsonObject:
        """Return an object as the user sees it."""
        links = ResourceLinks(target.schema, self.access.access_for(target.user), urls)
        return self._formatted(to_resource(decorator(target.schema)(tree), links), target)

    def _formatted(self, resource: JsonObject, target: Target) -> JsonObject:
        return select_fields(self.templates.format(resource, target), target.query)

    async def aclose(self) -> None:
        """Close lists and connections. Idempotent."""
        await self.catalog.aclose()
        await self._tasks.aclose()
        await self._lists.aclose()
        await self.access.aclose()
        await self.transports.aclose()

    def __repr__(self) -> str:
        return f"<SteveApi of {len(self.catalog.schemas)} types>"


def _form_source(schema: SteveSchema) -> object:
    """Return what the list of a type depends on: another version or other columns need another list."""
    return (schema.gvk, tuple(schema.columns))


def _form_of(schema: SteveSchema) -> ListForm:
    decorate = decorator(schema)
    return ListForm(_form_source(schema), raw_fields(decorate), lambda tree: own_fields(decorate(tree)))


def error_response(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return the response for an error, and log one that the response does not explain."""
    if not isinstance(error, NormanError | ApiError):
        log.error("%s %s failed: %s", request.method, request.path, error, exc_info=error)
    body = error_body(error)
    return json_response(body, status=int(body["status"]))


def _in_namespaces(*names: str) -> OrFilter:
    return OrFilter([FilterCondition(("metadata", "namespace"), FilterOperator.IN, names)])


def _require_get(request: HttpRequest) -> None:
    _check_method(request, ("GET",))


def _check_method(request: HttpRequest, methods: Sequence[str]) -> None:
    if ("GET" if request.method == "HEAD" else request.method) not in methods:
        listed = ", ".join(methods) or "another resource"
        raise ErrorCode.METHOD_NOT_ALLOWED.error(f"{request.method} is not allowed: use {listed}")


def _namespace_and_name(schema: SteveSchema, rest: Sequence[str]) -> tuple[str, str]:
    """Return namespace and name in the segments after the type."""
    if len(rest) > (_RESOURCE_LENGTH if schema.namespaced else 1):
        raise ErrorCode.NOT_FOUND.error(f"unexpected path segment {rest[-1]!r} after {schema.id}")
    if schema.namespaced:
        return (rest[0] if rest else "", rest[1] if len(rest) == _RESOURCE_LENGTH else "")
    return "", rest[0] if rest else ""


async def _read_body(request: HttpRequest) -> JsonObject:
    return await read_body(request, limit=_MAX_BODY, forms=False)


async def _read_object(request: HttpRequest) -> JsonObject:
    """Decode the body, JSON or YAML. Raises `NormanError` (422) unless it is an object."""
    raw, tree = await read_raw(request, _MAX_BODY), await _read_body(request)
    if not raw.strip() or not isinstance(tree.get("metadata", {}), dict):
        raise ErrorCode.INVALID_BODY_CONTENT.error("the body is not an object: send one with metadata")
    return tree
