"""The filter chain: recovery, log, headers, authentication, impersonation, authorization.

Upstream: k8s.io/apiserver/pkg/server/config.go (v1.36).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from opsdk.aio.clock import loop_time
from opsdk.aio.large_work import compute
from opsdk.aio.randomness import loop_uuid4
from opsdk.apiserver import api_errors
from opsdk.apiserver.auth.authentication import UnionAuthenticator
from opsdk.apiserver.auth.authorization import Authorizer
from opsdk.apiserver.endpoints.authorization import check
from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.apiserver.endpoints.handlers.list import ExpiredListError
from opsdk.apiserver.endpoints.response import negotiated_error
from opsdk.apiserver.endpoints.status import error_response, status_of
from opsdk.apiserver.endpoints.warnings import warning_headers
from opsdk.errors import ApiError, UnauthorizedError
from opsdk.http.server.response import HttpResponse

_LOG = logging.getLogger("opsdk.apiserver")

Filter = Callable[[Call, Handler], Awaitable[HttpResponse]]
"""Wraps a handler: it may change the call and the response, or respond itself."""


class NamedFilter(msgspec.Struct, frozen=True):
    """A filter with a name, for insertion before or after it."""

    name: str
    filter: Filter


class FilterChain:
    """An ordered list of named filters."""

    def __init__(self, filters: Sequence[NamedFilter] = ()) -> None:
        self._filters = list(filters)

    def __repr__(self) -> str:
        return f"<FilterChain {' -> '.join(self.names)}>"

    @property
    def names(self) -> list[str]:
        """The names, outermost first."""
        return [f.name for f in self._filters]

    def insert_after(self, name: str, added: NamedFilter) -> None:
        """Insert a filter after the named one."""
        self._filters.insert(self.names.index(name) + 1, added)

    def remove(self, name: str) -> None:
        """Remove a filter."""
        del self._filters[self.names.index(name)]

    def wrap(self, handler: Handler) -> Handler:
        """Return the handler behind all filters."""
        for named in reversed(self._filters):
            handler = _filtered_handler(named.filter, handler)
        return handler


def _filtered_handler(through: Filter, handler: Handler) -> Handler:
    """Return the handler behind a filter. Not a coroutine: each request passes every filter."""
    return lambda call: through(call, handler)


# ------------------------------------------------------------------ the filters
async def recover(call: Call, handler: Handler) -> HttpResponse:
    """Turn every exception into a response; an unexpected one is logged and becomes a 500."""
    try:
        return await handler(call)
    except ExpiredListError as error:
        return negotiated_error(call, error, {**status_of(error), "metadata": {"continue": error.token}})
    except ApiError as error:
        # A message may show the whole body.
        return await compute(len(error.message), negotiated_error, call, error)
    except RecursionError:
        return negotiated_error(call, api_errors.bad_request("the request is nested too deeply"))
    except Exception:  # noqa: BLE001 - the last resort: an unexpected error must not stop the server
        _LOG.exception("%s %s failed", call.info.method, call.info.path)
        # Upstream's text (WithPanicRecovery). The exception may show what the client must not see.
        text = "This request caused apiserver to panic. Look in the logs for details."
        return error_response(api_errors.internal(text))


async def headers(call: Call, handler: Handler) -> HttpResponse:
    """Add ``Audit-Id``, ``Cache-Control`` and ``Warning`` headers."""
    call.audit_id = call.http.header("audit-id") or loop_uuid4()
    response = await handler(call)
    response.user = call.user.name
    response.headers += [("audit-id", call.audit_id), *call.headers]
    for name, _ in response.headers:
        if name == "cache-control":
            break
    else:
        response.headers.append(("cache-control", "no-cache, private"))
    if call.warnings:
        response.headers += [("warning", value) for value in warning_headers(call.warnings)]
    return response


Hook = Callable[[Call, HttpResponse, float], None]
"""Called with each request, its response, and the seconds until the response begins."""


def request_log(hooks: Sequence[Hook]) -> Filter:
    """Call `hooks` with each response; the list may change later."""

    async def log(call: Call, handler: Handler) -> HttpResponse:
        clock = loop_time()
        begin = clock()
        response = await handler(call)
        for hook in hooks:
            hook(call, response, clock() - begin)
        return response

    return log


def authenticate(authenticator: UnionAuthenticator) -> Filter:
    """Authenticate the request; invalid credentials are a 401."""

    async def authn(call: Call, handler: Handler) -> HttpResponse:
        try:
            call.user = await authenticator.authenticate(call.http)
        except UnauthorizedError as error:
            return negotiated_error(call, error)
        return await handler(call)

    return authn


def authorize(authorizer: Authorizer) -> Filter:
    """Respond 403 to requests that the authorizer denies."""

    async def authz(call: Call, handler: Handler) -> HttpResponse:
        call.authorizer = authorizer
        refused = await check(call, authorizer)
        return refused if refused is not None else await handler(call)

    return authz
