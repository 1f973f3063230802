"""The HTTP server of the API: authentication, the API, WebSockets, and the Kubernetes API as the user.

Upstream: github.com/rancher/steve/pkg/server/router/router.go, pkg/proxy/proxy.go, pkg/auth/filter.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import quote

from opsdk.apiserver.auth.delegated import user_of_info
from opsdk.apiserver.auth.user import User
from opsdk.base.version import VERSION
from opsdk.errors import ApiError
from opsdk.http.asgi_types import App
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.request_rules import query_pairs
from opsdk.http.server.response import HttpResponse, StreamResponse, json_response
from opsdk.http.server.websocket import WebSocket
from opsdk.norman.codes import ErrorCode
from opsdk.norman.errors import NormanError
from opsdk.norman.server.csrf import check_csrf
from opsdk.norman.server.response_headers import protect, protect_proxied
from opsdk.norman.sessions import MAX_SESSIONS, SessionLimit, accept_subscription
from opsdk.norman.steve.api import SteveApi, error_response
from opsdk.norman.steve.resources import SteveUrls
from opsdk.norman.steve.subscription import SubscribeSession
from opsdk.norman.steve.watches import UserWatches
from opsdk.norman.tokens import Authenticator
from opsdk.norman.urls import RequestUrls
from opsdk.rest.request import RestRequest
from opsdk.structured_merge.value import JsonObject

_PATH_SAFE = "/!$&'()*+,;=:@~"
_KUBERNETES_API_PATHS = ("/api", "/apis", "/openapi", "/version")
_REQUEST_HEADERS = ("accept", "content-type")
# Requests whose response has no end.
_STREAMS = ("watch", "follow")
_BODILESS = (204, 304)
_HEAD_SECONDS = 60.0
_RESPONSE_HEADERS = ("content-type", "warning", "retry-after", "audit-id")


class SteveApp:
    """Serves a `SteveApi`. `app` is the ASGI application.

    Paths below the prefix are the API; ``/api``, ``/apis``, ``/openapi`` and ``/version`` are those of the cluster,
    with the permissions of the user. Every request needs credentials. A browser without a bearer token repeats its
    cookie ``CSRF`` in the header ``X-API-CSRF`` of each write.

    The paths of the cluster include what Pods and Services serve. So no cookie counts there, and browsers get what they
    serve as a file, in a sandbox.

    Args:
        api: a started API.
        authenticate: returns the user; see `opsdk.norman.tokens.token_review`.
        prefix: of the API.
        max_subscriptions: open subscriptions, watches and followed logs of one user; further ones are 429.
    """

    def __init__(
        self,
        api: SteveApi,
        authenticate: Authenticator,
        *,
        prefix: str = "/v1",
        max_subscriptions: int = MAX_SESSIONS,
    ) -> None:
        self._api = api
        self._sessions = SessionLimit(max_subscriptions)
        self._authenticate = authenticate
        self._prefix = prefix.rstrip("/")
        self.app: App = asgi(self.handle)

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the response of a request."""
        is_api = _is_below(request.path, self._prefix)
        try:
            user = await self._user_of(request if is_api else _without_cookies(request))
            cookie = check_csrf(request, request.method)
            response = await self._route(request, user, is_api=is_api)
        except Exception as error:  # noqa: BLE001 - an authenticator may raise anything
            return protect(error_response(request, error))
        if not is_api:
            return protect_proxied(response)
        if cookie:
            response.add_header("set-cookie", cookie)
        return protect(response)

    async def _user_of(self, request: HttpRequest) -> User:
        user = await self._authenticate(request)
        if user is None:
            raise ErrorCode.UNAUTHORIZED.error("send a valid token: 'Authorization: Bearer <token>'")
        return user_of_info(user)

    async def _route(self, request: HttpRequest, user: User, *, is_api: bool) -> HttpResponse:
        if is_api:
            return await self._on_api(request, user)
        if any(_is_below(request.path, path) for path in _KUBERNETES_API_PATHS):
            return await self._proxy_to_cluster(request, user)
        raise ErrorCode.NOT_FOUND.error(f"{request.path} does not exist: see {self._prefix}")

    # -------------------------------------------------------------- the API
    async def _on_api(self, request: HttpRequest, user: User) -> HttpResponse:
        urls = self._urls(request)
        if request.path.removeprefix(self._prefix).strip("/") == "subscribe":
            return self._subscribe(request, user, urls)
        response = await self._api.handle(request, user, urls)
        # Clients discover the types with this header.
        response.add_header("x-api-schemas", f"{urls.base}/schemas")
        return response

    def _urls(self, request: HttpRequest) -> SteveUrls:
        """Return the URLs for the host of the request. A forwarded host is ignored: any client can send it."""
        urls = RequestUrls(request)
        query = f"?{request.query.raw}" if request.query.raw else ""
        return SteveUrls(urls.relative_to_root(""), self._prefix, f"{urls.current()}{query}")

    def _subscribe(self, request: HttpRequest, user: User, urls: SteveUrls) -> HttpResponse:
        """Upgrade to a WebSocket. Raises `NormanError` as `accept_subscription`, and above the limit of the user."""

        async def serve(socket: WebSocket) -> None:
            await SubscribeSession(UserWatches(self._api, user, urls), socket.send, version=VERSION).run(socket.receive)

        response = accept_subscription(request, serve)
        self._sessions.count(response, user.name)
        return response

    # -------------------------------------------------------------- the cluster
    async def _proxy_to_cluster(self, request: HttpRequest, user: User) -> HttpResponse:
        """Send a request to the cluster as the user. Both bodies are sent on as they arrive; it limits them."""
        if {".", ".."} & set(request.path.split("/")):
            raise ErrorCode.NOT_FOUND.error(
                "the path must not have the segments . and .."
            )  # they could escape the base path
        sent = RestRequest(
            request.method,
            quote(request.path, safe=_PATH_SAFE),
            query=list(query_pairs(request.query.raw)),
            headers={name: request.header(name) for name in _REQUEST_HEADERS if request.header(name)},
            body=await request.body_to_forward(),
        )
        heads: list[tuple[int, Mapping[str, str]]] = []
        chunks = self._stream_response(sent, user, heads)
        try:
            await anext(chunks)  # a started generator always closes the connection
        except ApiError as error:
            return json_response(_status(error), status=error.code)
        status, headers = heads[0]
        if request.method == "HEAD" or status in _BODILESS:
            await chunks.aclose()
            return HttpResponse(status, _headers(headers))
        response = StreamResponse(status, _headers(headers), chunks=chunks)
        if any(name in _STREAMS and value not in ("", "0", "false") for name, value in sent.query):
            try:
                self._sessions.count(response, user.name)
            except NormanError:
                await chunks.aclose()
                raise
        return response

    async def _stream_response(
        self, sent: RestRequest, user: User, heads: list[tuple[int, Mapping[str, str]]]
    ) -> AsyncGenerator[bytes, None]:
        """Append the head to `heads` before the first item, which is empty; then yield the body as it arrives."""
        async with (
            self._api.transports.transport(user) as transport,
            transport.stream(sent, timeout=_HEAD_SECONDS, retry=False, every_status=True) as stream,
        ):
            heads.append((stream.status, stream.headers))
            yield b""
            async for chunk in stream:
                yield chunk

    def __repr__(self) -> str:
        return f"<SteveApp {self._prefix} of {self._api!r}>"


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def _without_cookies(request: HttpRequest) -> HttpRequest:
    headers = {name: value for name, value in request.headers.items() if name != "cookie"}
    return dataclasses.replace(request, headers=headers)


def _headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, headers[name]) for name in _RESPONSE_HEADERS if name in headers]


def _status(error: ApiError) -> JsonObject:
    """Return the Status of an error of the cluster."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**status, "message": error.message, "reason": error.reason, "code": error.code}
