"""Requests as values: what is asked for, and the path that asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from opsdk.errors import UsageError

# What RFC 3986 allows in a path segment besides letters, digits and "-._~".
_SEGMENT_SAFE = "!$&'()*+,;=:@"


@dataclass(frozen=True, slots=True)
class RestRequest:
    """One HTTP request, and what it means in Kubernetes' words.

    Attributes:
        method: ``GET``, ``POST``, ``PUT``, ``PATCH``, ``DELETE``.
        path: escaped, beginning with ``/``, below the base path of the host.
        query: pairs in the order they are sent, not escaped.
        headers: added to the transport's own; a name here wins over the same name there.
        body: the bytes to send; repeated unchanged when the request is.
        verb: ``get``, ``list``, ``watch``, ``create`` ...; like the rest only for messages and telemetry.
        group: API group, empty for the core group.
        resource: the plural.
        subresource: ``status``, ``scale`` ...
        namespace: empty for cluster-scoped requests.
        name: empty for collections.
    """

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def target(self) -> str:
        """The path with the escaped query.

        >>> RestRequest("GET", "/api/v1/pods", query=[("labelSelector", "a in (b,c)")]).target
        '/api/v1/pods?labelSelector=a+in+%28b%2Cc%29'
        """
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def described(self) -> str:
        """The request in words, for messages; never holds headers or the body.

        >>> RestRequest("GET", "/api/v1/pods", verb="list", resource="pods").described
        'list pods'
        """
        if not self.resource:
            return f"{self.method} {self.path}"
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        what = f"{what}/{self.subresource}" if self.subresource else what
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return " ".join(part for part in (self.verb or self.method, what, where) if part)


def resource_path(  # noqa: PLR0917 - the order of the path itself
    group: str, version: str, resource: str, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """The path of a collection, object or subresource; each part is escaped.

    `subresource` may hold slashes (``proxy/metrics``), which separate segments.

    >>> resource_path("apps", "v1", "deployments", "default", "web", "status")
    '/apis/apps/v1/namespaces/default/deployments/web/status'
    >>> resource_path("", "v1", "nodes")
    '/api/v1/nodes'
    """
    if not version or not resource:
        raise UsageError(f"a path needs a version and a resource, not {version!r} and {resource!r}")
    segments = ["apis", group, version] if group else ["api", version]
    if namespace:
        segments += ["namespaces", namespace]
    segments.append(resource)
    if name:
        segments.append(name)
    if subresource:
        segments += subresource.split("/")
    return "/" + "/".join(_segment(segment) for segment in segments)


def _segment(text: str) -> str:
    """One escaped path segment; the two that would climb are refused."""
    if text in {".", ".."}:
        raise UsageError(f"{text!r} cannot be a part of a path")
    return quote(text, safe=_SEGMENT_SAFE)
