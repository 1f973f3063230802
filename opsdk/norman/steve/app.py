"""The HTTP server of the API: authentication, the API, WebSockets, and the Kubernetes API as the user.

Upstream: github.com/rancher/steve/pkg/server/router/router.go, pkg/proxy/proxy.go, pkg/auth/filter.go
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from urllib.parse import quote

import msgspec

from opsdk.apiserver.auth.delegated import user_of_info
from opsdk.apiserver.auth.user import User
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ApiError, BadRequestError, ForbiddenError, OpsdkError
from opsdk.http.asgi_types import App
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.request_rules import query_pairs
from opsdk.http.server.response import HttpResponse, StreamResponse, json_response
from opsdk.http.server.websocket import WebSocket, accept_websocket, wants_websocket
from opsdk.norman.codes import ErrorCode
from opsdk.norman.rbac_access import RbacAccess
from opsdk.norman.server.csrf import check_csrf, check_origin
from opsdk.norman.steve.api import SteveApi, SteveRequest
from opsdk.norman.steve.resources import SteveUrls, error_body
from opsdk.norman.steve.subscription import SubscribeSession
from opsdk.norman.steve.watches import UserWatches
from opsdk.rest.request import RestRequest
from opsdk.structured_merge.value import JsonObject
from opsdk.version import VERSION

log = logging.getLogger(__name__)

Authenticate = Callable[[HttpRequest], Awaitable[User | None]]
"""Returns the user of a request; None for an unknown user. May raise `NormanError` or `UnauthorizedError`."""

_MAX_BODY = 3 << 20
"""Maximum bytes of a body, as in kube-apiserver."""
_PATH_SAFE = "/!$&'()*+,;=:@~"
_KUBERNETES_API_PATHS = ("/api", "/apis", "/openapi", "/version")
_REQUEST_HEADERS = ("accept", "content-type")
_STREAMS = ("watch", "follow")
_RESPONSE_HEADERS = ("content-type", "warning", "retry-after", "audit-id")


def token_review(cluster: Cluster) -> Authenticate:
    """Return an authenticator that uses TokenReviews, for bearer tokens and for browsers that signed in on a `WebPage`.

    The result of a review holds for ten seconds. The user of `cluster` needs ``create`` on ``tokenreviews``.
    """
    access = RbacAccess(cluster.uncached)

    async def authenticate(request: HttpRequest) -> User | None:
        info = await access.authenticate(request)
        return None if info is None else user_of_info(info)

    return authenticate


class SteveApp:
    """Serves a `SteveApi`. `app` is the ASGI application.

    Paths below the prefix are the API; ``/api``, ``/apis``, ``/openapi`` and ``/version`` are those of the cluster,
    with the permissions of the user. Every request needs credentials. A browser without a bearer token repeats its
    cookie ``CSRF`` in the header ``X-API-CSRF`` of each write.

    Args:
        api: a started API.
        authenticate: returns the user; see `token_review`.
        prefix: of the API.
    """

    def __init__(self, api: SteveApi, authenticate: Authenticate, *, prefix: str = "/v1") -> None:
        self._api = api
        self._authenticate = authenticate
        self._prefix = prefix.rstrip("/")
        self.app: App = asgi(self.handle)

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the response of a request."""
        try:
            user = await self._authenticate(request)
            if user is None:
                raise ErrorCode.UNAUTHORIZED.error("send a valid token: 'Authorization: Bearer <token>'")
            cookie = _check_csrf(request)
            response = await self._route(request, user)
        except OpsdkError as error:
            body = error_body(error)
            return json_response(body, status=int(body["status"]))
        if cookie:
            response.add_header("set-cookie", cookie)
        return response

    async def _route(self, request: HttpRequest, user: User) -> HttpResponse:
        if request.path == self._prefix or request.path.startswith(f"{self._prefix}/"):
            return await self._on_api(request, user)
        if any(request.path == path or request.path.startswith(f"{path}/") for path in _KUBERNETES_API_PATHS):
            return await self._proxy_to_cluster(request, user)
        raise ErrorCode.NOT_FOUND.error(f"{request.path} does not exist: see {self._prefix}")

    # -------------------------------------------------------------- the API
    async def _on_api(self, request: HttpRequest, user: User) -> HttpResponse:
        path = request.path.removeprefix(self._prefix).strip("/").split("/")
        urls = self._urls(request)
        if path == ["subscribe"]:
            return self._subscribe(request, user, urls)
        response = await self._api.handle(
            SteveRequest(
                method=request.method,
                path=path,
                user=user,
                urls=urls,
                query=_pairs(request),
                content_type=request.header("content-type"),
                body=await request.body(_MAX_BODY) if request.method in ("POST", "PUT", "PATCH") else b"",
            )
        )
        answer = HttpResponse(response.status, body=response.body)
        if response.body:
            answer.add_header("content-type", "application/json")
        # Clients discover the types with this header.
        answer.add_header("x-api-schemas", f"{urls.base}/schemas")
        return answer

    def _urls(self, request: HttpRequest) -> SteveUrls:
        """Return the URLs for the host of the request. Forwarded headers are ignored: any client can send them."""
        root = f"{request.scheme}://{request.header('host')}"
        query = f"?{request.query.raw}" if request.query.raw else ""
        return SteveUrls(root, self._prefix, f"{root}{quote(request.path, safe=_PATH_SAFE)}{query}")

    def _subscribe(self, request: HttpRequest, user: User, urls: SteveUrls) -> HttpResponse:
        if not wants_websocket(request):
            raise ErrorCode.INVALID_ACTION.error("subscribe needs a WebSocket")
        check_origin(request, request.header("host"))

        async def run(socket: WebSocket, _: str) -> None:
            session = SubscribeSession(
                UserWatches(self._api, user, urls),
                lambda message: socket.send(msgspec.json.encode(message).decode()),
                version=VERSION,
                clock=self._api.clock,
            )
            await session.run(socket.receive)

        try:
            return accept_websocket(request, ("",), run)
        except (BadRequestError, ForbiddenError) as error:
            raise ErrorCode.INVALID_FORMAT.error(str(error)) from error

    # -------------------------------------------------------------- the cluster
    async def _proxy_to_cluster(self, request: HttpRequest, user: User) -> HttpResponse:
        """Send a request to the cluster as the user. Watches and followed logs are streamed."""
        if {".", ".."} & set(request.path.split("/")):
            raise ErrorCode.NOT_FOUND.error(
                "the path must not have the segments . and .."
            )  # they could escape the base path
        sent = RestRequest(
            request.method,
            quote(request.path, safe=_PATH_SAFE),
            query=_pairs(request),
            headers={name: request.header(name) for name in _REQUEST_HEADERS if request.header(name)},
            body=await request.body(_MAX_BODY),
        )
        if not any(name in _STREAMS and value not in ("", "0", "false") for name, value in sent.query):
            async with self._api.transports.transport(user) as transport:
                response = await transport.send(sent, retry=False)
            return HttpResponse(response.status, _headers(response.headers), response.body)
        heads: list[tuple[int, Mapping[str, str]]] = []
        chunks = self._stream_response(sent, user, heads)
        try:
            await anext(chunks)  # a started generator always closes the connection
        except ApiError as error:
            return json_response(_status(error), status=error.code)
        status, headers = heads[0]
        return StreamResponse(status, _headers(headers), chunks=chunks)

    async def _stream_response(
        self, sent: RestRequest, user: User, heads: list[tuple[int, Mapping[str, str]]]
    ) -> AsyncGenerator[bytes, None]:
        """Append the head to `heads` before the first item, which is empty; then yield the body as it arrives."""
        async with self._api.transports.transport(user) as transport, transport.stream(sent, retry=False) as stream:
            heads.append((stream.status, stream.headers))
            yield b""
            async for chunk in stream:
                yield chunk

    def __repr__(self) -> str:
        return f"<SteveApp {self._prefix} of {self._api!r}>"


def _check_csrf(request: HttpRequest) -> str:
    """Return a ``Set-Cookie`` header, or an empty text. Raises `NormanError` InvalidCSRFToken."""
    if request.header("authorization").lower().startswith("bearer "):
        return ""  # pages of other origins cannot send this header, unlike the password in a URL
    return check_csrf(request, request.method, secure=request.scheme == "https")


def _pairs(request: HttpRequest) -> list[tuple[str, str]]:
    return list(query_pairs(request.query.raw))


def _headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, headers[name]) for name in _RESPONSE_HEADERS if name in headers]


def _status(error: ApiError) -> JsonObject:
    """Return the Status of an error of the cluster."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**status, "message": error.message, "reason": error.reason, "code": error.code}
