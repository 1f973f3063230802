"""The server: an ASGI application for the schemas of a registry.

Upstream: github.com/rancher/norman/api/server.go
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from http import HTTPStatus

from opsdk.base.options import Options
from opsdk.http.asgi_types import App
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, StreamResponse, UpgradeResponse
from opsdk.http.server.unread import UNREAD
from opsdk.norman.access import AllAccess, NoAccess
from opsdk.norman.codes import ErrorCode, as_norman_error
from opsdk.norman.errors import NormanError
from opsdk.norman.model import AccessControl, ApiContext, RequestHandler, RequestResult, Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Action, ApiVersion, Scope
from opsdk.norman.server import handlers
from opsdk.norman.server.csrf import check_csrf
from opsdk.norman.server.meta_schemas import META, meta_schemas
from opsdk.norman.server.reading import read_body
from opsdk.norman.server.response_headers import protect
from opsdk.norman.server.subscribe import subscribe_handler
from opsdk.norman.server.url_parsing import parse_url
from opsdk.norman.server.writing import (
    PAGE_HEADER,
    PageRenderer,
    error_to_wire,
    response_format,
    write,
)
from opsdk.norman.sessions import MAX_SESSIONS, SessionLimit
from opsdk.norman.stores.wrapper import sub_context_fields
from opsdk.norman.tokens import Authenticator
from opsdk.norman.urls import RequestUrls
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["NormanOptions", "NormanServer"]

log = SafeLogger(__name__)

_METHODS = ("GET", "POST", "PUT", "DELETE")


class NormanOptions(Options, frozen=True, kw_only=True):
    """Options of a `NormanServer`.

    Attributes:
        authenticate: returns the user of a request, or None for 401. None disables authentication.
        page: renders the web page for browsers; None sends JSON.
        trust_forwarded: build links from ``X-Forwarded-Host`` and similar headers; set it only if a proxy sets all of
            them. Without it, links have the host of the request.
        max_subscriptions: open subscriptions of one user, live tables included; further ones are 429.
    """

    authenticate: Authenticator | None = None
    page: PageRenderer | None = None
    trust_forwarded: bool = False
    max_subscriptions: int = MAX_SESSIONS


class NormanServer:
    """Serves the schemas of a registry, including later additions and removals.

    ::

        schemas = SchemaRegistry()
        schemas.add(Schema(id="book", version=V1, collection_methods=("GET", "POST"), store=MemoryStore()))
        async with WebServer(NormanServer(schemas).app, ServeOptions(port=8080)) as web:
            print(web.url)

    Args:
        schemas: the schemas; built-in schemas are added to them.
        access: the access control.
        options: see `NormanOptions`.

    Raises:
        UsageError: the schemas have errors; the message lists all of them.
    """

    def __init__(
        self, schemas: SchemaRegistry, *, access: AccessControl | None = None, options: NormanOptions | None = None
    ) -> None:
        self.schemas = schemas
        self.access: AccessControl = access or AllAccess()
        self.options = options or NormanOptions()
        self._sessions = SessionLimit(self.options.max_subscriptions)
        for schema in meta_schemas():
            schemas.add(schema)
        schemas.raise_errors()

    @property
    def app(self) -> App:
        """The ASGI application."""
        return asgi(self.handle)

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request. Exceptions of handlers become error bodies."""
        page = self.options.page
        context, cookie = self._context(request), ""
        try:
            if page is not None and (early := await page.before(context)) is not None:
                return protect(early)
            context = await self._authenticated(context)
            _check_unread(context)
            context = self._parsed(context)
            self._check_found(context)
            cookie = check_csrf(request, context.method, context.urls.host)
            _check_method(context)
            result: RequestResult = None
            if page is not None and context.response_format == "html":
                result = await page.handle(context)
            if result is None:
                result = await self._dispatch(context)
            status = 201 if context.method == "POST" and not context.action else 200
            response = self._counted(context, await self._write(context, status, result))
        except Exception as error:  # noqa: BLE001 - handlers, formatters and stores may raise anything
            response = await self._error(context, error)
        response.user = context.client
        if cookie:
            response.add_header("set-cookie", cookie)
        return protect(response)

    # ---------------------------------------------------------------- the context
    def _context(self, request: HttpRequest) -> ApiContext:
        """Return what suffices to write an error; does not raise. It has no access, because nothing is known yet."""
        return ApiContext(
            request=request,
            schemas=self.schemas,
            access=NoAccess(),
            urls=RequestUrls(request, trust_forwarded=self.options.trust_forwarded),
            response_format=response_format(request),
        )

    async def _authenticated(self, context: ApiContext) -> ApiContext:
        if self.options.authenticate is None:
            return replace(context, access=self.access)
        user = await self.options.authenticate(context.request)
        if user is None:
            raise ErrorCode.UNAUTHORIZED.error("must authenticate")
        return replace(context, access=self.access, user=user)

    def _parsed(self, context: ApiContext) -> ApiContext:
        """Add the parts of the URL, the method and the action. The schema of an unknown type is None."""
        request = context.request
        url = parse_url(self.schemas, request.path)
        method, action = _method_and_action(request)
        object_id = url.id
        schema = None if url.type in ("", "subscribe") else self._schema(url.version, url.type)
        if url.version is None or not url.type:
            # The list of versions, or one of them.
            schema = self.schemas.schema(META, "apiRoot")
            object_id, method = url.version.path if url.version else "", "GET"
        urls = RequestUrls(
            request, url.version, prefix=url.sub_context_prefix, trust_forwarded=self.options.trust_forwarded
        )
        return replace(
            context,
            method=method,
            version=url.version,
            sub_context=url.sub_context,
            schema=schema,
            type=url.type,
            id=object_id,
            link=url.link,
            action=action,
            urls=urls,
        )

    def _schema(self, version: ApiVersion | None, name: str) -> Schema | None:
        schema = self.schemas.schema(version, name)
        if schema is None and name.lower() in ("schema", "schemas"):
            # Each version serves its own schemas.
            schema = self.schemas.schema(META, "schema")
        return schema

    def _check_found(self, context: ApiContext) -> None:
        schema = context.schema
        if context.version is None and context.request.path.strip("/"):
            raise ErrorCode.NOT_FOUND.error(f"no API version is served at {context.request.path}")
        if schema is None and context.type != "subscribe":
            raise ErrorCode.NOT_FOUND.error(f"failed to find schema {context.type}")
        if schema is not None and not schema.is_enabled:
            raise ErrorCode.ACTION_NOT_AVAILABLE.error(f"schema disabled {schema.id}")

    # ------------------------------------------------------------- dispatch
    async def _dispatch(self, context: ApiContext) -> RequestResult:
        """Check the access of the verb, then call the handler of the schema, or the default one."""
        schema = context.schema
        if schema is None:
            return await subscribe_handler(context)
        if context.action and context.method == "POST":
            action = _action(context, schema)
            await (context.access.can_get(context, schema) if context.id else context.access.can_list(context, schema))
            return await handlers.action_handler(context, action)
        access = context.access
        default: Callable[[ApiContext], Awaitable[RequestResult]]
        handler: RequestHandler | None
        if context.method == "GET":
            await (access.can_get(context, schema) if context.id else access.can_list(context, schema))
            handler, default = schema.list_handler, handlers.list_handler
        elif context.method == "POST":
            if schema.scope is not Scope.NAMESPACE:  # else the body names the namespace
                await access.can_create(context, schema)
            body = await read_body(context.request)
            await access.can_create(context, schema, {**body, **sub_context_fields(context, schema)})
            handler, default = schema.create_handler, handlers.create_handler
        elif context.method == "PUT":
            await access.can_update(context, schema, None)
            handler, default = schema.update_handler, handlers.update_handler
        else:
            await access.can_delete(context, schema, None)
            handler, default = schema.delete_handler, handlers.delete_handler
        return await (default(context) if handler is None else handler(context, default))

    # ---------------------------------------------------------------- write
    async def _write(self, context: ApiContext, status: int, result: RequestResult) -> HttpResponse:
        schema = self.schemas.schema(META, "schema")
        url = context.urls.collection(schema) if schema is not None and context.version is not None else ""
        return await write(context, status, result, page=self.options.page, schemas_url=url)

    def _counted(self, context: ApiContext, response: HttpResponse) -> HttpResponse:
        """Count the subscriptions of the user. Raises `NormanError` TooManyRequests."""
        if isinstance(response, StreamResponse | UpgradeResponse):
            self._sessions.count(response, context.client)
        return response

    async def _error(self, context: ApiContext, error: Exception) -> HttpResponse:
        """Log an unexpected error, and return the response of the schema's error handler, or the default one."""
        request = context.request
        if not isinstance(error, NormanError):
            log.log(logging.ERROR, "%s %s failed: %s", request.method, request.path, error, exc_info=error)
        schema = context.schema
        if schema is not None and schema.error_handler is not None:
            try:
                response = schema.error_handler(context, error)
            except Exception:
                log.exception("the error handler of %s failed", schema.id)
                response = None
            if response is not None:
                return response
        norman = as_norman_error(error)
        # Browsers log every 4xx as an error of the page, so the page reads the status in the body.
        status = 200 if request.header(PAGE_HEADER) else norman.status
        response = await self._write(context, status, error_to_wire(norman))
        if norman.status == HTTPStatus.TOO_MANY_REQUESTS:
            response.add_header("retry-after", "1")
        return response


def _check_unread(context: ApiContext) -> None:
    """Raise a 429 for a user whose clients do not read."""
    if UNREAD.is_full(context.client):
        raise NormanError("too many responses are unread: read them first", status=429, code="TooManyRequests")


def _method_and_action(request: HttpRequest) -> tuple[str, str]:
    """Return the method and the action of a request.

    Only a POST can be another method: pages of other origins make browsers send GET without a trace of their origin.
    """
    method, action = request.method.upper(), request.query.get("action")
    if method != "POST":
        return method, action
    if action == "remove":
        return "DELETE", ""
    return (request.query.get("_method") or method).upper(), action


def _check_method(context: ApiContext) -> None:
    """Reject methods that the schema does not have."""
    method, schema = context.method, context.schema
    allowed: Sequence[str] = _METHODS
    if context.action and method == "POST":
        return
    if schema is not None and not context.link and method in _METHODS:
        allowed = schema.resource_methods if context.id else schema.collection_methods
    elif schema is None or context.link:
        allowed = ("GET",)
    if method not in allowed:
        raise ErrorCode.METHOD_NOT_ALLOWED.error(f"Method {method} not supported")


def _action(context: ApiContext, schema: Schema) -> Action:
    actions = schema.resource_actions if context.id else schema.collection_actions
    action = actions.get(context.action)
    if action is None or context.link:
        raise ErrorCode.INVALID_ACTION.error(f"Invalid action: {context.action}")
    return action
