"""Request info from method, path and query."""

from __future__ import annotations

import pytest

from opsdk.apiserver.endpoints.request_info import parse_request
from opsdk.http.server.request import Query


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET /api/v1/pods", ("list", "", "v1", "", "pods", "", "")),
        ("GET /api/v1/pods?watch=true", ("watch", "", "v1", "", "pods", "", "")),
        ("GET /api/v1/pods?watch=false", ("list", "", "v1", "", "pods", "", "")),
        ("GET /api/v1/namespaces/a/pods/b", ("get", "", "v1", "a", "pods", "b", "")),
        ("HEAD /api/v1/namespaces/a/pods/b", ("get", "", "v1", "a", "pods", "b", "")),
        ("GET /api/v1/namespaces", ("list", "", "v1", "", "namespaces", "", "")),
        ("GET /api/v1/namespaces/a", ("get", "", "v1", "a", "namespaces", "a", "")),
        ("PUT /api/v1/namespaces/a/finalize", ("update", "", "v1", "a", "namespaces", "a", "finalize")),
        ("PUT /api/v1/namespaces/a/status", ("update", "", "v1", "a", "namespaces", "a", "status")),
        ("POST /apis/apps/v1/namespaces/a/deployments", ("create", "apps", "v1", "a", "deployments", "", "")),
        (
            "PATCH /apis/apps/v1/namespaces/a/deployments/b/scale",
            ("patch", "apps", "v1", "a", "deployments", "b", "scale"),
        ),
        (
            "DELETE /apis/apps/v1/namespaces/a/deployments",
            ("deletecollection", "apps", "v1", "a", "deployments", "", ""),
        ),
        ("DELETE /apis/apps/v1/namespaces/a/deployments/b", ("delete", "apps", "v1", "a", "deployments", "b", "")),
        ("GET /api/v1/watch/namespaces/a/pods", ("watch", "", "v1", "a", "pods", "", "")),
        ("POST /api/v1/watch/namespaces/a/pods", ("watch", "", "v1", "a", "pods", "", "")),
    ],
)
def test_resource_requests(line: str, expected: tuple[str, ...]) -> None:
    """Verb, group, version, namespace, resource, name and subresource follow from method, path and query alone."""
    method, url = line.split(" ")
    path, _, query = url.partition("?")
    info = parse_request(method, path, Query(query))
    assert info.is_resource
    got = (info.verb, info.group, info.version, info.namespace, info.resource, info.name, info.subresource)
    assert got == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1/", "/healthz", "/version"]
)
def test_other_paths(path: str) -> None:
    """Discovery, health and the like are not resource requests; their verb is the method."""
    info = parse_request("GET", path, Query())
    assert (info.is_resource, info.verb) == (False, "get")
