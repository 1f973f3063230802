"""Negotiation of the media type of responses."""

from __future__ import annotations

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.apiserver.endpoints.negotiation import METADATA as MEMBERS
from opsdk.apiserver.endpoints.negotiation import NOTHING, OBJECT_KINDS, TYPED, WHOLE, negotiate
from opsdk.errors import NotAcceptableError

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("header", "media", "kind"),
    [
        ("", "application/json", ""),
        ("*/*", "application/json", ""),
        ("application/*", "application/json", ""),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json", ""),
        ("application/vnd.kubernetes.protobuf, */*", "application/json", ""),
        ("application/json;q=0.1, application/yaml", "application/yaml", ""),
        (f"{TABLE},application/json", "application/json", "Table"),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "application/json", ""),
    ],
)
def test_the_best_clause_that_can_be_served(header: str, media: str, kind: str) -> None:
    """Quality and order decide between media types; unsupported ones are skipped."""
    accepted = negotiate(header, OBJECT_KINDS)
    assert (accepted.media, accepted.kind) == (media, kind)


@pytest.mark.parametrize("header", ["text/html", "application/xml", "application/json;v=9"])
def test_nothing_fits(header: str) -> None:
    """A client that accepts nothing we have gets a 406."""
    with pytest.raises(NotAcceptableError):
        negotiate(header, OBJECT_KINDS)


PROTOBUF = "application/vnd.kubernetes.protobuf"
METADATA = f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("header", "binary", "media", "kind"),
    [
        (f"{PROTOBUF},application/json", TYPED, PROTOBUF, ""),
        (f"{PROTOBUF}, */*", TYPED, PROTOBUF, ""),
        (f"application/json, {PROTOBUF}", TYPED, "application/json", ""),
        (f"{PROTOBUF};stream=watch", TYPED, PROTOBUF, ""),
        (f"{PROTOBUF}, */*", MEMBERS, "application/json", ""),
        (f"{METADATA},application/json", MEMBERS, PROTOBUF, "PartialObjectMetadata"),
        (f"{METADATA},application/json", WHOLE, "application/json", ""),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,{TABLE}", TYPED, "application/json", "Table"),
        (f"{PROTOBUF}, */*", NOTHING, "application/json", ""),
    ],
)
def test_protobuf_where_it_comes_first(header: str, binary: frozenset[str], media: str, kind: str) -> None:
    """If a client prefers protobuf, built-in objects and metadata are protobuf; tables are JSON."""
    accepted = negotiate(header, OBJECT_KINDS, binary=binary)
    assert (accepted.media, accepted.kind) == (media, kind)


MAPS = "/api/v1/namespaces/default/configmaps"


async def test_yaml_as_the_server_writes_it() -> None:
    """YAML quotes ambiguous strings as the server does, and keeps line breaks."""
    async with Environment() as env:
        call = Caller(env)
        data = {"a": "1", "b": "", "c": "yes", "d": ": x", "e": "x\ny\n", "f": "plain", "g": "2020-01-01T00:00:00Z"}
        response = await call("POST", MAPS, {"metadata": {"name": "y"}, "data": data}, accept="application/yaml")
        assert (
            b"""data:
  a: "1"
  b: ""
  c: "yes"
  d: ': x'
  e: |
    x
    y
  f: plain
  g: "2020-01-01T00:00:00Z"
"""
            in response.raw
        )


async def test_there_are_no_streams_of_yaml() -> None:
    """A watch that prefers YAML is refused with a 406 in YAML."""
    async with Environment() as env:
        answer = await Caller(env)("GET", f"{MAPS}?watch=1", accept="application/json;q=0.5,application/yaml")
        assert answer.status == 406
        assert answer.headers["content-type"] == "application/yaml"
        assert b"application/json;stream=watch" in answer.raw


async def test_errors_are_for_people_where_no_form_is_accepted() -> None:
    """Errors for unknown media types and for curl are indented, others are compact."""
    async with Environment() as env:
        call = Caller(env)
        assert (await call("GET", f"{MAPS}/none", accept="text/html")).raw.startswith(b'{\n  "kind": "Status"')
        assert (await call("GET", f"{MAPS}/none")).raw.startswith(b'{"kind":"Status"')
        assert (await call("GET", f"{MAPS}/none", user_agent="curl/8")).raw.startswith(b'{\n  "kind"')
        assert (await call("GET", f"{MAPS}/none?pretty=x", user_agent="curl/8")).raw.startswith(b'{"kind"')


async def test_pages_that_have_one_form() -> None:
    """The version is always JSON, and health is always plain text."""
    async with Environment() as env:
        call = Caller(env)
        refused = await call("GET", "/version", accept="application/yaml")
        assert refused.status == 406
        assert b"Available representations: application/json\n" in refused.raw
        assert (await call("GET", "/version", accept="text/html, */*;q=0.1")).status == 200
        assert (await call("GET", "/healthz")).headers["x-content-type-options"] == "nosniff"


async def test_reviews_have_no_table() -> None:
    """Create-only kinds have no table form: it is a 406, unless another form is accepted."""
    async with Environment() as env:
        call = Caller(env)
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        refused = await call("POST", path, body, accept=TABLE)
        assert (refused.status, refused.json["reason"]) == (406, "NotAcceptable")
        review = await call("POST", path, body, accept=f"{TABLE},application/json")
        assert (review.status, review.json["kind"]) == (201, "SelfSubjectAccessReview")
        maps = "/api/v1/namespaces/default/configmaps"
        stored = await call("POST", maps, {"metadata": {"name": "a"}}, accept=TABLE)
        assert (stored.status, stored.json["kind"]) == (201, "Table")
