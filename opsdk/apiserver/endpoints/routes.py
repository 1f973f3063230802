"""Non-resource paths: health, version, discovery, OpenAPI, the list of paths.

Upstream: k8s.io/apiserver/pkg/server/routes (v1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from opsdk.apiserver import api_errors
from opsdk.apiserver.endpoints import discovery
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.discovery import ServedGroup
from opsdk.apiserver.endpoints.etag import cached
from opsdk.apiserver.endpoints.negotiation import JSON, AcceptedMediaType, clauses, negotiate, not_acceptable
from opsdk.apiserver.endpoints.openapi.v3 import OpenApi
from opsdk.apiserver.endpoints.response import PLAIN, encode, wants_pretty
from opsdk.http.server.response import HttpResponse, json_response, text_response
from opsdk.structured_merge.value import JsonObject

HEALTH_CHECKS = dict.fromkeys(("healthz", "livez", "readyz"), ("ping", "log"))
"""The check names of each health path."""

_ROUTED = frozenset({"api", "apis", "version", "openid", ".well-known"})
"""Path prefixes with a fixed method; trailing slashes are ignored."""
_Response = HttpResponse | Awaitable[HttpResponse | None] | None
_SHUTDOWN = "shutdown"
_STORAGE = "storage"


class NonResourceRoutes:
    """Serves non-resource paths.

    Attributes:
        stopping: set at shutdown; the check ``shutdown`` fails then.

    Args:
        checks: the health paths with their check names; all checks pass.
        pages: handlers of other paths.
        storage_failure: returns why the storage takes no writes; the check ``storage`` of ``/readyz`` fails then.
    """

    def __init__(
        self,
        groups: Callable[[], Sequence[ServedGroup]],
        *,
        version: Mapping[str, str] | None = None,
        openapi: OpenApi | None = None,
        checks: Mapping[str, Sequence[str]] = HEALTH_CHECKS,
        pages: Mapping[str, Callable[[Call], HttpResponse]] | None = None,
        storage_failure: Callable[[], str] = lambda: "",
    ) -> None:
        self.stopping = False
        self._pages = dict(pages or {})
        self._groups = groups
        # Encoded once, because many clients poll it; it is indented for all of them.
        self._version = encode(dict(version or {}), PLAIN, pretty=True)
        self._openapi = openapi
        self._checks = checks
        self._storage_failure = storage_failure

    async def answer(self, call: Call) -> HttpResponse | None:
        """Return the response; None for another path."""
        path = call.info.path
        parts = [p for p in path.split("/") if p]
        if "//" in path or (path.endswith("/") and parts and parts[0] not in _ROUTED):
            return None
        page = self._pages.get(call.info.path)
        handler = self._handler(parts) if page is None else lambda call, _: page(call)
        if handler is None:
            return None
        if parts and parts[0] in _ROUTED and call.info.method != "GET":
            groups = [group for group in self._groups() if parts[0] == "apis" and group.group in parts[1:2]]
            # Discovery documents of custom resources are served for all methods.
            if not groups or any(map(_built_in, groups)):
                raise api_errors.method_not_allowed()
        response = handler(call, parts[1:])
        return await response if isinstance(response, Awaitable) else response

    def _handler(self, parts: Sequence[str]) -> Callable[[Call, Sequence[str]], _Response] | None:
        """Return the handler for the first part of a path; None for a path that is not served."""
        match parts[0] if parts else "":
            case "":
                return self._root
            case "api":
                return self._api
            case "apis":
                return self._apis
            case "version" if len(parts) == 1:
                return self._show_version
            case name if name in self._checks:
                return self._health
            case "openapi" if self._openapi is not None:
                return self._openapi.answer
            case _:
                return None

    # -------------------------------------------------------------- discovery
    def _api(self, call: Call, rest: Sequence[str]) -> HttpResponse | None:
        core = [g for g in self._groups() if not g.group]
        if not rest:
            accepted = discovery.aggregated_clause(call.http.header("accept"))
            if accepted is not None:
                return self._aggregated(call, core, accepted)
            return self._legacy(call, discovery.api_versions(call.http.header("host")))
        return self._resources(call, core, rest[0])

    def _apis(self, call: Call, rest: Sequence[str]) -> HttpResponse | None:
        groups = [g for g in self._groups() if g.group]
        if not rest:
            accepted = discovery.aggregated_clause(call.http.header("accept"))
            if accepted is not None:
                return self._aggregated(call, groups, accepted)
            return self._legacy(call, discovery.api_group_list(groups))
        matching_groups = [g for g in groups if g.group == rest[0]]
        if not matching_groups:
            return None
        if len(rest) == 1:
            return self._legacy(call, discovery.api_group(matching_groups[0]))
        return self._resources(call, matching_groups, rest[1])

    def _resources(self, call: Call, groups: Sequence[ServedGroup], version: str) -> HttpResponse | None:
        for group in groups:
            for served in group.versions:
                if served.version == version and served.remote_documents is not None:
                    return None
                if served.version == version:
                    return self._legacy(call, discovery.api_resource_list(group.group, served))
        if any(map(_built_in, groups)):
            raise api_errors.no_such_resource()
        return None

    @staticmethod
    def _legacy(call: Call, document: JsonObject) -> HttpResponse:
        accepted = negotiate(call.http.header("accept"))
        raw = encode(document, accepted, pretty=wants_pretty(call))
        return HttpResponse(200, [("content-type", accepted.media)], raw)

    @staticmethod
    def _aggregated(call: Call, groups: Sequence[ServedGroup], accepted: AcceptedMediaType) -> HttpResponse:
        raw = encode(discovery.aggregated(groups), accepted)
        media = f"{accepted.media};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        return cached(call, raw, media)

    # -------------------------------------------------------------- other paths
    def _root(self, call: Call, rest: Sequence[str]) -> HttpResponse:
        paths = ["/api", "/api/v1", "/apis"]
        for group in self._groups():
            if group.group:
                paths.append(f"/apis/{group.group}")
                paths.extend(f"/apis/{group.group}/{v.version}" for v in group.versions)
        for kind, checks in self._checks.items():
            paths.extend([f"/{kind}", *(f"/{kind}/{name}" for name in checks)])
        paths.extend(["/version", *self._pages])
        if self._openapi is not None:
            paths.extend(["/openapi/v2", "/openapi/v3", *self._openapi.paths()])
        return json_response({"paths": sorted(paths)})

    def _show_version(self, call: Call, rest: Sequence[str]) -> HttpResponse:
        media = {clause.media for clause in clauses(call.http.header("accept"))}
        if media and media.isdisjoint(("*/*", JSON)):
            raise not_acceptable("", served=JSON)
        return HttpResponse(200, [("content-type", "application/json")], self._version)

    def _health(self, call: Call, rest: Sequence[str]) -> HttpResponse | None:
        """Return the report of a health path, or of one of its checks."""
        kind = call.info.path.strip("/").partition("/")[0]
        checks = self._checks[kind]
        excluded = set(call.http.query.all("exclude"))
        if kind == "readyz" and not rest and _STORAGE not in excluded and (failure := self._storage_failure()):
            lines = [*(f"[+]{name} ok" for name in checks), f"[-]{_STORAGE} failed: {failure}", f"{kind} check failed"]
            return _plain("\n".join([*lines, ""]), status=500)
        failing = self.stopping and _SHUTDOWN in checks and _SHUTDOWN not in excluded
        if rest:
            name = "/".join(rest)
            if self.stopping and name == _SHUTDOWN and name in checks:
                return _plain("internal server error: process is shutting down\n", status=500)
            return _plain("ok") if name in checks else None
        if "verbose" not in call.http.query and not failing:
            return _plain("ok")
        lines = [f"[+]{name} excluded: ok" if name in excluded else f"[+]{name} ok" for name in checks]
        if failing:
            lines[checks.index(_SHUTDOWN)] = f"[-]{_SHUTDOWN} failed: reason withheld"
            return _plain("\n".join([*lines, f"{kind} check failed", ""]), status=500)
        unknown = sorted(excluded - set(checks))
        if unknown:
            listed = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
        return _plain("\n".join([*lines, f"{kind} check passed", ""]))


def _plain(text: str, *, status: int = 200) -> HttpResponse:
    """Return a plain text response with ``nosniff``."""
    response = text_response(text, status=status)
    response.add_header("x-content-type-options", "nosniff")
    return response


def _built_in(group: ServedGroup) -> bool:
    """Report whether the group has fixed routes; a missing version is then a 404 Status, else a plain 404."""
    return any(r.model.typed for served in group.versions for r in served.resources if not r.info.subresource)
