"""Request info from method, path and query. Pure.

Upstream: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go (v1.36).
"""

from __future__ import annotations

import msgspec

from opsdk.http.server.request import Query

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed path of a resource request or a non-resource request.

    ``verb`` is the API verb for resources and the lower-case method otherwise. ``parts`` is the path after the version
    and the namespace: resource, name, subresource and the rest.
    """

    is_resource: bool
    verb: str
    method: str
    path: str
    prefix: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    parts: tuple[str, ...] = ()
    deprecated_watch: bool = False


def is_true(value: str) -> bool:
    """Report whether a query value is true: all values but ``false`` and ``0`` are."""
    return value.lower() not in ("false", "0")


def parse_request(method: str, path: str, query: Query) -> RequestInfo:
    """Parse method, path and query.

    >>> parse_request("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale", Query()).subresource
    'scale'
    """
    # Empty segments count; only slashes at the end are dropped.
    parts = path.strip("/").split("/")
    start = 2 if parts[0] == "api" else 3
    grouped = parts[0] == "apis"
    known_prefix = (grouped or parts[0] == "api") and not path.startswith("//")
    if not known_prefix or len(parts) <= start or (grouped and not parts[1]):
        return RequestInfo(is_resource=False, verb=method.lower(), method=method, path=path)
    group = parts[1] if grouped else ""
    rest = parts[start:]
    verb = _VERBS.get(method, "")
    watching = rest[0] == "watch" and len(rest) > 1
    if watching:
        rest, verb = rest[1:], "watch"
    namespace, rest = _namespace(rest)
    name = rest[1] if len(rest) > 1 else ""
    return RequestInfo(
        is_resource=True,
        verb=verb if watching else _collection_verb(verb, name, query),
        method=method,
        path=path,
        prefix=parts[0],
        group=group,
        version=parts[start - 1],
        namespace=namespace,
        resource=rest[0],
        name=name,
        subresource=rest[2] if len(rest) > 2 else "",
        parts=tuple(rest),
        deprecated_watch=watching,
    )


def _namespace(rest: list[str]) -> tuple[str, list[str]]:
    """Split ``namespaces/<n>/...``; a Namespace object is in its own namespace."""
    if rest[0] != "namespaces" or len(rest) == 1:
        return "", rest
    if len(rest) == 2 or rest[2] in _NAMESPACE_SUBRESOURCES:
        return rest[1], rest
    return rest[1], rest[2:]


def _collection_verb(verb: str, name: str, query: Query) -> str:
    if name:
        return verb
    if verb == "get":
        return "watch" if "watch" in query and is_true(query.get("watch")) else "list"
    return "deletecollection" if verb == "delete" else verb
