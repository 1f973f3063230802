"""The URLs of links and actions, also behind proxies.

Upstream: github.com/rancher/norman/urlbuilder/url.go
Deviates: an invalid forwarded host, protocol or prefix is ignored, and only the first item of a list is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from opsdk.http.server.request import HttpRequest
from opsdk.http.server.request_rules import query_pairs
from opsdk.norman.origin import forwarded_scheme
from opsdk.norman.schema_parts import ApiVersion, SchemaNames

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class RequestUrls:
    """Builds URLs that the client of a request can use.

    Honours ``X-Forwarded-Proto``, and behind a trusted proxy ``X-API-Host``, ``X-Forwarded-Host``, ``X-Forwarded-Port``
    and ``X-API-URL-Prefix``.

    Args:
        request: the request.
        version: of the URL, for schemas of no version.
        prefix: the part of the URL between a version and a type that names the sub-context.
        trust_forwarded: honour the headers, because a proxy sets all of them.
    """

    def __init__(
        self,
        request: HttpRequest,
        version: ApiVersion | None = None,
        *,
        prefix: str = "",
        trust_forwarded: bool = False,
    ) -> None:
        self._base = (
            _base(request) if trust_forwarded else f"{forwarded_scheme(request)}://{_host(request.header('host'))}"
        )
        self._path = request.path
        self._pairs = list(query_pairs(request.query.raw))
        self._version = version
        self._prefix = prefix
        self._collections: dict[tuple[str, str], str] = {}

    @property
    def host(self) -> str:
        """The host of the links, with its port."""
        return urlsplit(self._base).netloc

    def current(self) -> str:
        """Return the URL of the request without its query."""
        return self._base + quote(self._path, safe="/:@!$&'()*+,;=~-._")

    def with_query(self, **changes: str | None) -> str:
        """Return the URL of the request with some parameters changed; None removes one.

        The order of the others stays.
        """
        pairs = [(name, value) for name, value in self._pairs if name not in changes]
        pairs += [(name, value) for name, value in changes.items() if value is not None]
        return f"{self.current()}?{urlencode(pairs)}" if pairs else self.current()

    def relative_to_root(self, path: str) -> str:
        """Return the URL of a path of this server."""
        return self._base + path

    def version(self, version: ApiVersion) -> str:
        """Return the URL of a version."""
        return self._base + version.path

    def collection(self, schema: SchemaNames, *, filters: Mapping[str, str] | None = None) -> str:
        """Return the URL of a collection, filtered by fields."""
        query = f"?{urlencode(filters)}" if filters else ""
        return f"{self._url(schema)}{query}"

    def collection_action(self, schema: SchemaNames, action: str) -> str:
        """Return the URL of an action of a collection."""
        return f"{self._url(schema)}?{urlencode({'action': action})}"

    def resource(self, schema: SchemaNames, object_id: str) -> str:
        """Return the URL of an object."""
        return self._url(schema, object_id)

    def link(self, schema: SchemaNames, object_id: str, name: str) -> str:
        """Return the URL of a link of an object."""
        return self._url(schema, object_id, name)

    def action(self, schema: SchemaNames, object_id: str, action: str) -> str:
        """Return the URL of an action of an object."""
        return f"{self._url(schema, object_id)}?{urlencode({'action': action})}"

    def schema(self, schema: SchemaNames) -> str:
        """Return the URL of a schema."""
        return f"{self._base}{schema.version.path}/schemas/{quote(schema.id, safe=':')}"

    def _url(self, schema: SchemaNames, *parts: str) -> str:
        key = (schema.version.path, schema.plural_name)
        collection = self._collections.get(key)
        if collection is None:
            collection = self._collections[key] = self._collection_of(schema)
        return collection + "".join(f"/{quote(part, safe=':@')}" for part in parts)

    def _collection_of(self, schema: SchemaNames) -> str:
        # The schemas of the meta version are served below every version.
        version = self._version if schema.version.path == "/meta" and self._version is not None else schema.version
        prefix = self._prefix if self._version is not None and version.path == self._version.path else ""
        return f"{self._base}{version.path}{prefix}/{quote(schema.plural_name.lower(), safe=':@')}"


def _base(request: HttpRequest) -> str:
    scheme = forwarded_scheme(request)
    host = next((h for name in ("x-api-host", "x-forwarded-host") if (h := _host(_first(request, name)))), "")
    port = _first(request, "x-forwarded-port")
    if not host:
        host = _host(request.header("host"))
    elif ":" not in host.rpartition("]")[2] and port.isdigit() and port != _DEFAULT_PORTS[scheme]:
        host = _host(f"{host}:{port}") or host
    prefix = _first(request, "x-api-url-prefix")
    path = prefix.rstrip("/") if _PREFIX.fullmatch(prefix) else ""
    return f"{scheme}://{host}{path}"


def _first(request: HttpRequest, name: str) -> str:
    return request.header(name).partition(",")[0].strip()


def _host(text: str) -> str:
    """Return a valid host with an optional port, or an empty string, because it is written into links and pages."""
    return text if _HOST.fullmatch(text) else ""
