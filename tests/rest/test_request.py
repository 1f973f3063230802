"""Laws of `opsdk.rest.request`."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import UsageError
from opsdk.rest.request import RestRequest, resource_path

_parts = st.text(min_size=1).filter(lambda text: text not in {".", ".."} and not _surrogate(text))


def _surrogate(text: str) -> bool:
    return any(0xD800 <= ord(char) <= 0xDFFF for char in text)


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        (("", "v1", "pods"), "/api/v1/pods"),
        (("", "v1", "pods", "ns"), "/api/v1/namespaces/ns/pods"),
        (("", "v1", "pods", "ns", "web"), "/api/v1/namespaces/ns/pods/web"),
        (("", "v1", "pods", "ns", "web", "status"), "/api/v1/namespaces/ns/pods/web/status"),
        (("", "v1", "namespaces", "", "ns"), "/api/v1/namespaces/ns"),
        (("apps", "v1", "deployments", "ns"), "/apis/apps/v1/namespaces/ns/deployments"),
        (
            ("", "v1", "services", "ns", "https:web:443", "proxy/a/b"),
            "/api/v1/namespaces/ns/services/https:web:443/proxy/a/b",
        ),
        (("", "v1", "pods", "ns", "a/b"), "/api/v1/namespaces/ns/pods/a%2Fb"),
        (("", "v1", "pods", "ns", "a?b#c d"), "/api/v1/namespaces/ns/pods/a%3Fb%23c%20d"),
        (
            ("rbac.authorization.k8s.io", "v1", "clusterroles", "", "system:node"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        ),
    ],
)
def test_path_table(parts: tuple[str, ...], path: str) -> None:
    """A path names group, version, namespace, resource, name and subresource in the server's order."""
    assert resource_path(*parts) == path


@given(_parts, _parts)
def test_no_part_escapes_its_segment(namespace: str, name: str) -> None:
    """Any namespace and name stay in their path segment and can be read back."""
    segments = resource_path("", "v1", "pods", namespace, name).split("/")
    assert len(segments) == 7
    assert (unquote(segments[4]), unquote(segments[6])) == (namespace, name)


@pytest.mark.parametrize("name", [".", ".."])
def test_dot_segments_are_refused(name: str) -> None:
    """A segment that proxies would resolve to another path is never sent."""
    with pytest.raises(UsageError, match="path segment"):
        resource_path("", "v1", "pods", "ns", name)


def test_version_and_resource_are_needed() -> None:
    """A path without version or resource is the caller's mistake."""
    with pytest.raises(UsageError):
        resource_path("apps", "", "deployments")


@given(st.lists(st.tuples(_parts, _parts)))
def test_query_keeps_pairs_and_order(pairs: list[tuple[str, str]]) -> None:
    """A query comes out as it went in, repeated names included."""
    target = RestRequest("GET", "/x", query=pairs).target
    assert parse_qsl(target.partition("?")[2], keep_blank_values=True) == pairs
    assert target.isascii()


def test_described_names_the_object_and_no_secret() -> None:
    """The description has verb, resource and key, but not headers or body."""
    request = RestRequest(
        "PATCH", "/p", headers={"X": "secret"}, body=b"secret",
        verb="patch", group="apps", resource="deployments", subresource="scale", namespace="ns", name="web",
    )  # fmt: skip
    assert request.description == "patch deployments.apps/scale ns/web"
    assert "secret" not in repr(request)
