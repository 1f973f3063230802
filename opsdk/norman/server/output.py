"""Builds responses: objects with links and actions, and collections.

Upstream: github.com/rancher/norman/api/writer/json.go
"""

from __future__ import annotations

import asyncio

import msgspec

from opsdk.aio.large_work import compute
from opsdk.aio.slicer import Slicer
from opsdk.norman.access import is_allowed, may_list
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.conversion import to_text
from opsdk.norman.model import ApiContext, GenericCollection, RawResource, Schema
from opsdk.norman.presentation import Presenter
from opsdk.norman.query import describe_filter
from opsdk.norman.store_results import ResourceList
from opsdk.structured_merge.value import JsonObject

_SLICED_BYTES = 5 * 1024
"""Bytes of an object that the slices of a page count. Larger objects are presented in the thread."""
_SORTABLE_TYPES = frozenset(["string", "enum"])


def presenter_of(context: ApiContext, schema: Schema, *, created: bool = False) -> Presenter:
    """Return what builds the values of objects of a schema for a request; see `resource_of`."""
    return Presenter(
        context.schemas,
        schema.version,
        created=created,
        edit=context.option("edit") == "true",
        export=context.option("export") == "true",
    )


async def resource_of(
    context: ApiContext,
    schema: Schema,
    data: JsonObject,
    *,
    created: bool = False,
    presenter: Presenter | None = None,
) -> RawResource:
    """Return an object with its links and actions, formatted.

    Args:
        context: the request.
        schema: of the request; the object's own ``type`` counts first, as for a subtype.
        data: the object of the store.
        created: the response to a create, which shows write-only fields once (passwords never).
        presenter: of the other objects of a page; by default a new one.
    """
    own_type = data.get("type")
    schema = (context.schemas.schema(schema.version, own_type) if isinstance(own_type, str) else None) or schema
    presenter = presenter or presenter_of(context, schema, created=created)
    values = await compute(len(msgspec.json.encode(data)), presenter.values, schema, data)
    values.pop("type", None)
    values.pop("id", None)
    resource = RawResource(id=to_text(data.get("id")), type=schema.id, schema=schema, values=values)
    if resource.id:
        await _add_links(context, schema, data, resource)
        for name in schema.resource_actions:
            resource.actions[name] = context.urls.action(schema, resource.id, name)
    if schema.formatter is not None:
        schema.formatter(context, resource)
    return resource


async def collection_of(
    context: ApiContext, schema: Schema, result: ResourceList, query: ObjectQuery
) -> GenericCollection:
    """Return a page of a collection, formatted."""
    urls, presenter = context.urls, presenter_of(context, schema)
    data, slicer = [], Slicer()
    for item in result.items:
        data.append(await resource_of(context, schema, item, presenter=presenter))
        if slicer.add(_SLICED_BYTES):
            await asyncio.sleep(0)
    collection = GenericCollection(
        schema=schema,
        data=data,
        links={"self": urls.current()},
        actions={name: urls.collection_action(schema, name) for name in schema.collection_actions},
        pagination=_pagination(context, result, query),
        sort=_sort(context, schema, query),
        filters=_filters(schema, query),
    )
    if await is_allowed(context.access.can_create(context, schema)):
        collection.create_types[schema.id] = urls.collection(schema)
    if schema.collection_formatter is not None:
        schema.collection_formatter(context, collection)
    return collection


def resource_to_wire(context: ApiContext, resource: RawResource) -> JsonObject:
    """Return the JSON of an object; only its fields if it is for an editor or an export."""
    if context.option("edit") == "true" or context.option("export") == "true":
        return dict(resource.values)
    data = dict(resource.values)
    if resource.id:
        data["id"] = resource.id
    data |= {"type": resource.type, "baseType": resource.schema.base_type, "links": resource.links}
    # Clients whose objects have a field named "actions" send this header.
    name = "actionLinks" if context.request.header("x-api-action-links") else "actions"
    return data | {name: resource.actions}


def collection_to_wire(context: ApiContext, collection: GenericCollection) -> JsonObject:
    """Return the JSON of a collection."""
    return {
        "type": "collection",
        "resourceType": collection.schema.id,
        "links": collection.links,
        "createTypes": collection.create_types,
        "actions": collection.actions,
        "pagination": collection.pagination,
        "sort": collection.sort,
        "filters": collection.filters,
        "data": [resource_to_wire(context, resource) for resource in collection.data],
    }


async def _add_links(context: ApiContext, schema: Schema, data: JsonObject, resource: RawResource) -> None:
    """Add the object itself, what the client may do with it, and the collections that refer to it."""
    urls, access = context.urls, context.access
    own = urls.resource(schema, resource.id)
    resource.links["self"] = own
    if await is_allowed(access.can_update(context, schema, data)):
        resource.links["update"] = own
    if await is_allowed(access.can_delete(context, schema, data)):
        resource.links["remove"] = own
    sub_version = next((v for v in context.schemas.versions() if v.sub_context_schema == schema.full_type), None)
    for reference in context.schemas.references(schema):
        other = reference.schema
        if not await may_list(context, other):
            continue
        if sub_version is None:
            url = urls.collection(other, filters={reference.field_name: resource.id})
        else:
            url = urls.link(schema, resource.id, other.plural_name.lower())
        resource.links[other.plural_name] = url
    if sub_version is not None:
        for other in context.schemas.schemas_for_version(sub_version):
            if await may_list(context, other):
                resource.links[other.plural_name] = urls.link(schema, resource.id, other.plural_name.lower())


def _pagination(context: ApiContext, result: ResourceList, query: ObjectQuery) -> JsonObject:
    """Return the links to other pages; only limit and total if all objects are on one page."""
    markers = result.markers
    if not query.limit or markers is None:
        return {}
    partial = markers.previous is not None or markers.next is not None
    wire: JsonObject = {"limit": query.limit, "total": markers.total}
    if query.marker:
        wire["marker"] = query.marker
    if not partial:
        return wire
    wire |= {"partial": True, "first": context.urls.with_query(marker=None)}
    for name, marker in (("previous", markers.previous), ("next", markers.next), ("last", markers.last)):
        if marker is not None:
            wire[name] = context.urls.with_query(marker=marker or None)
    return wire


def _sort(context: ApiContext, schema: Schema, query: ObjectQuery) -> JsonObject:
    key = query.sort[0]
    fields = schema.resource_fields
    return {
        "name": ".".join(key.path),
        "order": "desc" if key.descending else "asc",
        "reverse": context.urls.with_query(order="asc" if key.descending else "desc", marker=None),
        "links": {
            name: context.urls.with_query(sort=name, order=None, marker=None)
            for name in schema.collection_filters
            if name in fields and fields[name].type in _SORTABLE_TYPES
        },
    }


def _filters(schema: Schema, query: ObjectQuery) -> JsonObject:
    filters: JsonObject = dict.fromkeys(schema.collection_filters)
    for item in query.filters:
        field, modifier, values = describe_filter(item)
        if filters.get(field) is None:
            filters[field] = []
        value = values[0] if len(values) == 1 else list(values)
        filters[field].append({"modifier": modifier.value, "value": value})
    return filters
