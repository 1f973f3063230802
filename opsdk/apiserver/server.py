"""The delegation chain: aggregator -> core -> extensions -> not found.

Only the outermost server runs the filters. It also merges discovery, OpenAPI and the paths of the inner servers.

Upstream: k8s.io/apiserver/pkg/server/genericapiserver.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.chain import AdmissionInterface
from opsdk.apiserver.auth.authentication import Authenticator, UnionAuthenticator
from opsdk.apiserver.auth.authorization import AllowAuthenticated, Authorizer
from opsdk.apiserver.endpoints import dispatch
from opsdk.apiserver.endpoints.audit import AuditLog
from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.apiserver.endpoints.discovery import ServedGroup, ServedVersion
from opsdk.apiserver.endpoints.filters import (
    FilterChain,
    Hook,
    NamedFilter,
    authenticate,
    authorize,
    headers,
    recover,
    request_log,
)
from opsdk.apiserver.endpoints.impersonation import Impersonation
from opsdk.apiserver.endpoints.request_deadline import deadline
from opsdk.apiserver.endpoints.request_info import parse_request
from opsdk.apiserver.endpoints.routes import NonResourceRoutes
from opsdk.apiserver.registry.rest import verbs_of
from opsdk.apiserver.resources import InstalledResource
from opsdk.http.asgi_types import App
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.structured_merge.value import JsonObject

__all__ = ["Server"]


class Delegate(Protocol):
    """One server of the chain."""

    async def handle(self, call: Call) -> HttpResponse:
        """Respond to a request, or delegate it."""
        ...

    def groups(self) -> Sequence[ServedGroup]:
        """Return the served groups, including those of the delegate."""
        ...


class NotFound:
    """The end of the chain."""

    async def handle(self, call: Call) -> HttpResponse:
        """Return a plain 404 instead of a Status, so that clients can tell unknown paths from missing objects."""
        response = text_response("404 page not found\n", status=404)
        response.add_header("x-content-type-options", "nosniff")
        return response

    def groups(self) -> Sequence[ServedGroup]:
        """Return no groups."""
        return ()


class ResourceServer:
    """Serves installed resources."""

    def __init__(self, delegate: Delegate, admission: AdmissionInterface) -> None:
        self._delegate = delegate
        self._admission = admission
        self._groups: dict[str, dict[str, list[InstalledResource]]] = {}
        self._routes: dict[tuple[str, str, str, str], InstalledResource] = {}

    def __repr__(self) -> str:
        return f"<ResourceServer of {len(self._routes)} resources>"

    def install(self, served: InstalledResource) -> None:
        """Serve a resource; its storage determines the verbs."""
        info = served.info
        if not served.verbs:
            served.verbs = tuple(sorted(verbs_of(served.storage)))
        self._groups.setdefault(info.group, {}).setdefault(info.version, []).append(served)
        self._routes[info.group, info.version, info.resource, info.subresource] = served

    def find(self, group: str, version: str, resource: str, subresource: str = "") -> InstalledResource | None:
        """Return an installed resource, or None."""
        return self._routes.get((group, version, resource, subresource))

    def installed(self) -> Sequence[InstalledResource]:
        """Return all installed resources and subresources."""
        return list(self._routes.values())

    async def handle(self, call: Call) -> HttpResponse:
        info = call.info
        if not info.is_resource or info.group not in self._groups:
            return await self._delegate.handle(call)
        served = self.find(info.group, info.version, info.resource, info.subresource)
        if served is None:
            raise api_errors.no_such_resource()
        return await dispatch.dispatch(call, served, self._admission)

    def groups(self) -> Sequence[ServedGroup]:
        own = [
            ServedGroup(group, [ServedVersion(v, resources) for v, resources in versions.items()])
            for group, versions in self._groups.items()
        ]
        return [*own, *self._delegate.groups()]


class Server:
    """The outermost server: filters, then well-known paths, then the chain.

    Attributes:
        hooks: called after each response.
        audit: the latest requests with their outcomes.
        filters: the filter chain. Change it only before the first request; later use `add_filter`.
    """

    def __init__(
        self,
        delegate: Delegate,
        *,
        well_known: Callable[[Server], NonResourceRoutes] | None = None,
        authenticators: Sequence[Authenticator] = (),
        authorizer: Authorizer | None = None,
        anonymous: bool = True,
        protobuf: Callable[[JsonObject], bytes] | None = None,
    ) -> None:
        self.delegate = delegate
        self._protobuf = protobuf
        self.hooks: list[Hook] = []
        self.audit = AuditLog()
        self.well_known = (well_known or (lambda server: NonResourceRoutes(server.groups)))(self)
        authorizer = authorizer or AllowAuthenticated()
        self.filters = FilterChain(
            [
                NamedFilter("headers", headers),
                NamedFilter("audit", self.audit),
                NamedFilter("log", request_log(self.hooks)),
                NamedFilter("recover", recover),
                NamedFilter("deadline", deadline),
                NamedFilter("authenticate", authenticate(UnionAuthenticator(authenticators, anonymous=anonymous))),
                NamedFilter("impersonate", Impersonation(authorizer)),
                NamedFilter("authorize", authorize(authorizer)),
            ]
        )
        self._handler: Handler | None = None
        self._app: App = asgi(self.respond)

    @property
    def app(self) -> App:
        """The ASGI application."""
        return self._app

    def groups(self) -> Sequence[ServedGroup]:
        """Return all served groups, the core group first."""
        return self.delegate.groups()

    def add_filter(self, added: NamedFilter) -> None:
        """Add a filter after all others, from the next request on."""
        self.filters.insert_after(self.filters.names[-1], added)
        self._handler = None

    def remove_filter(self, name: str) -> None:
        """Remove a filter if it is present."""
        if name in self.filters.names:
            self.filters.remove(name)
            self._handler = None

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """Respond to one request."""
        if self._handler is None:
            self._handler = self.filters.wrap(self._route)
        info = parse_request(request.method, request.path, request.query)
        return await self._handler(Call(http=request, info=info, protobuf=self._protobuf))

    async def _route(self, call: Call) -> HttpResponse:
        answer = None if call.info.is_resource else await self.well_known.answer(call)
        return answer if answer is not None else await self.delegate.handle(call)
