"""Requests as values, and the paths of resources.

Upstream: k8s.io/client-go/rest/request.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote, urlencode

import msgspec

from opsdk.errors import RequestInfo, UsageError
from opsdk.http.body_stream import Body

# RFC 3986 allows these in a path segment, besides letters, digits and "-._~".
_SEGMENT_SAFE = "!$&'()*+,;=:@"
# Nearly every segment: it needs no escapes.
_UNESCAPED_SEGMENT = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*")


class RestRequest(msgspec.Struct, frozen=True, gc=False):
    """One HTTP request, with its Kubernetes meaning for messages and telemetry.

    Attributes:
        method: ``GET``, ``POST``, ``PUT``, ``PATCH``, ``DELETE``.
        path: escaped, starts with ``/``, relative to the host's base path.
        query: unescaped pairs in the order to send them.
        headers: added to the transport's headers; a name here takes precedence.
        body: the bytes to send; a retry sends the same bytes. A `BodyStream` is sent as it arrives, and once.
        verb: ``get``, ``list``, ``watch``, ``create`` and so on. Only for messages and telemetry, like the rest.
        group: API group, empty for the core group.
        version: API version.
        resource: the plural.
        subresource: ``status``, ``scale`` and so on.
        namespace: empty for cluster-scoped requests.
        name: empty for collections.
        body_name: the name of the object that a POST to a collection creates.
    """

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: Body = b""
    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    version: str = ""
    body_name: str = ""

    def __repr__(self) -> str:
        return f"<RestRequest {self.method} {self.target}>"  # headers and body may hold secrets

    @property
    def target(self) -> str:
        """The path with the escaped query.

        >>> RestRequest("GET", "/api/v1/pods", query=[("labelSelector", "a in (b,c)")]).target
        '/api/v1/pods?labelSelector=a+in+%28b%2Cc%29'
        """
        return f"{self.path}?{_encode_query(tuple(self.query))}" if self.query else self.path

    @property
    def is_repeatable(self) -> bool:
        """Whether the request can be sent, or sent again: not after its `BodyStream` was started."""
        return isinstance(self.body, bytes) or not self.body.started

    @property
    def info(self) -> RequestInfo:
        """The request without query, headers and body, for errors, logs and traces."""
        if not self.resource:
            return RequestInfo(verb=self.method, path=self.path)
        return RequestInfo(
            verb=self.verb or self.method,
            group=self.group,
            version=self.version,
            resource=self.resource,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name or self.body_name,
        )

    @property
    def description(self) -> str:
        """The request in words, for messages.

        >>> RestRequest("GET", "/api/v1/pods", verb="list", resource="pods").description
        'list pods'
        """
        return str(self.info)


@lru_cache(maxsize=256)  # most requests have one of a few queries: the field owner, the page size
def _encode_query(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query)


def resource_path(  # noqa: PLR0917 - the order of the path itself
    group: str, version: str, resource: str, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """Return the escaped path of a collection, object or subresource.

    `subresource` may contain slashes (``proxy/metrics``), which separate segments. Raises `UsageError`.

    >>> resource_path("apps", "v1", "deployments", "default", "web", "status")
    '/apis/apps/v1/namespaces/default/deployments/web/status'
    >>> resource_path("", "v1", "nodes")
    '/api/v1/nodes'
    """
    if not version or not resource:
        raise UsageError(f"a path needs a version and a resource, not {version!r} and {resource!r}")
    path = _collection_path(group, version, resource, namespace)
    if name:
        path += f"/{_escape_segment(name)}"
    if subresource:
        path += _subresource_path(subresource)
    return path


@lru_cache(maxsize=256)
def _subresource_path(subresource: str) -> str:
    return "".join([f"/{_escape_segment(segment)}" for segment in subresource.split("/")])


@lru_cache(maxsize=1024)
def _collection_path(group: str, version: str, resource: str, namespace: str) -> str:
    segments = ["apis", group, version] if group else ["api", version]
    if namespace:
        segments += ["namespaces", namespace]
    return "".join(f"/{_escape_segment(segment)}" for segment in (*segments, resource))


def _escape_segment(segment: str) -> str:
    if _UNESCAPED_SEGMENT.fullmatch(segment):
        return segment
    if segment in {".", ".."}:
        raise UsageError(f"{segment!r} is not allowed as a path segment: it would change the path")
    return quote(segment, safe=_SEGMENT_SAFE)
