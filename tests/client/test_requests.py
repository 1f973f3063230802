"""Operations to requests: every verb, every option."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from client_fakes import NODE, POD, SITE, Site, site

from opsdk.api.core.v1 import Node, Pod
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import kind_of, metadata_only, unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import PartialObjectMetadata, Unstructured, to_dict
from opsdk.apimachinery.selectors import FieldSelector, LabelRequirements
from opsdk.client.operations import Apply, Create, Delete, DeleteAllOf, Get, List, PatchObject, Update, Watch
from opsdk.client.options import DeleteOptions, GetOptions, ListOptions, WatchOptions, WriteOptions
from opsdk.client.patch import PatchType, RawPatch, json_patch, merge_patch, strategic_merge_patch
from opsdk.client.requests import build_request, build_watch
from opsdk.errors import EncodeError, UsageError
from opsdk.rest.request import RestRequest

SITES = "/apis/demo.opsdk.dev/v1/namespaces/ns/sites"
KEY = ObjectKey("ns", "a")
KIND = kind_of(Site)
ALL = WriteOptions(dry_run=True, field_owner="me", field_validation="Strict")
ALL_QUERY = "dryRun=All&fieldManager=me&fieldValidation=Strict"


def line(request: RestRequest) -> str:
    """Method, path and query in one line."""
    query = urlencode(list(request.query))
    return f"{request.method} {request.path}{'?' if query else ''}{query}"


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Get(kind=KIND, key=KEY), f"GET {SITES}/a"),
        (Get(kind=KIND, key=KEY, options=GetOptions(resource_version="0")), f"GET {SITES}/a?resourceVersion=0"),
        (Get(kind=KIND, key=KEY, subresource="status"), f"GET {SITES}/a/status"),
        (Create(obj=site()), f"POST {SITES}"),
        (Create(obj=site(), options=ALL), f"POST {SITES}?{ALL_QUERY}"),
        (Create(obj=site(), subresource="bake", body=site()), f"POST {SITES}/a/bake"),
        (Update(obj=site(), options=ALL), f"PUT {SITES}/a?{ALL_QUERY}"),
        (Update(obj=site(), subresource="status"), f"PUT {SITES}/a/status"),
        (PatchObject(obj=site(), patch=merge_patch({}), options=ALL), f"PATCH {SITES}/a?{ALL_QUERY}"),
        (PatchObject(obj=site(), patch=merge_patch({}), subresource="scale"), f"PATCH {SITES}/a/scale"),
        (Apply(obj=site(), options=WriteOptions(field_owner="me")), f"PATCH {SITES}/a?fieldManager=me"),
        (
            Apply(obj=site(), subresource="status", options=WriteOptions(field_owner="me", force=True, dry_run=True)),
            f"PATCH {SITES}/a/status?dryRun=All&fieldManager=me&force=true",
        ),
        (Delete(gvk=Site.gvk, key=KEY), f"DELETE {SITES}/a"),
        (DeleteAllOf(gvk=Site.gvk, select=ListOptions(namespace="ns")), f"DELETE {SITES}"),
        (List(kind=KIND), "GET /apis/demo.opsdk.dev/v1/sites"),
        (List(kind=KIND, options=ListOptions(namespace="ns")), f"GET {SITES}"),
        (
            List(
                kind=KIND,
                options=ListOptions(
                    namespace="ns",
                    label_selector=LabelRequirements.parse("a=b"),
                    field_selector=FieldSelector.parse("c=d"),
                    limit=5,
                    continue_token="token",
                    resource_version="9",
                    resource_version_match="Exact",
                ),
            ),
            (
                f"GET {SITES}?labelSelector=a%3Db&fieldSelector=c%3Dd&limit=5&continue=token"
                "&resourceVersion=9&resourceVersionMatch=Exact"
            ),
        ),
    ],
)
def test_paths_and_queries(operation: Any, expected: str) -> None:
    """Each operation becomes one request with the expected path and query."""
    assert line(build_request(operation, SITE)) == expected


def test_cluster_scoped_kinds_have_no_namespace_in_their_path() -> None:
    """The path of a cluster-scoped kind has no namespace, whatever the operation names."""
    node = Node(metadata=ObjectMeta(name="n", namespace="odd"))
    for operation, expected in (
        (Get(kind=kind_of(Node), key=ObjectKey("odd", "n")), "GET /api/v1/nodes/n"),
        (List(kind=kind_of(Node), options=ListOptions(namespace="odd")), "GET /api/v1/nodes"),
        (Create(obj=node), "POST /api/v1/nodes"),
        (Delete(gvk=Node.gvk, key=ObjectKey("odd", "n")), "DELETE /api/v1/nodes/n"),
    ):
        assert line(build_request(operation, NODE)) == expected


@pytest.mark.parametrize(
    ("options", "query"),
    [
        (WatchOptions(), "watch=true"),
        (WatchOptions(resource_version="7", timeout=30), "watch=true&resourceVersion=7&timeoutSeconds=30"),
        (WatchOptions(bookmarks=True), "watch=true&allowWatchBookmarks=true"),
        (WatchOptions(label_selector=LabelRequirements.parse("a")), "watch=true&labelSelector=a"),
        (
            WatchOptions(initial_events=True),
            "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        ),
    ],
)
def test_watch_options_become_query_parameters(options: WatchOptions, query: str) -> None:
    """Each option of a watch becomes a query parameter."""
    request = build_watch(Watch(kind=KIND, options=options), SITE)
    assert line(request) == f"GET /apis/demo.opsdk.dev/v1/sites?{query}"
    assert request.verb == "watch"


@pytest.mark.behaviour(11)
def test_deletes_carry_their_options_in_the_body() -> None:
    """Options that are not set are left out, and so are empty preconditions."""
    plain = build_request(Delete(gvk=Site.gvk, key=KEY), SITE)
    assert msgspec.json.decode(plain.body) == {"apiVersion": "v1", "kind": "DeleteOptions"}
    options = DeleteOptions(dry_run=True, grace_period_seconds=0, propagation="Orphan", uid="u", resource_version="3")
    expected = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "dryRun": ["All"],
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Orphan",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
    }
    assert msgspec.json.decode(build_request(Delete(gvk=Site.gvk, key=KEY, options=options), SITE).body) == expected
    select = ListOptions(
        namespace="ns", label_selector=LabelRequirements.parse("a=b"), field_selector=FieldSelector.parse("c=d")
    )
    many = build_request(DeleteAllOf(gvk=Site.gvk, select=select, options=options), SITE)
    assert line(many) == f"DELETE {SITES}?labelSelector=a%3Db&fieldSelector=c%3Dd"
    assert msgspec.json.decode(many.body) == expected
    assert many.verb == "deletecollection"


def test_a_selector_for_nothing_selects_nothing() -> None:
    """A selector for nothing is sent as a contradiction, because no selector would select everything."""
    for operation in (
        List(kind=KIND, options=ListOptions(label_selector=LabelRequirements.none())),
        DeleteAllOf(gvk=Site.gvk, select=ListOptions(namespace="ns", label_selector=LabelRequirements.none())),
    ):
        text = dict(build_request(operation, SITE).query)["labelSelector"]
        selector = LabelRequirements.parse(text)
        assert not selector.matches({})
        assert not selector.matches({"opsdk.dev/nothing": "x"})


@pytest.mark.parametrize(
    ("patch", "content_type", "body"),
    [
        (merge_patch({"a": None}), "application/merge-patch+json", b'{"a":null}'),
        (json_patch([{"op": "remove", "path": "/a"}]), "application/json-patch+json", b'[{"op":"remove","path":"/a"}]'),
        (strategic_merge_patch({"a": 1}), "application/strategic-merge-patch+json", b'{"a":1}'),
        (RawPatch(PatchType.MERGE, b"{ }"), "application/merge-patch+json", b"{ }"),
    ],
)
def test_patches_have_their_content_type(patch: RawPatch, content_type: str, body: bytes) -> None:
    """The content type is the patch's, the body what was given."""
    request = build_request(PatchObject(obj=site(), patch=patch), SITE)
    assert request.headers["Content-Type"] == content_type
    assert request.body == body


def test_an_apply_leaves_out_fields_set_by_the_server() -> None:
    """managedFields, creationTimestamp and the like are dropped; the rest is sent unchanged."""
    created = Unstructured.from_tree(
        {
            **to_dict(site()),
            "metadata": {
                "name": "a",
                "namespace": "ns",
                "resourceVersion": "5",
                "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"manager": "x"}],
                "labels": {"a": "b"},
            },
        }
    )
    request = build_request(Apply(obj=created, options=WriteOptions(field_owner="me")), SITE)
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert msgspec.json.decode(request.body)["metadata"] == {
        "name": "a",
        "namespace": "ns",
        "resourceVersion": "5",
        "labels": {"a": "b"},
    }
    assert created.metadata.managed_fields


def test_the_accept_header_matches_the_representation() -> None:
    """Metadata is requested as PartialObjectMetadata (List), everything else as plain JSON."""
    meta = metadata_only(Site)
    assert "as=PartialObjectMetadata;" in build_request(Get(kind=meta, key=KEY), SITE).headers["Accept"]
    assert "as=PartialObjectMetadataList;" in build_request(List(kind=meta), SITE).headers["Accept"]
    assert "as=PartialObjectMetadata;" in build_watch(Watch(kind=meta), SITE).headers["Accept"]
    partial = PartialObjectMetadata("demo.opsdk.dev/v1", "Site", ObjectMeta(name="a", namespace="ns"))
    assert "as=Partial" in build_request(PatchObject(obj=partial, patch=merge_patch({})), SITE).headers["Accept"]
    for kind in (KIND, unstructured_kind("demo.opsdk.dev/v1", "Site")):
        assert build_request(Get(kind=kind, key=KEY), SITE).headers["Accept"] == "application/json"


@pytest.mark.behaviour(21)
@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (Get(kind=KIND, key=ObjectKey("ns", "")), "needs the name"),
        (Get(kind=KIND, key=ObjectKey("", "a")), "needs a namespace"),
        (Update(obj=site(name="")), "needs the name"),
        (Delete(gvk=Site.gvk, key=ObjectKey("ns", "")), "an empty name addresses the whole collection"),
        (Create(obj=site(namespace="")), "is namespaced"),
        (PatchObject(obj=site(name=""), patch=merge_patch({})), "needs the name"),
        (Apply(obj=site()), "needs a field owner"),
        (Apply(obj=site(name=""), options=WriteOptions(field_owner="me")), "needs the name"),
        (Create(obj=site(name=""), subresource="bake"), "needs the name"),
    ],
)
def test_invalid_operations_are_refused_before_they_are_sent(operation: Any, words: str) -> None:
    """Above all a delete without a name, which would delete the collection."""
    with pytest.raises(UsageError, match=words):
        build_request(operation, SITE)


def test_a_create_with_generate_name_needs_no_name() -> None:
    """With generateName the request goes to the collection, without a name."""
    created = site(name="", generate_name="a-")
    request = build_request(Create(obj=created), SITE)
    assert line(request) == f"POST {SITES}"
    assert msgspec.json.decode(request.body)["metadata"] == {"generateName": "a-", "namespace": "ns"}


def test_names_are_escaped() -> None:
    """A name with a slash cannot reach another resource."""
    request = build_request(Get(kind=KIND, key=ObjectKey("ns", "a/../../secrets")), SITE)
    assert "/secrets" not in request.path


def test_requests_have_verb_resource_and_key() -> None:
    """Verb, group, resource, subresource, namespace and name, for messages and metrics."""
    r = build_request(Update(obj=site(), subresource="status"), SITE)
    assert (r.verb, r.group, r.resource, r.subresource, r.namespace, r.name) == (
        "update",
        "demo.opsdk.dev",
        "sites",
        "status",
        "ns",
        "a",
    )


def test_bodies_of_subresources_go_to_the_parents_path() -> None:
    """A subresource body is sent to the parent's path."""
    body = Unstructured.from_tree({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 3}})
    options = WriteOptions(field_owner="me")
    for operation in (
        Create(obj=site(), subresource="scale", body=body),
        Update(obj=site(), subresource="scale", body=body),
        Apply(obj=site(), subresource="scale", body=body, options=options),
    ):
        request = build_request(operation, SITE)
        assert request.path.removesuffix("/scale") == f"{SITES}/a"
        assert msgspec.json.decode(request.body)["kind"] == "Scale"


def test_a_value_without_json_form_raises_encode_error() -> None:
    """An EncodeError says which object it is, for every write."""
    bad = Unstructured("demo.opsdk.dev/v1", "Site", ObjectMeta(name="a", namespace="ns"), {"spec": {"x": object()}})
    for operation in (Create(obj=bad), Update(obj=bad), Apply(obj=bad, options=WriteOptions(field_owner="me"))):
        with pytest.raises(EncodeError, match="Site ns/a"):
            build_request(operation, SITE)


def test_the_core_group_has_its_own_root() -> None:
    """Pods are below /api, not /apis."""
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns"))
    assert line(build_request(Create(obj=pod), POD)) == "POST /api/v1/namespaces/ns/pods"
    assert GroupVersionKind("", "v1", "Pod") == Pod.gvk


@pytest.mark.parametrize(("text", "name"), [("metadata.name=a", "a"), ("metadata.name!=a", ""), ("c=d", ""), ("", "")])
def test_a_list_of_one_object_has_its_name(text: str, name: str) -> None:
    """The server authorizes a list or watch by an exact name as one of this object; the path stays."""
    selector = FieldSelector.parse(text)
    options = ListOptions(namespace="ns", field_selector=selector)
    requests = [
        build_request(List(kind=KIND, options=options), SITE),
        build_watch(Watch(kind=KIND, options=WatchOptions(namespace="ns", field_selector=selector)), SITE),
    ]
    assert [(request.info.name, request.path) for request in requests] == [(name, SITES)] * 2
