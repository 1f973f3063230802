"""The page: results as HTML, forms, live rows, static files, login."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import lru_cache
from importlib.resources import files
from urllib.parse import quote

import msgspec

from opsdk.base.extras import RequiredExtra
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, StreamResponse, text_response
from opsdk.norman.access import may_list
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.conversion import to_text
from opsdk.norman.model import ApiContext, GenericCollection, RawResource, RequestResult, Schema
from opsdk.norman.origin import check_origin
from opsdk.norman.query import matcher, parse_query
from opsdk.norman.server.csrf import COOKIE
from opsdk.norman.server.handlers import store_of
from opsdk.norman.server.meta_schemas import META
from opsdk.norman.server.output import resource_of, resource_to_wire
from opsdk.norman.server.reading import read_body
from opsdk.norman.store_results import ResourceEventType
from opsdk.norman.tokens import login_cookie
from opsdk.norman.web.cells import cell_of, cells_of, columns_of, filters_of, form_yaml, inputs_of
from opsdk.structured_merge.value import JsonObject

with RequiredExtra("norman", "the web page of norman"):
    import jinja2

__all__ = ["WebPage"]


PREFIX = "/norman-ui/"
"""The path prefix of static files and the login."""

# Scripts and styles are loaded from this server only, and eval is disabled.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'self'"
)
_PAGE_HEADERS = [
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", _POLICY),
    ("referrer-policy", "same-origin"),
    ("x-frame-options", "SAMEORIGIN"),
    ("cache-control", "no-store"),
]
# A token of a cluster has at most some KiB; everyone may send this form.
_MAX_LOGIN_BYTES = 64 << 10
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class WebPage:
    """Serves the page of a `NormanServer`: ``NormanOptions(page=WebPage())``.

    Args:
        title: shown in the head of each page.
        login: show a form for a token to browsers that are not authenticated.
    """

    def __init__(self, *, title: str = "norman", login: bool = True) -> None:
        self._title = title
        self._login = login
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("opsdk.norman.web"), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.globals.update(cell_of=cell_of, columns_of=columns_of, to_text=to_text, quote=quote)

    async def before(self, context: ApiContext) -> HttpResponse | None:
        """Return static files and responses of the login form; None for every other path."""
        request = context.request
        if not request.path.startswith(PREFIX):
            return None
        name = request.path.removeprefix(PREFIX)
        if name == "login" and self._login:
            if request.method == "POST":
                return await _sign_in(context)
            return await self._html(context, 200, "login.html", back=_return_path(request))
        if name == "logout":
            return _sign_out(context)
        data = _static(name)
        if data is None:
            return text_response("not found\n", status=404)
        kind = _TYPES[name.rpartition(".")[2]]
        return HttpResponse(200, [("content-type", kind), ("cache-control", "max-age=3600")], data)

    async def handle(self, context: ApiContext) -> HttpResponse | None:
        """Return a form or the live rows of a table; None for every other request."""
        schema, query = context.schema, context.request.query
        if schema is None or context.method != "GET" or schema.store is None:
            return None
        if query.get("_live") and not context.id:
            await context.access.can_list(context, schema)
            return self._live(context, schema)
        if (form := query.get("_form")) in ("create", "edit"):
            return await self._form(context, schema, form)
        return None

    async def render(self, context: ApiContext, status: int, result: RequestResult) -> HttpResponse:
        """Return the page of a result."""
        if isinstance(result, GenericCollection | RawResource) and result.schema.id == "apiRoot":
            return await self._html(context, status, "root.html")
        if isinstance(result, GenericCollection):
            if context.request.query.get("_rows"):
                return await self._html(context, status, "rows.html", collection=result, url=_next_rows(result))
            return await self._collection(context, status, result)
        if isinstance(result, RawResource):
            return await self._resource(context, status, result)
        wire: JsonObject = result if isinstance(result, dict) else {}
        if status == 401 and self._login:
            # Redirect instead of sending the form with 401, which browsers log as an error.
            url = context.urls.relative_to_root(f"{PREFIX}login?back={quote(context.request.path)}")
            return HttpResponse(303, [("location", url)])
        return await self._html(
            context, status, "error.html" if status >= 400 else "result.html", result=wire, yaml=form_yaml(wire)
        )

    # --------------------------------------------------------------- pieces
    async def _collection(self, context: ApiContext, status: int, collection: GenericCollection) -> HttpResponse:
        """Return the table of a collection. Its rows are live where the type has a store of objects."""
        schema = collection.schema
        live = schema.store is not None and schema.version.path != META.path
        return await self._html(
            context,
            status,
            "collection.html",
            collection=collection,
            columns=columns_of(schema),
            filters=filters_of(schema),
            live=context.urls.with_query(_live="1", _format="html") if live else "",
            url=_next_rows(collection),
            curl=_curl(context),
            create=context.urls.with_query(_form="create") if collection.create_types else "",
        )

    async def _resource(self, context: ApiContext, status: int, resource: RawResource) -> HttpResponse:
        """Return the page of an object: its fields, links, actions, and its JSON and YAML."""
        wire = resource_to_wire(context, resource)
        inputs = {name: self._action_inputs(context, resource.schema, name) for name in resource.actions}
        return await self._html(
            context,
            status,
            "resource.html",
            resource=resource,
            links={name: url for name, url in resource.links.items() if name not in ("self", "update", "remove")},
            cells=cells_of(resource.schema, resource.values),
            yaml=form_yaml(wire),
            json=msgspec.json.format(msgspec.json.encode(wire), indent=2).decode(),
            curl=_curl(context),
            action_inputs=inputs,
            edit=context.urls.with_query(_form="edit") if "update" in resource.links else "",
        )

    async def _form(self, context: ApiContext, schema: Schema, form: str) -> HttpResponse:
        """Return the form to create or to edit an object. Raises `NormanError` if the user may not."""
        create = form == "create"
        access = context.access
        if create:
            await access.can_create(context, schema)
            values: JsonObject = {}
        else:
            await access.can_update(context, schema, None)
            values = (
                await resource_of(context, schema, await store_of(schema).by_id(context, schema, context.id))
            ).values
        url = context.urls.collection(schema) if create else context.urls.resource(schema, context.id)
        return await self._html(
            context,
            200,
            "form.html",
            schema=schema,
            inputs=inputs_of(context.schemas, schema, values, create=create),
            method="POST" if create else "PUT",
            url=url,
            back=context.urls.current(),
            object_id=context.id,
        )

    def _action_inputs(self, context: ApiContext, schema: Schema, name: str) -> list[object]:
        action = schema.resource_actions.get(name)
        target = context.schemas.schema(schema.version, action.input) if action is not None and action.input else None
        return [] if target is None else list(inputs_of(context.schemas, target, {}, create=True))

    def _live(self, context: ApiContext, schema: Schema) -> HttpResponse:
        """Return the stream of changed rows. A row that no longer matches the filters is sent empty."""
        # Subscribe to all changes of the type: an object that no longer matches the filters must leave the table.
        query = ObjectQuery(since=context.request.header("last-event-id"))
        matches = matcher(schema, parse_query(schema, context.request.query))

        async def chunks() -> AsyncGenerator[bytes]:
            yield b"retry: 1000\n\n"
            async with aclosing(store_of(schema).watch(context, schema, query)) as events:
                async for event in events:
                    resource = await resource_of(context, schema, event.data)
                    removed = event.type is ResourceEventType.REMOVE or not matches(event.data)
                    data: JsonObject = {"id": resource.id, "row": "" if removed else self._row(context, resource)}
                    head = f"id: {event.revision}\n" if event.revision else ""
                    yield f"{head}data: {msgspec.json.encode(data).decode()}\n\n".encode()

        headers = [("content-type", "text/event-stream"), ("cache-control", "no-store")]
        return StreamResponse(200, headers, chunks=chunks(), ends_when_full=True)

    def _row(self, context: ApiContext, resource: RawResource) -> str:
        columns = columns_of(resource.schema)
        template = self._templates.get_template("row.html")
        return template.render(
            resource=resource, columns=columns, urls=context.urls, schemas=context.schemas, context=context
        )

    async def _html(self, context: ApiContext, status: int, template: str, **values: object) -> HttpResponse:
        text = self._templates.get_template(template).render(
            context=context,
            urls=context.urls,
            schemas=context.schemas,
            title=self._title,
            prefix=PREFIX,
            csrf=COOKIE,
            types=await self._types(context),
            columns=values.pop("columns", None) or _columns(values.get("collection")),
            **values,
        )
        return HttpResponse(status, list(_PAGE_HEADERS), text.encode())

    async def _types(self, context: ApiContext) -> list[tuple[str, list[Schema]]]:
        """Return the collections of the versions that the client may list, for the sidebar."""
        types = []
        for version in context.schemas.versions():
            if version.sub_context or version.path == META.path:
                continue
            schemas = [
                schema for schema in context.schemas.schemas_for_version(version) if await may_list(context, schema)
            ]
            if schemas:
                types.append((version.path, sorted(schemas, key=lambda schema: schema.plural_name.lower())))
        return types


async def _sign_in(context: ApiContext) -> HttpResponse:
    check_origin(context.request, context.urls.host)
    token = to_text((await read_body(context.request, limit=_MAX_LOGIN_BYTES)).get("token")).strip()
    return _to_page(context, login_cookie(context.request, token))


def _sign_out(context: ApiContext) -> HttpResponse:
    if context.request.method != "POST":  # an image of another page would sign the user out
        raise ErrorCode.METHOD_NOT_ALLOWED.error("sign out with POST")
    check_origin(context.request, context.urls.host)
    return _to_page(context, login_cookie(context.request, ""))


def _to_page(context: ApiContext, cookie: str) -> HttpResponse:
    return HttpResponse(303, [("location", _return_path(context.request)), ("set-cookie", cookie)])


def _columns(collection: object) -> list[str]:
    return list(columns_of(collection.schema)) if isinstance(collection, GenericCollection) else []


def _next_rows(collection: GenericCollection) -> str:
    """Return the URL of the rows that follow, or an empty string."""
    following = collection.pagination.get("next", "")
    if not following:
        return ""
    return following if "_rows=" in following else f"{following}&_rows=1"


def _curl(context: ApiContext) -> str:
    """Return the curl command for the content of the page."""
    words = ["curl", "-H", "Accept: application/json"]
    if context.user is not None:
        words += ["-H", "Authorization: Bearer $TOKEN"]
    url = context.urls.with_query(_format=None, _form=None, _rows=None, _live=None)
    quoted = [f'"{word}"' if "$" in word else shlex.quote(word) for word in (*words, url)]
    return " ".join(quoted)


def _return_path(request: HttpRequest) -> str:
    """Return the path of this server in the query parameter ``back``."""
    # Quoted: browsers drop tabs and read a backslash as a slash, so "/<tab>/host" would leave this server.
    path = quote(request.query.get("back"), safe="/?&=%:@!$'()*+,;~")
    return path if path.startswith("/") and not path.startswith("//") else "/"


@lru_cache(maxsize=32)
def _static(name: str) -> bytes | None:
    if "/" in name or name.rpartition(".")[2] not in _TYPES:
        return None
    file = files("opsdk.norman.web") / "static" / name
    return file.read_bytes() if file.is_file() else None
