"""The default handlers: list, get, create, update, delete, actions.

Upstream: github.com/rancher/norman/api/handler, api/server.go
"""

from __future__ import annotations

from msgspec.structs import replace

from opsdk.errors import ApiError
from opsdk.norman.body import BodyBuilder
from opsdk.norman.codes import ErrorCode
from opsdk.norman.conversion import to_text
from opsdk.norman.errors import NormanError
from opsdk.norman.model import ApiContext, RequestResult, Schema, Store
from opsdk.norman.query import DEFAULT_LIMIT, HTML_LIMIT, condition, parse_query
from opsdk.norman.schema_parts import Action, Modifier
from opsdk.norman.server.output import collection_of, resource_of
from opsdk.norman.server.reading import read_body
from opsdk.norman.stores.wrapper import StoreWrapper, sub_context_fields
from opsdk.structured_merge.value import JsonObject

_MAX_REFERENCES = 100
"""The most objects that a body refers to: each is read."""


async def list_handler(context: ApiContext) -> RequestResult:
    """Return a collection, an object, or the result of the link handler."""
    schema = schema_of(context)
    store = store_of(schema)
    if not context.id:
        # The web page loads more rows on scrolling.
        limit = HTML_LIMIT if context.response_format == "html" else DEFAULT_LIMIT
        query = parse_query(schema, context.request.query, default_limit=limit)
        return await collection_of(context, schema, await store.list(context, schema, query), query)
    data = await store.by_id(context, schema, context.id)
    if not context.link:
        return await resource_of(context, schema, data)
    if schema.link_handler is None:
        return await _reference_link(context, schema, data)

    async def next_handler(inner: ApiContext) -> RequestResult:
        return await _reference_link(inner, schema, data)

    return await schema.link_handler(context, next_handler)


async def create_handler(context: ApiContext) -> RequestResult:
    """Create an object from the body."""
    schema = schema_of(context)
    data = await _read_and_check(context, schema, create=True)
    # Check again: the first check used the body as it was sent.
    await context.access.can_create(context, schema, data)
    return await resource_of(context, schema, await store_of(schema).create(context, schema, data), created=True)


async def update_handler(context: ApiContext) -> RequestResult:
    """Update an object from the body."""
    schema = schema_of(context)
    data = await _read_and_check(context, schema, create=False)
    return await resource_of(context, schema, await store_of(schema).update(context, schema, data, context.id))


async def delete_handler(context: ApiContext) -> RequestResult:
    """Delete an object; returns it if it still exists."""
    schema = schema_of(context)
    data = await store_of(schema).delete(context, schema, context.id)
    return None if data is None else await resource_of(context, schema, data)


async def action_handler(context: ApiContext, action: Action) -> RequestResult:
    """Check that the object exists and offers the action, read the input, and run the action."""
    schema = schema_of(context)
    if context.id:
        data = await store_of(schema).by_id(context, schema, context.id)
        resource = await resource_of(context, schema, data)
        # A formatter removes an action that the object does not offer in its current state.
        if context.action not in resource.actions:
            raise ErrorCode.ACTION_NOT_AVAILABLE.error(
                f"{context.action} is not available for {context.id} in its current state"
            )
    if schema.action_handler is None:
        raise ErrorCode.ACTION_NOT_AVAILABLE.error(f"{schema.id} has no action handler")
    body = await read_body(context.request)
    if action.input:
        input_schema = context.schemas.schema(schema.version, action.input)
        if input_schema is None:
            raise ErrorCode.SERVER_ERROR.error(f"the input of {context.action}, {action.input}, has no schema")
        body = await _build(context, input_schema, body, create=True)
    result = await schema.action_handler(context, context.action, body)
    if isinstance(result, dict) and action.output:
        output_schema = context.schemas.schema(schema.version, action.output)
        if output_schema is not None:
            return await resource_of(context, output_schema, result)
    return result


async def _read_and_check(context: ApiContext, schema: Schema, *, create: bool) -> JsonObject:
    """Return the checked body of a create or an update.

    Raises:
        NormanError: a code of 422 with the field.
    """
    data = await read_body(context.request)
    if create:
        data |= sub_context_fields(context, schema)
    if schema.input_formatter is not None:
        schema.input_formatter(context, schema, data, create)
    built = await _build(context, schema, data, create=create)
    if schema.validator is not None:
        schema.validator(context, schema, built)
    return built


async def _build(context: ApiContext, schema: Schema, data: JsonObject, *, create: bool) -> JsonObject:
    """Return the checked body of a schema. Each object that it refers to must exist and be visible to the user."""
    builder = BodyBuilder(context.schemas, schema.version)
    built = builder.build(schema, data, create=create)
    references = {(reference.schema, reference.id): reference for reference in builder.references}
    if len(references) > _MAX_REFERENCES:
        raise ErrorCode.INVALID_BODY_CONTENT.error(f"a body refers to at most {_MAX_REFERENCES} objects")
    for reference in references.values():
        target = context.schemas.schema(schema.version, reference.schema)
        if target is None or target.store is None:
            continue
        try:
            await store_of(target).by_id(context, target, reference.id)
        except (ApiError, NormanError) as error:
            if (error.code if isinstance(error, ApiError) else error.status) not in (403, 404):
                raise
            text = f"Not found type: {reference.schema} id: {reference.id}"
            raise ErrorCode.INVALID_REFERENCE.error(text, field_name=reference.field_name) from error
    return built


async def _reference_link(context: ApiContext, schema: Schema, data: JsonObject) -> RequestResult:
    """Serve ``/clusters/c1/nodes``: the objects that refer to this one."""
    link = context.link.lower()
    for reference in context.schemas.references(schema):
        owner = reference.schema
        if link == owner.plural_name.lower() and owner.is_enabled:
            await context.access.can_list(context, owner)
            query = parse_query(owner, context.request.query)
            own = condition(reference.field_name, Modifier.EQ, to_text(data.get("id")))
            query = replace(query, filters=(*query.filters, *own))
            return await collection_of(context, owner, await store_of(owner).list(context, owner, query), query)
    raise ErrorCode.NOT_FOUND.error("Link not found")


def schema_of(context: ApiContext) -> Schema:
    """Return the schema of a request that has one."""
    if context.schema is None:
        raise ErrorCode.NOT_FOUND.error("no schema found")
    return context.schema


def store_of(schema: Schema) -> Store:
    """Return the store of a schema, restricted to what a request may see. Raises `NormanError` if it has none."""
    if schema.store is None:
        raise ErrorCode.NOT_FOUND.error("no store found")
    return StoreWrapper(schema.store)
